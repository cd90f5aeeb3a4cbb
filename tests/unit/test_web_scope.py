"""Proves that the kind of a scope, patterns and redirects decide which addresses belong to a web crawl."""

import time

import pytest

from jobs.connectors.repository.web.scope import BadPattern, Scope, ScopeKind, compile_pattern
from jobs.connectors.repository.web.suffixes import registrable_domain
from tests.support.tables import each_row


@each_row(
    ("kind", "seed", "inside", "outside"),
    [
        (
            ScopeKind.HOST,
            "http://www.example.com/a/b",
            ["http://www.example.com/", "https://www.example.com/x"],
            ["http://example.com/", "http://www.example.com:8080/", "http://www.example.com:443/", "http://www.example.com.evil.example/"],
        ),
        (
            ScopeKind.HOST,
            "http://127.0.0.1:8000/",
            ["http://127.0.0.1:8000/x", "https://127.0.0.1:8000/x"],
            ["http://127.0.0.1/", "http://127.0.0.1:8001/", "http://127.0.0.2:8000/"],
        ),
        (
            ScopeKind.HOST,
            "https://[::1]/",
            ["http://[::1]/x", "http://[::1]:443/"],
            ["http://[::2]/", "https://[::1]:80/", "http://[::1]:8080/"],
        ),
        (
            ScopeKind.DOMAIN,
            "http://www.bbc.co.uk/",
            ["https://news.bbc.co.uk:8443/x", "http://bbc.co.uk/"],
            ["http://www.itv.co.uk/", "http://co.uk/", "http://notbbc.co.uk/"],
        ),
        (
            ScopeKind.DOMAIN,
            "http://one.github.io/",
            ["http://one.github.io/x", "http://www.one.github.io/"],
            ["http://two.github.io/", "http://github.io/"],
        ),
        (
            ScopeKind.DOMAIN,
            "http://10.0.0.1/",
            ["http://10.0.0.1:81/x"],
            ["http://10.0.0.2/", "http://1.10.0.0.1.example/"],
        ),
        (ScopeKind.DOMAIN, "http://localhost:1/", ["http://localhost:2/"], ["http://www.localhost.example/"]),
        (
            ScopeKind.PREFIX,
            "http://example.com/docs/index.html?x=/y/",
            ["http://example.com/docs/", "http://example.com/docs/a/b?c"],
            ["http://example.com/docs", "http://example.com/", "https://example.com/docs/a", "http://example.com/docs2/"],
        ),
        (ScopeKind.ANY, "http://example.com/", ["http://other.example/"], []),
    ],
)  # fmt: skip
def test_a_kind_of_scope_contains_its_documents(kind, seed, inside, outside):
    scope = Scope(kind=kind, seeds=[seed])

    assert [url for url in [seed, *inside] if not scope.admits(url)] == []
    assert [url for url in outside if scope.admits(url)] == []


@each_row("kind", [ScopeKind.HOST, ScopeKind.DOMAIN, ScopeKind.PREFIX])
def test_the_scope_of_several_seeds_is_their_union(kind):
    scope = Scope(kind=kind, seeds=["http://a.example/x/", "http://b.example/y/"])

    assert scope.admits("http://a.example/x/1")
    assert scope.admits("http://b.example/y/1")
    assert not scope.admits("http://c.example/x/1")


def test_patterns_of_a_job_narrow_its_scope():
    scope = Scope(
        kind=ScopeKind.HOST, seeds=["http://a.example/"], include=["/en/", "/de/"], exclude=[r"\.pdf$", "secret"]
    )

    assert scope.why_not("http://a.example/en/x") is None
    assert scope.why_not("http://a.example/de/x") is None
    assert scope.why_not("http://a.example/fr/x") == "no include pattern matches it"
    assert scope.why_not("http://a.example/en/x.pdf") == r"the exclude pattern '\\.pdf$' matches it"
    assert scope.why_not("http://b.example/en/x") == "outside of the scope 'host' of every seed"


def test_a_stored_link_may_lead_to_a_host_that_a_seed_redirected_to():
    scope = Scope(kind=ScopeKind.HOST, seeds=["http://a.example.org/"], exclude=["private"])

    assert scope.may_admit("http://a.example.org/page")
    assert scope.may_admit("http://www.example.org/page")
    assert not scope.may_admit("http://www.example.org/private")
    assert not scope.may_admit("http://www.another.net/page")


def test_a_stored_link_leads_to_no_other_directory_of_a_seeds_own_host():
    scope = Scope(kind=ScopeKind.PREFIX, seeds=["http://a.example.org/docs/"])

    assert scope.may_admit("http://a.example.org/docs/page")
    assert not scope.may_admit("http://a.example.org/blog/page")


def test_an_address_with_a_dropped_parameter_belongs_only_as_a_seed():
    scope = Scope(kind=ScopeKind.HOST, seeds=["http://a.example/?sid=1"], dropped=frozenset({"sid"}))

    assert [scope.admits(f"http://a.example/{path}") for path in ("?sid=1", "?sid=2", "x?SID=1&y=2", "x?y=2", "x")] == [
        *(True, False, False, True, True)
    ]
    assert (
        scope.why_not("http://a.example/x?sid=1&y=2")
        == "links lose parameters, and lead to http://a.example/x?y=2 instead"
    )


def test_patterns_of_a_job_also_apply_to_its_seeds():
    scope = Scope(kind=ScopeKind.HOST, seeds=["http://a.example/"], exclude=["example"])

    assert not scope.admits("http://a.example/")


@pytest.mark.parametrize(
    ("pattern", "position", "reason"),
    [
        ("(", 0, "missing ), unterminated subpattern"),
        ("ab(c", 2, "missing ), unterminated subpattern"),
        ("a[b", 1, "unterminated character set"),
        ("*a", 0, "nothing to repeat"),
        ("a\\", 1, "bad escape (end of pattern)"),
        ("[z-a]", 1, "bad character range z-a"),
        ("ab(?=x)", 2, "not possible in linear time (invalid perl operator (?=)"),
        ("(?<!a)b", 0, "not possible in linear time (invalid perl operator (?<!)"),
        ("(a)\\\\\\1", 5, "not possible in linear time (invalid escape sequence \\1)"),
        ("ba{1001}", 2, "not possible in linear time (invalid repetition size {1001})"),
        ("a" * 10_001, 10_000, "longer than 10000 characters"),
        ("a\ud800", 1, "not valid Unicode"),
    ],
)
def test_a_bad_pattern_is_refused_with_its_position(pattern, position, reason, capfd):
    with pytest.raises(BadPattern) as refused:
        compile_pattern(pattern)

    assert (refused.value.position, refused.value.reason) == (position, reason)
    assert f"position {position}" in str(refused.value)
    assert capfd.readouterr().err == ""


def test_a_deeply_nested_pattern_does_no_harm():
    assert compile_pattern("(" * 5000 + ")" * 5000).search("x")
    with pytest.raises(BadPattern):
        compile_pattern("(" * 10_000)


def test_every_pattern_is_matched_in_linear_time():
    pattern = compile_pattern("(a+)+$")
    url = "http://a.example/" + "a" * 2000 + "!"
    begun = time.process_time()

    for _ in range(1000):
        assert pattern.search(url) is None

    assert time.process_time() - begun < 5


@each_row(
    ("host", "domain"),
    [
        ("www.example.com", "example.com"),
        ("a.b.c.example.co.uk", "example.co.uk"),
        ("co.uk", "co.uk"),
        ("intranet", "intranet"),
        ("127.0.0.1", "127.0.0.1"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        ("www.xn--bcher-kva.de", "xn--bcher-kva.de"),
    ],
)
def test_a_registrable_domain_is_read_from_the_packaged_list(host, domain):
    assert registrable_domain(host) == domain


@each_row(
    ("host", "domain"), [("www.example.lan", "example.lan"), ("a.b.example.test", "example.test"), ("s3.amazonaws.com", "s3.amazonaws.com")]
)  # fmt: skip
def test_a_name_below_an_unlisted_suffix_has_a_registrable_domain(host, domain):
    assert registrable_domain(host) == domain


@each_row(
    ("source", "target", "is_followed"),
    [
        ("http://example.com/", "http://www.example.com/", True),
        ("http://www.example.com/", "https://example.com/x", True),
        ("http://example.com/", "http://example.com:8080/", True),
        ("http://example.com/", "http://example.org/", False),
        ("http://one.github.io/", "http://two.github.io/", False),
        ("http://127.0.0.1:1/", "http://127.0.0.1:2/", False),
        ("http://localhost:1/", "http://localhost:2/", False),
    ],
)
def test_a_redirect_extends_a_scope_within_one_registrable_domain(source, target, is_followed):
    scope = Scope(kind=ScopeKind.HOST, seeds=[source])
    assert scope.would_admit(target, after=source) == is_followed

    scope.follow([(source, target)])

    assert scope.admits(target) == is_followed


def test_a_chain_of_redirects_is_followed_in_any_order():
    scope = Scope(kind=ScopeKind.HOST, seeds=["http://example.com/"])

    scope.follow(
        [("http://www.example.com/", "http://m.example.com/"), ("http://example.com/", "http://www.example.com/")]
    )

    assert scope.admits("http://m.example.com/x")


def test_a_redirect_of_an_address_that_is_no_seed_extends_nothing():
    scope = Scope(kind=ScopeKind.HOST, seeds=["http://example.com/"])

    scope.follow([("http://shop.example.com/", "http://www.example.com/")])

    assert not scope.admits("http://www.example.com/")


def test_a_prefix_moves_to_the_new_host_and_stays_a_prefix():
    scope = Scope(kind=ScopeKind.PREFIX, seeds=["http://example.com/docs/"])
    assert not scope.would_admit("http://www.example.com/", after="http://example.com/docs/")
    assert scope.would_admit("https://example.com/docs/", after="http://example.com/docs/")

    scope.follow([("http://example.com/docs/", "http://www.example.com/docs/")])

    assert scope.admits("http://www.example.com/docs/a")
    assert not scope.admits("http://www.example.com/blog/")


def test_patterns_also_apply_to_the_host_to_which_a_seed_redirects():
    scope = Scope(kind=ScopeKind.HOST, seeds=["http://example.com/"], exclude=["/login"])

    assert not scope.would_admit("http://www.example.com/login", after="http://example.com/")
