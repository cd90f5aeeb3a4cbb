"""
Proves that search finds a page by any of its words soon after its fetch, ranks the best pages first, and escapes
markup.
"""

import datetime as dt
import uuid

import pytest

from jobs.connectors.output.base import Entry
from jobs.connectors.output.search import SearchConfiguration, SearchOutput
from jobs.connectors.repository.base import Content
from jobs.duties.index import index_waiting_texts
from jobs.models import OutputConnection, SearchDocument
from jobs.queries.documents import search as search_query
from jobs.queries.documents.search import BadQuery, Segment, search
from nodes.errors import TooSlow

NOON = dt.datetime(2030, 1, 1, 12, tzinfo=dt.UTC)


@pytest.fixture
def index(connection):
    """Return a function that puts pages into a search output and makes them searchable."""
    output = SearchOutput(
        id=OutputConnection.objects.create(name="search", connector="search").pk, configuration=SearchConfiguration()
    )

    def put(*pages: Entry, searchable: bool = True) -> SearchOutput:
        with connection.transaction(), connection.cursor(binary=True) as cursor:
            output.add_or_replace(cursor, pages)
        while searchable and index_waiting_texts(connection).texts:
            pass
        return output

    return put


def page(text: str = "", *, url: str = "http://a.example/page", **facts: str) -> Entry:
    usual = {"title": "", "description": "", "content_type": "text/html", "language": ""}
    content = Content(**{**usual, "url": url, "text": text, **facts})
    return Entry(hash=uuid.uuid5(uuid.NAMESPACE_URL, url).hex, url=url, content=content, version="1:v", fetched_at=NOON)


def found(query: str) -> set[str]:
    return {hit.url for hit in search(query, tokens=(), limit=100).hits}


def plain(segments: tuple[Segment, ...]) -> str:
    return "".join(segment.text for segment in segments)


def matches(segments: tuple[Segment, ...]) -> list[str]:
    return [segment.text for segment in segments if segment.is_match]


# --- Indexing ------------------------------------------------------------------------------------


def test_a_text_is_found_only_after_it_was_indexed(index, connection):
    index(page("a wombat"), searchable=False)
    assert found("wombat") == set()

    assert index_waiting_texts(connection).texts == 1
    assert index_waiting_texts(connection).texts == 0

    assert found("wombat") == {"http://a.example/page"}


def test_a_replaced_text_is_found_only_by_its_new_words(index):
    index(page("a wombat"))

    index(page("an emu"))

    assert (found("wombat"), found("emu")) == (set(), {"http://a.example/page"})


def test_a_removed_text_is_no_longer_found(index, connection):
    gone = page("a wombat")
    output = index(gone)

    with connection.cursor() as cursor:
        output.remove(cursor, [gone])

    assert found("wombat") == set()


def test_the_longest_waiting_texts_come_first_up_to_a_number(index, connection):
    for number in range(5):
        index(page(f"number{number}", url=f"http://a.example/{number}"), searchable=False)

    assert index_waiting_texts(connection, most=2).texts == 2

    assert SearchDocument.objects.filter(vector=None).count() == 3
    assert found("number0 or number1") == {"http://a.example/0", "http://a.example/1"}


def test_a_text_that_another_worker_is_indexing_is_skipped(index, connection, other_connection):
    index(page("a wombat"), searchable=False)
    with other_connection.transaction():
        other_connection.execute("SELECT 1 FROM jobs_searchdocument FOR NO KEY UPDATE")

        assert index_waiting_texts(connection).texts == 0

    assert index_waiting_texts(connection).texts == 1


def test_a_text_too_long_for_the_index_is_found_by_its_start(index):
    unlike = " ".join(uuid.UUID(int=number).hex for number in range(60_000))

    index(page(f"wombat {unlike}", url="http://a.example/long"), page("wombat", url="http://a.example/short"))

    assert found("wombat") == {"http://a.example/long", "http://a.example/short"}


def test_a_text_of_many_different_words_is_also_cut_at_the_limit(index):
    unlike = " ".join(f"{number:x}ing-{number:o}s" for number in range(400_000))

    index(page(f"wombat {unlike}", language="en", title=unlike, description=unlike))

    assert found("wombat") == {"http://a.example/page"}


def test_characters_that_postgresql_cannot_store_are_removed(index):
    index(page("a \0wombat\ud83d", title="\0", language="x" * 50, content_type="y" * 200))

    assert found("wombat") == {"http://a.example/page"}


# --- Finding -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("read about and/or gates", "gates"),
        ("read about and/or gates", "or gates"),
        ("either this/that", "that"),
        ("the end.Next sentence", "next"),
        ("use the <select> element", "select"),
        ("a < b and c > d", "c"),
        ("write to someone@host.example", "someone"),
        ("the snake_case word", "case"),
        ("the option --verbose=yes", "verbose"),
        ("at -5 degrees", "5"),
        ("version 1.2.3", "1.2.3"),
        ("fish&amp;chips", "chips"),
        ("C:\\Windows\\notes", "notes"),
        ("the", "the"),
        ("naïve Straße ΣΟΦΙΑ", "straße σοφια NAÏVE"),
        ("don't panic", "don't"),
    ],
)
@pytest.mark.parametrize("language", ["", "en-US", "de", "tlh"])
def test_a_page_is_found_by_any_form_of_its_word(index, text, word, language):
    index(page(text, language=language))

    assert found(word) == {"http://a.example/page"}


@pytest.mark.parametrize("word", ["manual", "queue", "names", "html", "docs.example", "http://docs.example/manual"])
def test_a_page_is_found_by_the_words_of_its_address(index, word):
    index(page(url="http://docs.example/manual/queue-names.html"))

    assert found(word) == {"http://docs.example/manual/queue-names.html"}


def test_a_page_is_found_by_title_and_description(index):
    index(page(title="Wombats", description="of Tasmania"))

    assert found("wombats tasmania") == {"http://a.example/page"}


def test_stems_are_those_of_the_pages_own_language(index):
    index(
        page("the dogs were running", url="http://a.example/en", language="en_GB"),
        page("the dogs were running", url="http://a.example/unknown"),
        page("die Häuser", url="http://a.example/de", language="de"),
    )

    assert found("dog") == {"http://a.example/en"}
    assert found("runs") == {"http://a.example/en"}
    assert found("Häusern") == {"http://a.example/de"}
    assert found("dogs") == {"http://a.example/en", "http://a.example/unknown"}


def test_phrases_alternatives_and_exclusions_are_understood(index):
    index(
        page("the quick brown fox", url="http://a.example/fox", language="en"),
        page("the brown quick dog", url="http://a.example/dog", language="en"),
    )

    assert found('"quick brown"') == {"http://a.example/fox"}
    assert found("fox or dog") == {"http://a.example/fox", "http://a.example/dog"}
    assert found("quick -fox") == {"http://a.example/dog"}
    assert found('brown -"quick brown"') == {"http://a.example/dog"}
    assert found("fox dog") == set()


@pytest.mark.parametrize("query", ["", "   ", "\0", '"', '""', "-", "& | !", "\ud83d", "<->", "';--", "%s %(x)s"])
def test_a_query_without_a_known_word_finds_nothing(index, query):
    index(page("a wombat"))

    assert found(query) == set()


def test_a_word_in_the_title_ranks_above_one_in_the_text(index):
    index(
        page("wombat, says the text", url="http://a.example/text"),
        page("nothing of them here", title="A wombat", url="http://a.example/title"),
    )

    assert [hit.url for hit in search("wombat", tokens=(), limit=10).hits] == [
        "http://a.example/title",
        "http://a.example/text",
    ]


# --- What a hit shows ----------------------------------------------------------------------------


def test_matches_are_marked_in_title_and_text(index):
    index(page("Long ago there was a Wombat, and another wombat.", title="On wombat/emu"))

    (hit,) = search("wombat", tokens=(), limit=10).hits

    assert (plain(hit.title), matches(hit.title)) == ("On wombat/emu", ["wombat"])
    assert matches(hit.snippet) == ["Wombat", "wombat"]


def test_words_that_match_only_by_their_stem_are_marked(index):
    index(page("the dogs were running", language="en"))

    (hit,) = search("dog runs", tokens=(), limit=10).hits

    assert matches(hit.snippet) == ["dogs", "running"]


def test_hostile_text_is_escaped_and_cannot_forge_marks(index):
    index(page("so <script>alert(1)</script> \x02forged\x03 wombat <b> there", title="<img src=x> wombat"))

    (hit,) = search("wombat", tokens=(), limit=10).hits

    # A snippet begins and ends with words, so the first bracket is not shown.
    assert plain(hit.snippet) == "script>alert(1)</script> forged wombat <b> there"
    assert plain(hit.title) == "<img src=x> wombat"
    assert matches(hit.snippet) == matches(hit.title) == ["wombat"]


# --- Pages ---------------------------------------------------------------------------------------


def test_pages_of_results_have_no_overlap_and_no_gap(index):
    index(*(page("wombat " * (1 + number % 3), url=f"http://a.example/{number}") for number in range(25)))

    pages, after = [], None
    while True:
        shown = search("wombat", tokens=(), limit=10, after=after)
        pages.append([hit.url for hit in shown.hits])
        after = shown.next
        if after is None:
            break

    urls = [url for urls in pages for url in urls]
    assert [len(urls) for urls in pages] == [10, 10, 5]
    assert len(set(urls)) == 25
    assert (shown.total, shown.has_more) == (25, False)


def test_for_a_frequent_word_a_limited_number_of_pages_is_ranked(index, monkeypatch):
    monkeypatch.setattr(search_query, "_RANKED_AT_MOST", 5)
    index(*(page("wombat", url=f"http://a.example/{number}") for number in range(8)))

    shown = search("wombat", tokens=(), limit=10)

    assert (len(shown.hits), shown.total, shown.has_more) == (5, 5, True)


@pytest.mark.parametrize("after", ["x", "1:2", "nan:1:" + "0" * 32, "1.0:1:" + "g" * 32, "1.0:1:" + "0" * 32 + "\n"])
def test_an_invalid_position_in_the_results_is_refused(db, after):
    with pytest.raises(BadQuery):
        search("wombat", tokens=(), limit=10, after=after)


def test_a_query_that_is_too_long_is_refused(db):
    with pytest.raises(BadQuery, match="1001"):
        search("x" * 1001, tokens=(), limit=10)


def test_a_search_that_takes_too_long_is_cancelled(index, monkeypatch):
    monkeypatch.setattr(search_query, "_TIMEOUT", dt.timedelta(milliseconds=1))
    index(*(page("wombat " * 2000, url=f"http://a.example/{number}") for number in range(50)))

    with pytest.raises(TooSlow):
        search("wombat", tokens=(), limit=50)


def test_a_result_has_the_metadata_of_its_document(index):
    index(page("a wombat", metadata={"author": ("Ada\0", "\ud800"), "og:type": ("article",)}))
    assert [hit.metadata for hit in search("wombat", tokens=(), limit=1).hits] == [
        {"author": ("Ada", "?"), "og:type": ("article",)}
    ]
