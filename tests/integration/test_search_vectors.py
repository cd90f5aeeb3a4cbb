"""Our search vectors are identical to those of PostgreSQL, to the last position."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.connectors.output.vectors import cut, vector_of
from jobs.connectors.output.words import JOINERS
from jobs.queue.sql.arrays import Vectors

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
    # Words that are too frequent for all their positions.
    st.lists(
        st.sampled_from(["word", "words", "the", "9a"]).flatmap(
            lambda word: st.integers(1, 300).map(lambda times: f"{word} " * times)
        ),
        max_size=5,
    ).map("".join),
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


@pytest.fixture
def both(connection):
    """Return a function that writes the vector of a title, a description and a text, by PostgreSQL and by us."""
    stems = {}

    def write(title, about, text):
        document = cut([(title, "A"), (about, "B"), (text, "D")])
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


def test_frequent_words_have_as_many_positions_as_postgresql_keeps(both):
    theirs, ours = both("word " * 300, "words " * 200, "word words apples " * 400)

    assert ours == theirs


@pytest.mark.parametrize("text", ["naïve", "x" * 3_000, "word " * 9_000])
def test_texts_that_only_postgresql_can_cut_are_left_to_it(text):
    assert cut([("a title", "A"), (text, "D")]) is None
