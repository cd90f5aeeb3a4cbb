"""Proves that robots.txt is read by RFC 9309, and that the name of the crawler selects its rules."""

import time

import pytest

from jobs.connectors.repository.web.robots_rules import RobotsRules, has_rules, name_of, sitemaps_in
from tests.support.tables import each_row


def rules(text, name="crawlctl"):
    return RobotsRules(text, name=name)


def allows(text, path, name="crawlctl"):
    return rules(text, name).allows(f"http://a.example{path}")


@each_row(
    ("text", "allowed", "forbidden"),
    [
        ("", ["/", "/a"], []),
        ("User-agent: *\nDisallow: /", ["/robots.txt"], ["/", "/a"]),
        ("User-agent: *\nDisallow:", ["/"], []),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", ["/", "/a/b/c"], ["/a", "/ab", "/a/c"]),
        ("User-agent: *\nDisallow: /*.pdf$\nDisallow: /*?", ["/x.pdfs"], ["/x.pdf", "/x?y"]),
        ("User-agent: *\nDisallow: /%7ea", [], ["/~a"]),
        ("User-agent: *\nDisallow: /é", [], ["/%C3%A9"]),
        ("User-agent: *\nDisallow: /%C3%A9", [], ["/é"]),
        ("User-agent: *\nDisallow: /A", ["/a"], ["/A"]),
        ("User-agent: *\nDisallow: a", ["/a"], []),
        ("User-agent: *\nDisallow: /a?b=c&d=http://e.example/f", ["/a"], ["/a?b=c&d=http://e.example/f"]),
        ("User-agent: other\nDisallow: /", ["/"], []),
        ("User-agent: other\nUser-agent: CrawlCtl\nDisallow: /", [], ["/"]),
        ("User-agent: crawlctl/2.0 (x)\nDisallow: /", [], ["/"]),
        ("User-agent: crawlctl images\nDisallow: /", [], ["/"]),
        ("User-agent: crawl\nDisallow: /", ["/"], []),
        ("User-agent: crawlctl-images\nDisallow: /", ["/"], []),
        ("User-agent: crawlctl2\nDisallow: /", ["/"], []),
        ("User-agent: *\nDisallow: /\nUser-agent: crawlctl\nDisallow: /a", ["/"], ["/a"]),
        ("User-agent: crawlctl\nDisallow:\n\nUser-agent: *\nDisallow: /", ["/"], []),
        ("User-agent: crawlctl\nDisallow: /a\nUser-agent: x\nDisallow: /\nUser-agent: crawlctl\nDisallow: /b",
         ["/c"], ["/a", "/b"]),
        ("User-agent: *\nDisallow: /a\n\nUser-agent: x\nDisallow: /\n\nUser-agent: *\nDisallow: /b",
         ["/c"], ["/a", "/b"]),
        ("Disallow: /\nUser-agent: *\nDisallow: /a", ["/"], ["/a"]),
        ("user-agent:*\r\nDISALLOW : /a # why\r\n", ["/"], ["/a"]),
        ("User-agent: *\rDisallow: /a\rDisallow: /b", ["/"], ["/a", "/b"]),
        ("User-agent *\nDisallow /a", ["/"], ["/a"]),
        ("User agent: *\nDissallow: /a", ["/"], ["/a"]),
        ("foo: crawlctl\nbar: /", ["/"], []),
        ("User-agent: *\nAllow: /a\nDisallow: /a", ["/a"], []),
        ("User-agent: *\nDisallow: /a\u2028Allow: /b\nDisallow: /c", ["/a"], ["/c"]),
    ],
)  # fmt: skip
def test_rules_of_robots_txt_are_read_by_the_standard(text, allowed, forbidden):
    assert [path for path in allowed if not allows(text, path)] == []
    assert [path for path in forbidden if allows(text, path)] == []


def test_the_example_of_the_standard_is_read_as_it_says():
    text = """
        User-Agent: *
        Disallow: *.gif$
        Disallow: /example/
        Allow: /publications/

        User-Agent: foobot
        Disallow:/
        Allow:/example/page.html
        Allow:/example/allowed.gif

        User-Agent: barbot
        User-Agent: bazbot
        Disallow: /example/page.html

        User-Agent: quxbot
        """
    read = {
        name: [allows(text, path, name) for path in ("/example/page.html", "/example/x", "/publications/", "/y.gif")]
        for name in ("foobot", "barbot", "bazbot", "quxbot", "another")
    }

    assert read == {
        "foobot": [True, False, False, False],
        "barbot": [False, True, True, True],
        "bazbot": [False, True, True, True],
        "quxbot": [True, True, True, True],
        "another": [False, False, True, False],
    }


@each_row(
    "between",
    [
        "Sitemap: https://a.example/map",
        "Crawl-delay: 5",
        "Unknown: x",
        "Host: a.example",
        "Request-rate: 1/5",
        "",
        "# x",
    ],
)
def test_lines_other_than_rules_do_not_end_a_list_of_agents(between):
    text = f"User-agent: crawlctl\n{between}\nUser-agent: other\nDisallow: /"

    assert not allows(text, "/")
    assert not allows(text, "/", name="other")
    assert allows(text, "/", name="third")


@each_row("between", ["Disallow:", "Allow: /a"])
def test_even_an_empty_rule_ends_a_list_of_agents(between):
    text = f"User-agent: crawlctl\n{between}\nUser-agent: other\nDisallow: /"

    assert allows(text, "/")
    assert not allows(text, "/", name="other")


@each_row("agent", ["*SomeBot*", "*SomeBot", "SomeBot*"])
def test_an_agent_with_stars_in_its_name_does_not_mean_everyone(agent):
    text = f"User-agent: {agent}\nDisallow: /"

    assert allows(text, "/")
    assert not allows(text, "/", name="SomeBot")


def test_a_star_followed_by_a_blank_and_any_text_means_everyone():
    assert not allows("User-agent: * (all)\nDisallow: /", "/")


@each_row("name", ["360Spider", "bot2go", "a_b-c9"])
def test_names_of_agents_keep_their_digits(name):
    text = f"User-agent: {name}\nDisallow: /\n\nUser-agent: *\nDisallow:"

    assert not allows(text, "/", name=name)
    assert not allows(text, "/", name=name.upper())
    assert allows(text, "/", name=f"{name}2")


@each_row(
    ("value", "delay"),
    [("3", 3.0), ("0.5", 0.5), ("86400", 60.0), ("-1", None), ("nan", None), ("inf", None), ("soon", None)],
)
def test_crawl_delay_is_capped(value, delay):
    assert rules(f"User-agent: *\nCrawl-delay: {value}").crawl_delay == delay


def test_a_crawl_delay_holds_for_the_agents_above_it():
    text = "User-agent: slow\nCrawl-delay: 10\nUser-agent: *\nDisallow: /a"

    assert (rules(text, "slow").crawl_delay, rules(text).crawl_delay) == (10.0, None)
    assert (allows(text, "/a", "slow"), allows(text, "/a")) == (False, False)


@each_row(
    ("user_agent", "name"),
    [
        ("crawlctl/0.1 (+https://a.example)", "crawlctl"),
        ("My-Bot_x/1", "My-Bot_x"),
        ("Bot", "Bot"),
        ("360Spider/1.0", "360Spider"),
        ("bot2go", "bot2go"),
        ("(nameless)", "*"),
        ("Mozilla/5.0 (compatible; OurBot/1.0; +https://a.example/bot)", "OurBot"),
        ("Mozilla/5.0 (Linux; Android 6) AppleWebKit/537 (KHTML, like Gecko) Safari/537 (compatible; OurBot/2.1)", "OurBot"),
        ("mozilla/5.0 ( Compatible ; 360Spider )", "360Spider"),
        ("Mozilla/5.0 (X11; Linux x86_64)", "Mozilla"),
        ("OurBot/1.0 (compatible; Other/2)", "OurBot"),
    ],
)  # fmt: skip
def test_the_name_is_the_first_word_or_the_one_after_compatible(user_agent, name):
    assert name_of(user_agent) == name


def test_a_crawler_without_a_name_follows_the_rules_for_everyone():
    assert not allows("User-agent: *\nDisallow: /a", "/a", name="*")
    assert allows("User-agent: x\nDisallow: /a", "/a", name="*")


@each_row(
    ("text", "expected"),
    [
        ("<!-- ours -->\nUser-agent: *\nDisallow: /a", True),
        ("<html><pre>\nUser-agent: *\nDisallow: /a\n</pre>", True),
        ("User-agent: *\nCrawl-delay: 3", True),
        ("<html><p>Allow: all</p>", False),
        ("Disallow: /", False),
        ("User-agent: *", False),
        ("", False),
    ],
)
def test_a_text_with_a_rule_of_robots_txt_is_not_taken_for_a_web_page(text, expected):
    assert has_rules(text) == expected


def test_rules_of_robots_txt_after_an_html_comment_apply():
    assert not allows("<!-- ours -->\n<!--\n-->\nUser-agent: *\nDisallow: /a", "/a")


@each_row(
    "text",
    [
        pytest.param(
            "".join(f"user-agent:a{n}\n" for n in range(17_000)) + "allow:/a\n" * 27_000, id="many agents, many rules"
        ),
        pytest.param("User-agent: *\n" + "".join(f"Disallow: /*a{n}*b\n" for n in range(25_000)), id="many wildcards"),
        pytest.param("User-agent: *\nDisallow: /" + "*a" * 250_000, id="one long rule"),
        pytest.param("\n" * 500_000, id="empty lines"),
        pytest.param("user-agent " * 45_000, id="words"),
        pytest.param("User-agent: *\nDisallow" + " " * 500_000, id="blanks"),
    ],
)
def test_no_robots_txt_blocks_the_process(text):
    begun = time.process_time()

    assert has_rules(text) in {True, False}
    read = rules(text)
    for _ in range(5):
        read.allows("http://a.example/" + "a" * 2000)

    assert time.process_time() - begun < 5


def test_sitemaps_are_found_quickly_in_any_group():
    text = "SITEMAP:https://a.example/1\r\nUser-agent: x\r  sitemap : https://a.example/2\nNo-Sitemap: 3\nSitemap:\n"
    hostile = "\n" * 300_000 + " " * 300_000

    began = time.process_time()
    found = list(sitemaps_in(text)), list(sitemaps_in(hostile))

    assert found == (["https://a.example/1", "https://a.example/2"], [])
    assert time.process_time() - began < 1
