"""Proves that the delete guard asks before large removals, and names their cause."""

from jobs.guard.decision import Facts, HostShare, Parent, ParentState, Refused, Seed, Thresholds, question, should_ask
from tests.support.tables import each_row

USUAL = Thresholds(percent=5, host_percent=50, documents=20, asks_for_seeds=True)
GONE = Seed("http://a.example/", "a.example", ParentState.GONE, "404")


@each_row(
    ("leaving", "staying", "asks"),
    [
        (0, 0, False),
        (0, 100, False),
        (20, 0, False),
        (21, 0, True),
        (21, 399, False),
        (21, 398, True),
        (5_000, 10**6, False),
    ],
)
def test_both_thresholds_have_to_be_exceeded(leaving, staying, asks):
    assert should_ask(Facts(leaving, staying), USUAL) is asks


@each_row(
    ("seed", "thresholds", "asks"),
    [
        (GONE, USUAL, True),
        (Seed("http://a.example/", "a.example", ParentState.EMPTY, "200"), USUAL, False),
        (GONE, Thresholds(percent=5, host_percent=50, documents=20, asks_for_seeds=False), False),
        (GONE, Thresholds(percent=None, host_percent=50, documents=0, asks_for_seeds=True), False),
    ],
)
def test_the_guard_asks_about_a_lost_seed_for_any_number_of_removals(seed, thresholds, asks):
    assert should_ask(Facts(1, 1_000, seeds=[seed]), thresholds) is asks


@each_row(
    ("leaving", "staying", "host_percent", "asks"),
    [(180, 20, 50, True), (100, 100, 50, False), (20, 0, 50, False), (180, 20, None, False), (180, 20, 95, False)],
)
def test_the_guard_asks_if_one_of_many_hosts_loses_most_documents(leaving, staying, host_percent, asks):
    hosts = [HostShare("big.example", 200, 90_000), HostShare("a.example", leaving, staying)]
    thresholds = Thresholds(percent=5, host_percent=host_percent, documents=20, asks_for_seeds=True)

    assert should_ask(Facts(200 + leaving, 90_000 + staying, hosts), thresholds) is asks


def test_the_request_for_approval_names_the_host_that_loses_most():
    hosts = [HostShare("big.example", 200, 90_000), HostShare("a.example", 180, 20)]

    assert "a.example would lose 180 of 200." in question(Facts(380, 90_020, hosts), USUAL)
    assert "All are on a.example, which has 200." in question(Facts(180, 90_020, hosts[1:]), USUAL)


@each_row("state", [ParentState.EMPTY, ParentState.REDIRECTS, ParentState.REPLACED])
@each_row(("leaving", "staying", "asks"), [(9, 1, True), (2, 1, True), (1, 1, False), (1, 5, False), (9, 10, False)])
def test_the_guard_asks_about_a_seed_without_links_if_most_documents_need_it(state, leaving, staying, asks):
    seed = Seed("http://a.example/", "a.example", state, "200")
    facts = Facts(leaving, 1_000 + staying, [HostShare("a.example", leaving, staying)], seeds=[seed])

    assert should_ask(facts, USUAL) is asks


def test_the_guard_asks_about_a_seed_without_links_only_for_its_host():
    seed = Seed("http://a.example/", "a.example", ParentState.EMPTY, "200")

    assert not should_ask(Facts(3, 1_000, [HostShare("b.example", 3, 0)], seeds=[seed]), USUAL)


def test_the_guard_asks_nothing_about_a_lost_seed_without_removals():
    assert not should_ask(Facts(0, 1_000, seeds=[GONE]), USUAL)


@each_row(
    ("facts", "cause"),
    [
        (
            {"parents": [Parent("http://a.example/", ParentState.GONE, "404", 180, 180)]},
            "http://a.example/ cannot be read any more",
        ),
        (
            {"parents": [Parent("http://a.example/list", ParentState.CHANGED, "200", 180, 180)]},
            "list no longer names them",
        ),
        (
            {"seeds": [GONE], "parents": [Parent("http://a.example/b", ParentState.CHANGED, "200", 10, 10)]},
            "The seed http",
        ),
        (
            {"parents": [Parent(f"http://a.example/{n}", ParentState.CHANGED, "200", 50, 50) for n in range(4)]},
            "4 documents",
        ),
        (
            {"parents": [Parent("http://a.example/", ParentState.GONE, "404", 3, 180)]},
            "its links had led to 180 of them.",
        ),
        (
            {"parents": [Parent("http://a.example/", ParentState.GONE, "404", 3, 90)], "followed": 90},
            "its links had led to 90 or more of them.",
        ),
        ({"outside": 150}, "The hop limits of the job exclude 150 of them."),
        ({"rules": Refused(200, 150)}, "The job's own rules and seeds exclude 150 of them."),
        ({"rules": Refused(100, 60)}, "exclude 60 of the 100 that were compared."),
        (
            {"rules": Refused(200, 90), "parents": [Parent("http://a.example/", ParentState.CHANGED, "200", 5, 180)]},
            "its links had led to 180",
        ),
        ({"hosts": [HostShare("a.example", 200, 1)]}, "Were rules or seeds of the job changed?"),
    ],
)
def test_the_request_for_approval_names_the_cause_of_most_removals(facts, cause):
    sentence = question(Facts(200, 1, **facts), USUAL)

    assert sentence.startswith("200 of 201 documents would be removed (100 %).")
    assert cause in sentence
