"""Proves the canonical form of web addresses."""

import re
from unittest.mock import patch

import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st

from jobs.connectors.repository.base import hash_of
from jobs.connectors.repository.web import urls
from jobs.connectors.repository.web.limits import Limits
from jobs.connectors.repository.web.urls import (
    BadUrl,
    bin_of,
    canonical,
    directory_of,
    host_and_port,
    origin_of,
    without_userinfo,
)
from tests.support.tables import each_row


@each_row(
    ("typed", "form"),
    [
        ("http://example.com", "http://example.com/"),
        ("HTTP://EXAMPLE.com:80/A", "http://example.com/A"),
        ("https://example.com:443/", "https://example.com/"),
        ("https://example.com:80/", "https://example.com:80/"),
        ("http://example.com/a#b", "http://example.com/a"),
        ("http://example.com/a?b=2&a=1#x?y", "http://example.com/a?b=2&a=1"),
        ("http://example.com/?", "http://example.com/"),
        ("http://example.com/a?#b", "http://example.com/a"),
        ("http://example.com/a??", "http://example.com/a??"),
        ("http://user:secret@example.com/", "http://example.com/"),
        ("http://a@b@example.com/", "http://example.com/"),
        ("http://example.com./a", "http://example.com/a"),
        ("http://example.com.:8080/a", "http://example.com:8080/a"),
        ("  http://example.com/a\n", "http://example.com/a"),
        ("http://exa\nmple.com/a\tb", "http://example.com/ab"),
        ("http:\\\\example.com\\a", "http://example.com/a"),
        ("http:example.com/a", "http://example.com/a"),
        ("http:///example.com/a", "http://example.com/a"),
        ("http://example.com/a b", "http://example.com/a%20b"),
        ("http://example.com/%7euser/%c3%a9%2f", "http://example.com/~user/%C3%A9%2F"),
        ("http://example.com/?q=%7e%2b", "http://example.com/?q=~%2B"),
        ("http://example.com/%zz%", "http://example.com/%zz%"),
        ("http://example.com/%%37e", "http://example.com/%%37e"),
        ("http://example.com/a/../b/./c", "http://example.com/b/c"),
        ("http://example.com/a/%2e%2e/b", "http://example.com/b"),
        ("http://example.com//a//", "http://example.com//a//"),
        ("http://bücher.example/ü", "http://xn--bcher-kva.example/%C3%BC"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://0177.0.0.1/", "http://127.0.0.1/"),
        ("http://\uff11\uff12\uff17.0.0.1/", "http://127.0.0.1/"),
        ("http://[::1]:8080/", "http://[::1]:8080/"),
        ("http://[::FFFF:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
        ("http://[2002:7f00:1::]/", "http://[2002:7f00:1::]/"),
        ("http://a_b.example/", "http://a_b.example/"),
    ],
)  # fmt: skip
def test_every_web_address_has_one_canonical_form(typed, form):
    assert canonical(typed) == form


@each_row(
    ("typed", "reason"),
    [
        ("", "not an address that starts with http:// or https://"),
        ("example.com", "not an address that starts with http:// or https://"),
        ("/a", "not an address that starts with http:// or https://"),
        ("http://", "not an address"),
        ("http://example.com:99999/", "not an address"),
        ("http://example.com:0/", "port 0"),
        ("http://exa mple.com/", "not an address"),
        ("http://[::1/", "not an address"),
        ("http://1.2.3.4.5/", "not an address"),
        ("http://a..b/", "an empty label in the host name"),
        ("http://./", "an empty label in the host name"),
        ("http://example.com../", "an empty label in the host name"),
        ("javascript:alert(1)", "not an http or https address"),
        ("mailto:someone@example.com", "not an http or https address"),
        ("file:///etc/passwd", "not an http or https address"),
        ("ftp://example.com/", "not an http or https address"),
        ("data:text/html,x", "not an http or https address"),
        ("http://example.com/\ud800", "not valid Unicode"),
        ("http://example.com/" + "a" * 2083, "longer than 2083 characters"),
        ("http://example.com/" + "a" * 1_000_000, "longer than 2083 characters"),
        ("http://example.com" + "/a" * 21, "more than 20 path segments"),
    ],
)
def test_a_bad_address_is_refused_with_its_reason(typed, reason):
    with pytest.raises(BadUrl) as refused:
        canonical(typed)

    assert refused.value.reason == reason


def test_address_limits_count_characters_and_path_segments():
    longest = "http://example.com/" + "a" * (2083 - len("http://example.com/"))

    assert canonical(longest) == longest
    assert canonical("http://example.com" + "/a" * 20)
    assert canonical("http://example.com" + "/a" * 20 + "/")
    assert canonical("http://example.com/?" + "/a" * 30)
    with pytest.raises(BadUrl):
        canonical("http://example.com/a/b", limits=Limits(path_segments=1))


def test_no_error_shows_a_password():
    for typed in ("http://user:secret@example.com:99999/", "ftp://user:secret@example.com/", "http:\\\\u:secret@h:0\\"):
        with pytest.raises(BadUrl) as refused:
            canonical(typed)
        assert "secret" not in str(refused.value)
    assert without_userinfo("https://user:secret@example.com/a?b@c") == "https://example.com/a?c"


@each_row(
    ("href", "base", "form"),
    [
        ("b.html", "http://example.com/a/x.html", "http://example.com/a/b.html"),
        ("/b", "http://example.com/a/x.html", "http://example.com/b"),
        ("//other.example/b", "https://example.com/", "https://other.example/b"),
        ("?q=1", "http://example.com/a?b=2", "http://example.com/a?q=1"),
        ("", "http://example.com/a?b=2", "http://example.com/a?b=2"),
        ("#top", "http://example.com/a", "http://example.com/a"),
        ("../../../b", "http://example.com/a/", "http://example.com/b"),
        ("http:b", "http://example.com/a/", "http://example.com/a/b"),
    ],
)
def test_a_reference_is_read_against_its_base(href, base, form):
    assert canonical(href, base) == form


@each_row(
    ("url", "bin_", "origin", "host"),
    [
        ("http://example.com/a", "example.com", "http://example.com", ("example.com", 80)),
        ("https://example.com/a", "example.com", "https://example.com", ("example.com", 443)),
        ("https://example.com:80/", "example.com:80", "https://example.com:80", ("example.com", 80)),
        ("http://[::1]:8080/", "[::1]:8080", "http://[::1]:8080", ("[::1]", 8080)),
        ("http://[::1]/", "[::1]", "http://[::1]", ("[::1]", 80)),
    ],
)
def test_http_and_https_of_a_host_share_a_bin_but_not_an_origin(url, bin_, origin, host):
    assert (bin_of(url), origin_of(url), host_and_port(url)) == (bin_, origin, host)


def test_the_directory_of_an_address_ends_its_path_not_its_query():
    assert directory_of("http://example.com/a/b?c=/d/") == "http://example.com/a/"


def test_the_hash_of_an_address_is_128_bits_of_its_canonical_form():
    assert len(hash_of("http://example.com/")) == 32
    assert hash_of("http://example.com/") != hash_of("http://example.com/??")


@given(
    st.one_of(
        st.text(max_size=60),
        st.text(alphabet="htps:/\\@?#%.[]abc019:&= \n\t", max_size=60),
        st.builds("http://h.example/{}".format, st.text(alphabet="%2e3765af/.?#é\\ ", max_size=30)),
        st.builds("http://{}/".format, st.text(alphabet="abc.:@[]0x1%é", max_size=30)),
    )
)
def test_the_canonical_form_of_a_canonical_form_is_the_same(typed):
    try:
        form = canonical(typed)
    except BadUrl:
        return

    assert canonical(form) == form
    assert form.isascii()
    assert form.startswith(("http://", "https://"))
    assert "#" not in form
    assert "@" not in bin_of(form)


@given(
    href=st.text(max_size=40), base=st.sampled_from(["http://a.example/b/c?d", "https://[::1]:8/", "http://a.example/"])
)
def test_every_reference_is_either_read_or_refused(href, base):
    try:
        form = canonical(href, base)
    except BadUrl:
        return

    assert canonical(form) == form


_HOSTS = st.text(alphabet="abxnz-019.", max_size=12) | st.sampled_from(
    ["a.example", "xn--a", "a.xn--b-.c", "0x1", "a.1", "A", "127.0.0.1", "10.0.0.256", "1.2.3", "01.2.3.4"]
)
_PORTS = st.sampled_from(["", ":80", ":443", ":8080", ":08080", ":59999", ":65536", ":1", ":0", ":"])
_PATHS = st.text(alphabet="ab/.~_-:;@!$&'()*+,=%2e?^|{} \\#", max_size=20)
_ADDRESSES = st.builds("{}://{}{}/{}".format, st.sampled_from(["http", "https", "ftp", "HTTP"]), _HOSTS, _PORTS, _PATHS)


def read_or_refused(href, base):
    try:
        return canonical(href, base, limits=Limits(path_segments=6))
    except BadUrl as refused:
        return refused.reason


@given(
    href=_ADDRESSES | _PATHS | st.builds("{}{}".format, st.text(alphabet="./", max_size=12), _PATHS), base=_ADDRESSES
)
@example(href="../../page", base="http://a.example/b/")
@example(href="../page", base="http://a.example/")
@example(href="../page", base="http://a.example//")
@example(href="a:b", base="http://a.example/")
@example(href="page", base="http://a.example/b?c/d")
@example(href="/page", base="http://user:word@a.example/b")
@example(href="http:page", base="http://a.example/b/c")
@example(href="//b.example/", base="http://a.example/")
def test_the_fast_path_reads_the_same_as_the_parser(href, base):
    try:
        base = canonical(base)
    except BadUrl:
        reject()
    quickly = read_or_refused(href, base)

    with patch.object(urls, "_PLAIN", re.compile("(?!)")):
        assert read_or_refused(href, base) == quickly


@each_row(
    "href",
    ["http://b.example:8080/p/1.html?q=2", "http://10.0.0.255/1.html", "/p/1.html", "1.html", "../1.html", "q/1.html"],
)
def test_a_plain_link_needs_no_parser(href):
    with patch.object(urls, "join_url", side_effect=AssertionError("a parser was asked")):
        assert canonical(href, "http://a.example/p/").endswith("/1.html" if "?" not in href else "?q=2")
