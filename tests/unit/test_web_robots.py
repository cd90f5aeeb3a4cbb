"""Proves that the table of robots.txt answers is bounded, and that an origin is reachable again after refusals."""

from jobs.connectors.repository.web.robots import ALLOW_ALL, RobotsAnswer, RobotsKind, RobotsTable


def test_the_table_of_robots_txt_is_bounded_in_count_and_size():
    table = RobotsTable()

    for n in range(9000):
        table.learn(f"http://{n}.example", ALLOW_ALL, lives_for=60)
    assert table.known("http://0.example") is None
    assert table.known("http://8999.example") is not None

    for n in range(50):
        table.learn(f"http://{n}.example", RobotsAnswer(RobotsKind.RULES, text="#" * 500_000), lives_for=60)
    assert sum(len(known.answer.text) for known in table._known.values()) <= 16 * 1024 * 1024
    assert table.known("http://49.example") is not None


def test_an_origin_that_answers_after_refusals_is_reachable_again():
    now = [100.0]
    table = RobotsTable(clock=lambda: now[0])
    unreachable = RobotsAnswer(RobotsKind.UNREACHABLE)

    table.learn("http://a.example", unreachable, lives_for=1)
    now[0] = 130.0
    table.learn("http://a.example", unreachable, lives_for=1)
    assert table.unreachable_for("http://a.example") == 30.0

    table.learn("http://a.example", ALLOW_ALL, lives_for=1)
    assert table.unreachable_for("http://a.example") == 0.0
