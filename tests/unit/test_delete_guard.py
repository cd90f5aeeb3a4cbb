"""The delete guard asks before large removals, and names their cause."""

import pytest

from jobs.guard.decision import Facts, HostShare, Parent, ParentState, Seed, Thresholds, question, should_ask

USUAL = Thresholds(percent=5, documents=20, asks_for_seeds=True)
GONE = Seed("http://a.example/", ParentState.GONE, "404")


@pytest.mark.parametrize(
    ("leaving", "staying", "asks"),
    [
        (0, 0, False),
        (0, 100, False),
        (20, 0, False),
        (21, 0, True),
        (21, 399, False),
        (21, 398, True),
        (5_000, 10**6, False),
    ],
)
def test_both_thresholds_have_to_be_exceeded(leaving, staying, asks):
    assert should_ask(Facts(leaving, staying), USUAL) is asks


@pytest.mark.parametrize(
    ("seed", "thresholds", "asks"),
    [
        (GONE, USUAL, True),
        (Seed("http://a.example/", ParentState.EMPTY, "200"), USUAL, False),
        (GONE, Thresholds(percent=5, documents=20, asks_for_seeds=False), False),
        (GONE, Thresholds(percent=None, documents=0, asks_for_seeds=True), False),
    ],
)
def test_a_gone_seed_asks_whatever_the_number(seed, thresholds, asks):
    assert should_ask(Facts(1, 1_000, seeds=[seed]), thresholds) is asks


def test_a_gone_seed_of_which_nothing_would_be_removed_asks_nothing():
    assert not should_ask(Facts(0, 1_000, seeds=[GONE]), USUAL)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"parents": [Parent("http://a.example/", ParentState.GONE, "404", 180)]}, "http://a.example/ is gone (404)"),
        ({"parents": [Parent("http://a.example/list", ParentState.CHANGED, "200", 180)]}, "list no longer names them"),
        ({"seeds": [GONE], "parents": [Parent("http://a.example/b", ParentState.CHANGED, "200", 10)]}, "The seed http"),
        (
            {"parents": [Parent(f"http://a.example/{n}", ParentState.CHANGED, "200", 50) for n in range(4)]},
            "4 documents",
        ),
        ({"hosts": [HostShare("a.example", 200, 1)]}, "Were rules or seeds of the job changed?"),
    ],
)
def test_the_question_says_the_cause_that_most_removals_share(facts, said):
    sentence = question(Facts(200, 1, **facts))

    assert sentence.startswith("200 of 201 documents would be removed (100 %).")
    assert said in sentence
