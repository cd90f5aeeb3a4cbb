"""
Proves that one number keeps the last results of a document, and shows its flips, even if it ends several times in a
run.
"""

import random

from jobs.lifecycle.endings import NOTHING, Flip, Kind, code_of, end, kind_of_flip, outcome_of, result_of
from tests.support.tables import each_row

INDEXED, UNCHANGED, FAILED, EXCLUDED = 1, 2, 3, 4
READ, SAME = result_of(INDEXED, "200"), result_of(UNCHANGED, "304")
ERROR, OTHER_ERROR, GONE = result_of(FAILED, "500"), result_of(FAILED, "503"), result_of(EXCLUDED, "404")


def test_the_number_of_a_result_gives_its_outcome_and_its_code():
    assert (outcome_of(OTHER_ERROR), code_of(OTHER_ERROR)) == (FAILED, "503")
    assert (outcome_of(result_of(FAILED, "TIMEOUT")), code_of(result_of(FAILED, "TIMEOUT"))) == (FAILED, "")
    assert result_of(FAILED, "TIMEOUT") != result_of(FAILED, "REFUSED") != result_of(FAILED, "")


@each_row(
    ("before", "after", "kind"),
    [
        (NOTHING, ERROR, Kind.NEW),
        (READ, NOTHING, Kind.GONE),
        (SAME, READ, Kind.CHANGED),
        (READ, SAME, None),
        (SAME, ERROR, Kind.WORSE),
        (READ, GONE, Kind.WORSE),
        (ERROR, READ, Kind.BETTER),
        (ERROR, OTHER_ERROR, Kind.OTHER),
        (ERROR, ERROR, None),
    ],
)
def test_each_pair_of_results_has_its_kind_of_flip(before, after, kind):
    assert kind_of_flip(before, after) == kind


def test_a_document_older_than_the_record_of_results_is_not_new():
    assert end(0, run_no=5, result=ERROR, is_indexed=True)[1] == [Flip(result_of(INDEXED, ""), ERROR, 1)]
    assert end(0, run_no=5, result=ERROR, is_indexed=False)[1] == [Flip(NOTHING, ERROR, 1)]


def test_the_flips_of_a_run_add_up_to_the_difference_between_both_ends():
    chance = random.Random(1)
    results = [READ, SAME, ERROR, OTHER_ERROR, GONE]
    endings = before = 0
    for run_no in range(1, 200):
        flips, last = [], None
        for _ in range(chance.randrange(3)):
            last = chance.choice(results)
            endings, more = end(endings, run_no=run_no, result=last, is_indexed=False)
            flips += more
            assert 0 <= endings < 2**31

        if last is None:
            continue
        expected = {(before, last): 1} if kind_of_flip(before, last) else {}
        summed = {}
        for flip in flips:
            key = (flip.before, flip.after)
            summed[key] = summed.get(key, 0) + flip.amount
        assert {key: amount for key, amount in summed.items() if amount} == expected
        before = last
