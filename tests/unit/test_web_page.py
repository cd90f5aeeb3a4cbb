"""Proves that text, title, links and robots rules are read from an HTML page, in bounded time."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.connectors.metadata import of_page
from jobs.connectors.repository.web.reading import moment_of
from jobs.reading.page import RobotsDirectives, directives_of_headers, read_page
from tests.support.tables import each_row


def read(html):
    return read_page(html, robots_name="crawlctl")


@each_row(
    ("html", "text"),
    [
        ("<p>one<p>two", "one\ntwo"),
        ("<div>one</div>two", "one\ntwo"),
        ("<div><span>one</span></div><b>two</b>", "one\ntwo"),
        ("one<br>two", "one\ntwo"),
        ("w<b>or</b>d<i>s</i>, and", "words, and"),
        ("<p> one \n\t two&nbsp;three </p>", "one two three"),
        ("<ul><li>a<li>b</ul><table><tr><td>c<td>d</table>", "a\nb\nc\nd"),
        ("<script>no()</script><style>no{}</style><template>no</template>yes", "yes"),
        ("<body><noscript>no</noscript>yes<textarea>no</textarea><iframe>no</iframe>", "yes"),
        ("<select><option>no</select>yes<svg><title>no</title><text>no</text></svg>", "yes"),
        ("<nav>no</nav><header>no</header>yes<aside>no</aside><footer>no</footer>", "yes"),
        ("<article><header><h1>yes</h1></header>text<footer>sure</footer></article>", "yes\ntext\nsure"),
        ("short<main>This is the main part of the page</main>", "This is the main part of the page"),
        ("A long introduction that is most of the page<main>short</main>", "A long introduction that is most of the page\nshort"),
        ("x<article>This is the only article here</article>", "This is the only article here"),
        ("<article>first article</article><article>second article</article>", "first article\nsecond article"),
        ("<!-- no -->&lt;p&gt; &amp;c", "<p> &c"),
        ("a\x00b&#0;c&#xD800;d", "ab\ufffdc\ufffdd"),
        ("<pre>a\n  b</pre>", "a b"),
        ("", ""),
        ("<frameset><frame src=a></frameset>", ""),
        ("<nav><nav>no</nav><p>no</nav>yes", "yes"),
    ],
)  # fmt: skip
def test_the_text_of_a_page_is_its_content(html, text):
    assert read(html).text.replace("\x00", "") == text


@each_row(
    ("html", "title"),
    [
        ("<title> A \n title </title>", "A title"),
        ("<title>first</title><title>second</title>", "first"),
        ("<svg><title>picture</title></svg><title>page</title>", "page"),
        ("<p>none", ""),
        ("<title>" + "a" * 5000, "a" * 1000),
        ("<title>&lt;b&gt;</title>", "<b>"),
    ],
)
def test_the_title_of_a_page_is_found(html, title):
    assert read(html).title == title


def test_the_description_and_the_language_of_a_page_are_found():
    page = read('<html lang=" de-AT "><meta name=Description content=" Ein\nText "><meta name=description content=no>')

    assert (page.description, page.language) == ("Ein Text", "de-AT")


@each_row(
    ("html", "links"),
    [
        ("<a href=a>x</a><area href=b><A HREF='c'>", ["a", "b", "c"]),
        ("<link rel=canonical href=a><link rel='next foo' href=b><link rel=Alternate href=c>", ["a", "b", "c"]),
        ("<link rel=stylesheet href=a><link href=b><link rel=preload href=c>", []),
        ("<iframe src=a></iframe>", ["a"]),
        ("<frameset><frame src=a><frame src=b></frameset>", ["a", "b"]),
        ("<a rel=nofollow href=a><a rel='external NoFollow' href=b><a rel=noopener href=c>", ["c"]),
        ("<a>x</a><a href>y</a><a href=''>z</a><a name=q>", []),
        ("<nav><a href=a></a></nav><footer><a href=b></a></footer><noscript><a href=c></a></noscript>", ["a", "b", "c"]),
        ("<a href='?a=1&amp;b=2'>", ["?a=1&b=2"]),
        ("<!-- <a href=a> --><script>'<a href=b>'</script>", []),
        ("<a href=a href=b>", ["a"]),
        ("<meta http-equiv=refresh content='0; url=a'>", ["a"]),
        ("<meta http-equiv=Refresh content=\"5;URL='a b'\">", ["a b"]),
        ("<meta http-equiv=refresh content='0;url=\"a'>", ["a"]),
        ("<meta http-equiv=refresh content='.5 , a'>", ["a"]),
        ("<meta http-equiv=refresh content='3 a'>", ["a"]),
        ("<meta http-equiv=refresh content='3'>", []),
        ("<meta http-equiv=refresh content='url=a'>", []),
    ],
)  # fmt: skip
def test_the_links_of_a_page_are_found(html, links):
    assert [link for link in read(html).links if link] == links


@each_row(
    ("html", "base"),
    [
        ("<base href=/a/><base href=/b/>", "/a/"),
        ("<base target=x><base href=/b/>", "/b/"),
        ("<a href=x><base href=/late/>", "/late/"),
        ("<base href=''><base href=/b/>", ""),
        ("<p>", None),
    ],
)
def test_the_first_base_with_an_address_counts(html, base):
    assert read(html).base == base


@each_row(
    ("html", "robots"),
    [
        ("<meta name=robots content='index, follow'>", RobotsDirectives()),
        ("<meta name=ROBOTS content='NoIndex'>", RobotsDirectives(noindex=True)),
        ("<meta name=robots content='nofollow'>", RobotsDirectives(nofollow=True)),
        ("<meta name=robots content=none>", RobotsDirectives(noindex=True, nofollow=True)),
        ("<meta name=crawlctl content=noindex>", RobotsDirectives(noindex=True)),
        ("<meta name=otherbot content=noindex>", RobotsDirectives()),
        ("<meta name=robots content=noindex><meta name=robots content=nofollow>", RobotsDirectives(True, True)),
        ("<body><meta name=robots content='max-snippet:-1, noindex'>", RobotsDirectives(noindex=True)),
    ],
)
def test_the_robots_rules_of_a_page_are_found(html, robots):
    assert read(html).robots == robots


@each_row(
    ("headers", "robots"),
    [
        (["noindex"], RobotsDirectives(noindex=True)),
        (["noindex, nofollow"], RobotsDirectives(True, True)),
        (["noarchive", "none"], RobotsDirectives(True, True)),
        (["crawlctl: noindex"], RobotsDirectives(noindex=True)),
        (["CrawlCtl: noindex, nofollow"], RobotsDirectives(True, True)),
        (["otherbot: noindex"], RobotsDirectives()),
        (["otherbot: noindex", "nofollow"], RobotsDirectives(nofollow=True)),
        (["unavailable_after: 25 Jun 2030 15:00:00 PST"], RobotsDirectives()),
        (["max-snippet: 5, noindex"], RobotsDirectives(noindex=True)),
        (["noindex, max-snippet: 5"], RobotsDirectives(noindex=True)),
        ([":", "", ",,"], RobotsDirectives()),
    ],
)
def test_the_robots_rules_in_headers_are_found(headers, robots):
    assert directives_of_headers(headers, robots_name="crawlctl") == robots


@given(st.text(alphabet="<>/abphdivsmn =\"'!-&#x;0\x00\x1e\ud7ff", max_size=200))
def test_any_text_can_be_read_as_an_html_page(html):
    page = read(html)

    assert isinstance(page.text, str)


@each_row(
    "html",
    [
        pytest.param("<div>" * 400_000, id="open elements"),
        pytest.param("<ul><li>" * 200_000, id="open lists"),
        pytest.param("<x-y>" * 200_000, id="elements of their own"),
        pytest.param("".join(f"<b id={n}>" for n in range(100_000)), id="formatting"),
        pytest.param("".join(f"<b id={n}>" for n in range(10_000)) + "<p>x" * 100_000, id="formatting that repeats"),
        pytest.param("<div>" * 10_000 + "<p>x</p>" * 200_000, id="paragraphs far down"),
        pytest.param("<optgroup><option>" * 100_000, id="options"),
        pytest.param("<div " + " ".join(f"a{n}=1" for n in range(300_000)) + ">", id="attributes"),
        pytest.param('<div " ' + " ".join(f"a{n}=1" for n in range(300_000)) + ">", id="attributes behind a quote"),
        pytest.param("<div>" * 5000 + "<header></header>" * 20_000, id="headers far down"),
        pytest.param("<nav>" * 100_000, id="navigation only"),
        pytest.param("<template>" * 100_000, id="templates"),
        pytest.param("<main><span>" + "<b>x" * 100_000, id="words far down"),
        pytest.param("<svg>" + "<g>" * 100_000 + "</x>" * 100_000, id="ends of elements that were never open"),
        pytest.param("<table><b>" * 50_000 + "x", id="tables in tables"),
        pytest.param("<a><b><i><div>" * 25_000 + "</a></b></i>" * 25_000, id="ends in another order"),
    ],
)
def test_no_page_blocks_the_process(html):
    begun = time.process_time()

    read(html)

    assert time.process_time() - begun < 10


@each_row(
    "html",
    [
        "<div><p>text <b>bold</b> <a href=x>link</a></p></div>\n" * 20_000,
        "<table>" + "<tr><td>a<td><font color=red>b" * 10_000,
        "<p>" + "plain words " * 200_000,
        "<ul>" + "<li>item" * 50_000,
        '<img src="data:' + "A" * 500_000 + '">',
        "<div><span>" * 500 + "x",
    ],
)
def test_honest_pages_are_read_whole(html):
    assert read(html + "<a href=the-last>the last</a>").links[-1] == "the-last"


def test_content_of_a_template_element_is_ignored():
    page = read("<template><a href=a>no</a><meta name=robots content=none></template><a href=b>yes</a>")

    assert (page.links, page.text, page.robots) == (["b"], "yes", RobotsDirectives())


def test_a_template_of_another_vocabulary_hides_nothing():
    assert read("<math><template><a href=a>x</a></template></math>").links == ["a"]


def test_a_main_element_inside_of_a_script_is_ignored():
    assert read("<nav><main>a long list of links</main></nav>yes").text == "yes"


@each_row(
    ("html", "metadata"),
    [
        ("<meta name=Author content=' Ada  L. '><meta name=author content=Bob>", {"author": ("Ada L.", "Bob")}),
        ("<meta property=og:type content=article>", {"og:type": ("article",)}),
        (
            "<meta property=article:published_time content=2026-01-02><meta name=date content=2020>",
            {"article:published_time": ("2026-01-02",), "date": ("2020",), "published": ("2026-01-02",)},
        ),
        ("<meta name=csrf-token content=x><meta name=viewport content=y><meta name=generator content=z>", {}),
        ("<meta property=robots content=noindex><meta name=description content=words>", {}),
        ("<meta name=keywords content=''><meta name=keywords>", {}),
    ],
)
def test_a_page_has_the_metadata_of_known_names(html, metadata):
    assert of_page(read(html).named) == metadata


def test_metadata_hold_no_directives_for_a_crawler_without_a_name():
    page = read_page("<meta property=og:title content=noindex>", robots_name="")

    assert (page.named, page.robots) == ([("og:title", "noindex")], RobotsDirectives())


def test_the_metadata_of_a_page_is_bounded():
    metadata = of_page(read("".join(f"<meta property=og:{n} content={'x' * 5000}>" for n in range(500))).named)
    assert len(metadata) <= 100
    assert sum(len(name) + len(values[0]) for name, values in metadata.items()) <= 16_384


@each_row(
    ("header", "moment"),
    [
        ("Tue, 01 Sep 2026 10:00:00 GMT", "2026-09-01T10:00:00+00:00"),
        ("Tuesday, 01-Sep-26 10:00:00 GMT", "2026-09-01T10:00:00+00:00"),
        ("Tue, 1 Sep 2026 12:00:00 +0200", "2026-09-01T12:00:00+02:00"),
        ("Tue, 01 Sep 2026 25:00:00 GMT", ""),
        ("Tue, 31 Feb 2026 10:00:00 GMT", ""),
        ("Tue, 1 Sep 2026 12:00:00 +9999999999999", ""),
        ("yesterday", ""),
    ],
)
def test_the_date_of_an_answer_is_read_in_each_form(header, moment):
    assert moment_of(header) == moment
