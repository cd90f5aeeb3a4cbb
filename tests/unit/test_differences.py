"""Proves that the difference of two texts shows changed lines with the lines around them, at a limited cost."""

from hypothesis import given
from hypothesis import strategies as st

from jobs.queries.documents.differences import MOST_PIECES, Kind, compare_texts, pieces_of


def shown(earlier, later):
    return [(str(line.kind), line.text or line.amount) for line in compare_texts(earlier, later).lines]


def test_equal_texts_have_no_change():
    difference = compare_texts("one\ntwo", "one\ntwo")

    assert (difference.removed, difference.added, difference.is_cut) == (0, 0, False)


def test_a_changed_line_is_shown_as_removed_and_added_between_its_neighbours():
    assert shown("one\ntwo\nthree", "one\n2\nthree") == [
        ("equal", "one"),
        ("removed", "two"),
        ("added", "2"),
        ("equal", "three"),
    ]


def test_equal_lines_far_from_a_change_are_left_out():
    rest = [f"line {number}" for number in range(10)]

    assert shown("\n".join([*rest, "old", *rest]), "\n".join([*rest, "new", *rest])) == [
        ("left_out", 8),
        ("equal", "line 8"),
        ("equal", "line 9"),
        ("removed", "old"),
        ("added", "new"),
        ("equal", "line 0"),
        ("equal", "line 1"),
        ("left_out", 8),
    ]


def test_a_long_line_is_compared_sentence_by_sentence():
    assert shown("We open at nine. We close at five.", "We open at nine. We close at six.") == [
        ("equal", "We open at nine."),
        ("removed", "We close at five."),
        ("added", "We close at six."),
    ]
    assert pieces_of("第一句。第二句。") == ["第一句。", "第二句。"]


def test_a_long_text_is_compared_up_to_a_number_of_lines():
    difference = compare_texts("a\nb\n" * MOST_PIECES, "a\n" * MOST_PIECES)

    assert difference.is_cut
    assert difference.removed == difference.added == MOST_PIECES // 2


@given(st.text(alphabet="ab.\n ", max_size=60), st.text(alphabet="ab.\n ", max_size=60))
def test_the_lines_of_a_difference_add_up_to_both_texts(earlier, later):
    lines = compare_texts(earlier, later).lines
    equal = sum(line.amount for line in lines if line.kind in {Kind.EQUAL, Kind.LEFT_OUT})

    assert equal + sum(line.kind is Kind.REMOVED for line in lines) == len(pieces_of(earlier))
    assert equal + sum(line.kind is Kind.ADDED for line in lines) == len(pieces_of(later))
