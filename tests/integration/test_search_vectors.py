"""Proves that our search vectors are identical to those of PostgreSQL, including all positions."""

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from jobs.connectors.output.search_words import JOINERS
from jobs.connectors.output.vectors import characters_of, cut, vector_of
from jobs.duties.index import Characters
from jobs.queue.sql.arrays import Vectors
from jobs.queue.sql.rows import named_rows

# Pieces that PostgreSQL's parser treats specially, alone or joined.
PIECES = [
    *(
        "the",
        "running",
        "Runs",
        "users",
        "don't",
        "A1",
        "9a",
        "x",
        "and",
        "0x1F",
        "1e5",
        "1e",
        "1E5abc",
        "2e2e2",
        "12e-",
        "a1e5",
    ),
    *(
        "&amp;",
        "http://a.b/c?d=1",
        "a_b",
        "a-b",
        "-1",
        "+1.5e10",
        "1.2.3",
        "foo@bar.com",
        "<b>",
        "c++",
        "100%",
        "1,000",
    ),
    *("12:30", "/etc/passwd", "C:\\x", "#tag", "--", " ", "\n", "\x0b", "\x1f", "\x7f", ".", "'", '"'),
]
TEXTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=60).map(" ".join),
    st.lists(st.sampled_from(PIECES), max_size=20).map("".join),
    st.text(st.characters(min_codepoint=1, max_codepoint=127), max_size=60),
    # Words so frequent that a vector does not keep all their positions.
    st.lists(
        st.sampled_from(["word", "words", "the", "9a"]).flatmap(
            lambda word: st.integers(1, 300).map(lambda times: f"{word} " * times)
        ),
        max_size=5,
    ).map("".join),
)
# Letters, signs and marks that are not ASCII: in upper and lower case, within words and between them.
OTHER = "éÉßẞªº²½\u2019“—\xa0…€\xd7😀体한ーПп\u03a3\u03c3\u03c2İ\u0131\u212a\u212bⅧ٣क्ि\u0301\u200b\u200d\xad\ufe0f"
OTHER_TEXTS = st.one_of(
    st.lists(st.sampled_from([*PIECES, *OTHER]), max_size=40).map("".join),
    st.lists(st.sampled_from("1e5aA Éпß…x-"), max_size=60).map("".join),
    st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), max_size=8),
)
_OURS_IS_THEIRS = """
WITH blank AS (
    SELECT regexp_replace(%(title)s, %(joiners)s, ' ', 'g') AS title, regexp_replace(%(about)s, %(joiners)s, ' ', 'g') AS about,
           regexp_replace(%(text)s, %(joiners)s, ' ', 'g') AS text
), theirs AS (
    SELECT setweight(to_tsvector('simple', title), 'A') || setweight(to_tsvector('simple', about), 'B')
           || setweight(to_tsvector('simple', text), 'D') || setweight(to_tsvector('english', title), 'A')
           || setweight(to_tsvector('english', about), 'B') || setweight(to_tsvector('english', text), 'D') AS vector
      FROM blank
)
SELECT vector::text, (%(ours)s::tsvector[])[1]::text FROM theirs
"""
_STEM = "SELECT array_to_string(tsvector_to_array(to_tsvector('english', %s)), ' ')"


def cut_by(connection, characters, title, about, text):
    found = characters_of([title, about, text])
    with named_rows(connection) as cursor:
        known = characters.of(cursor, found)
    return cut([(title, "A"), (about, "B"), (text, "D")], characters={one: known[one] for one in found})


@pytest.fixture
def both(connection):
    """Return a function that writes the vector of a title, a description and a text, by PostgreSQL and by our code."""
    stems = {}
    characters = Characters()

    def write(title, about, text):
        document = cut_by(connection, characters, title, about, text)
        if document is None:
            return None, None
        for word in document.words - stems.keys():
            stems[word] = connection.execute(_STEM, [word.decode()]).fetchone()[0].encode()
        ours = Vectors([vector_of(document, stems=stems)])
        facts = {"title": title, "about": about, "text": text, "joiners": JOINERS, "ours": ours}
        return connection.execute(_OURS_IS_THEIRS, facts).fetchone()

    return write


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(title=TEXTS, about=TEXTS, text=TEXTS)
def test_any_ascii_text_has_the_vector_that_postgresql_gives_it(both, title, about, text):
    theirs, ours = both(title, about, text)

    assert ours == theirs


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(title=OTHER_TEXTS, about=OTHER_TEXTS, text=OTHER_TEXTS)
def test_texts_in_other_scripts_have_the_vector_that_postgresql_gives_them(both, title, about, text):
    theirs, ours = both(title, about, text)

    assume(theirs is not None)
    assert ours == theirs


@pytest.mark.parametrize(
    "text",
    ["“It\u2019s” — 5 \xd7 3…", "Größe über ÄRGER, 1é 1e5É", "Привет, МИР!", "中文。日本語、한국어", "100 € 😀 naïve"],
)
def test_python_makes_the_vectors_of_usual_texts_of_many_languages(both, text):
    theirs, ours = both("title", text, text * 20)

    assert theirs is not None
    assert ours == theirs


def test_frequent_words_have_as_many_positions_as_postgresql_keeps(both):
    theirs, ours = both("word " * 300, "words " * 200, "word words apples " * 400)

    assert ours == theirs


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("nai\u0308ve", id="combining"),
        pytest.param("\u212a elvin", id="kelvin"),
        pytest.param("x" * 3_000, id="long"),
        pytest.param("\u1e9e" * 1_000, id="shrinking"),
        pytest.param("word " * 9_000, id="many"),
        pytest.param("".join(map(chr, range(0x2200, 0x2400))), id="symbols"),
    ],
)
def test_postgresql_makes_the_vectors_of_texts_that_only_it_can_split(connection, text):
    assert cut_by(connection, Characters(), "a title", "", text) is None
