"""The rules of robots.txt, and the table that holds them."""

import time

import pytest

from jobs.connectors.repository.web.robots import (
    ALLOW_ALL,
    RobotsAnswer,
    RobotsKind,
    RobotsRules,
    RobotsTable,
    product_token,
)


def rules(text, token="crawlctl"):
    return RobotsRules(RobotsAnswer(RobotsKind.RULES, text=text), token=token)


def allows(text, path, token="crawlctl"):
    return rules(text, token).allows(f"http://a.example{path}")


@pytest.mark.parametrize(
    ("text", "allowed", "forbidden"),
    [
        ("", ["/", "/a"], []),
        ("User-agent: *\nDisallow: /", ["/robots.txt"], ["/", "/a"]),
        ("User-agent: *\nDisallow:", ["/"], []),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", ["/", "/a/b/c"], ["/a", "/ab", "/a/c"]),
        ("User-agent: *\nDisallow: /*.pdf$\nDisallow: /*?", ["/x.pdfs"], ["/x.pdf", "/x?y"]),
        ("User-agent: *\nDisallow: /%7ea", [], ["/~a"]),
        ("User-agent: *\nDisallow: /é", [], ["/%C3%A9"]),
        ("User-agent: other\nDisallow: /", ["/"], []),
        ("User-agent: other\nUser-agent: CrawlCtl\nDisallow: /", [], ["/"]),
        ("User-agent: crawlctl/2.0 (x)\nDisallow: /", [], ["/"]),
        ("User-agent: crawl\nDisallow: /", ["/"], []),
        ("User-agent: crawlctl-images\nDisallow: /", ["/"], []),
        ("User-agent: *\nDisallow: /\nUser-agent: crawlctl\nDisallow: /a", ["/"], ["/a"]),
        ("User-agent: crawlctl\nDisallow: /a\nUser-agent: x\nDisallow: /\nUser-agent: crawlctl\nDisallow: /b",
         ["/c"], ["/a", "/b"]),
        ("Disallow: /\nUser-agent: *\nDisallow: /a", ["/"], ["/a"]),
        ("user-agent:*\r\nDISALLOW : /a # why\r\n", ["/"], ["/a"]),
        ("User-agent: *\nAllow: /a\nDisallow: /a", ["/a"], []),
    ],
)  # fmt: skip
def test_rules_are_read_by_the_standard(text, allowed, forbidden):
    assert [path for path in allowed if not allows(text, path)] == []
    assert [path for path in forbidden if allows(text, path)] == []


@pytest.mark.parametrize(
    ("value", "delay"),
    [("3", 3.0), ("0.5", 0.5), ("86400", 60.0), ("-1", None), ("nan", None), ("inf", None), ("soon", None)],
)
def test_crawl_delay_is_capped(value, delay):
    assert rules(f"User-agent: *\nCrawl-delay: {value}").crawl_delay == delay


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [
        ("crawlctl/0.1 (+https://a.example)", "crawlctl"),
        ("My-Bot_x/1", "My-Bot_x"),
        ("Bot", "Bot"),
        ("1bot", "*"),
    ],
)
def test_the_product_token_begins_the_user_agent(user_agent, token):
    assert product_token(user_agent) == token


def test_a_crawler_without_a_token_follows_the_rules_for_all():
    assert not allows("User-agent: *\nDisallow: /a", "/a", token="*")
    assert allows("User-agent: x\nDisallow: /a", "/a", token="*")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "".join(f"user-agent:a{n}\n" for n in range(17_000)) + "allow:/a\n" * 27_000, id="many agents, many rules"
        ),
        pytest.param("User-agent: *\n" + "".join(f"Disallow: /*a{n}*b\n" for n in range(25_000)), id="many wildcards"),
        pytest.param("User-agent: *\nDisallow: /" + "*a" * 250_000, id="one long rule"),
        pytest.param("\n" * 500_000, id="empty lines"),
        pytest.param("user-agent " * 45_000, id="words"),
    ],
)
def test_no_robots_txt_holds_up_the_process(text):
    begun = time.perf_counter()

    read = rules(text)
    for _ in range(5):
        read.allows("http://a.example/" + "a" * 2000)

    assert time.perf_counter() - begun < 5


def test_the_table_is_bounded_in_count_and_size():
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
