"""Proves that valid cookies are stored, and added to the right requests only."""

from jobs.connectors.repository.web.cookies import Cookies
from tests.support.tables import each_row

SET_BY = "https://www.site.example/shop/cart"


def header_sent(header, url, *, by=SET_BY):
    return Cookies().with_those_of(by, [header]).header_for(url)


@each_row(
    ("header", "url"),
    [
        ("a=1", "https://www.site.example/shop/other"),
        ("a=1; Path=/", "https://www.site.example/"),
        ("a=1; Path=/shop", "https://www.site.example/shop"),
        ("a=1; Domain=site.example; Path=/", "https://site.example/"),
        ("a=1; Domain=.Site.example; Path=/", "https://other.site.example/"),
        ("a=1; Secure; Path=/; HttpOnly; Max-Age=60", "https://www.site.example/"),
        ("a=1; Path=/; Expires=Wed, 21 Oct 2099 07:28:00 GMT", "https://www.site.example/"),
        ("a=1; Path=/", "https://www.site.example:8443/x"),
    ],
)
def test_a_cookie_is_sent_to_the_addresses_for_which_it_was_set(header, url):
    assert header_sent(header, url) == "a=1"


@each_row(
    ("header", "url"),
    [
        ("a=1", "https://www.site.example/"),
        ("a=1; Path=/shop", "https://www.site.example/shopping"),
        ("a=1; Path=/", "https://other.site.example/"),
        ("a=1; Path=/", "https://evil-www.site.example/"),
        ("a=1; Domain=site.example; Path=/", "https://evilsite.example/"),
        ("a=1; Domain=elsewhere.example; Path=/", "https://elsewhere.example/"),
        ("a=1; Secure; Path=/", "http://www.site.example/"),
        ("a; Path=/", "https://www.site.example/"),
        ("=1; Path=/", "https://www.site.example/"),
        ("a=1\x00; Path=/", "https://www.site.example/"),
        (f"a={'1' * 5000}; Path=/", "https://www.site.example/"),
    ],
)
def test_a_cookie_is_sent_to_no_other_address(header, url):
    assert header_sent(header, url) == ""


def test_an_ip_address_has_no_subdomains():
    assert header_sent("a=1; Domain=0.0.1; Path=/", "http://127.0.0.1/", by="http://127.0.0.1/") == ""
    assert header_sent("a=1; Domain=127.0.0.1; Path=/", "http://127.0.0.1/", by="http://127.0.0.1/") == "a=1"


@each_row(
    ("by", "domain", "other"),
    [
        ("https://www.shop.co.uk/", "co.uk", "https://bank.co.uk/"),
        ("https://www.shop.co.uk/", ".CO.UK", "https://bank.co.uk/"),
        ("https://www.shop.com/", "com", "https://bank.com/"),
        ("https://one.github.io/", "github.io", "https://two.github.io/"),
        ("https://one.xn--55qx5d.cn/", "xn--55qx5d.cn", "https://two.xn--55qx5d.cn/"),
        ("https://one.foo.ck/", "foo.ck", "https://two.foo.ck/"),
        ("http://wiki.intranet/", "intranet", "http://mail.intranet/"),
    ],
)
def test_a_cookie_for_a_public_suffix_is_not_kept(by, domain, other):
    cookies = Cookies().with_those_of(by, [f"a=1; Domain={domain}; Path=/"])

    assert cookies == Cookies()
    assert cookies.header_for(other) == ""


@each_row("host", ["github.io", "intranet"])
def test_a_cookie_of_a_public_suffix_stays_on_that_host(host):
    cookies = Cookies().with_those_of(f"https://{host}/", [f"a=1; Domain={host}; Path=/"])

    assert cookies.header_for(f"https://{host}/") == "a=1"
    assert cookies.header_for(f"https://other.{host}/") == ""


def test_a_cookie_for_a_registered_domain_goes_to_its_hosts():
    cookies = Cookies().with_those_of("https://www.shop.co.uk/", ["a=1; Domain=shop.co.uk; Path=/"])

    assert cookies.header_for("https://pay.shop.co.uk/") == "a=1"


@each_row("end", ["Max-Age=0", "Max-Age=-1", "Expires=Thu, 01 Jan 1970 00:00:00 GMT"])
def test_a_revoked_or_replaced_cookie_no_longer_exists(end):
    cookies = Cookies().with_those_of(SET_BY, ["a=1; Path=/", "b=2; Path=/", "b=3; Path=/"])

    assert cookies.with_those_of(SET_BY, [f"a=; Path=/; {end}"]).header_for(SET_BY) == "b=3"


@each_row("age", ["--1", "\u00b2", "-", "1.5", "never"])
def test_an_age_that_is_no_number_is_ignored(age):
    cookies = Cookies().with_those_of(SET_BY, [f"a=1; Path=/; Max-Age={age}"])

    assert cookies.header_for(SET_BY) == "a=1"


def test_cookies_are_stored_and_read_again_and_longer_paths_come_first():
    cookies = Cookies().with_those_of(SET_BY, ["a=1; Path=/", "b=2; Path=/shop"])

    assert Cookies.read(cookies.stored()) == cookies
    assert cookies.header_for(SET_BY) == "b=2; a=1"
