"""Proves that each process of pytest-xdist runs long and waiting tests first."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.ordering import LONG, WAITING, waiting_first

_KINDS = (LONG[0], WAITING[0], "tests/unit/")


@given(st.integers(0, 9), st.integers(0, 40), st.integers(0, 40), st.integers(1, 8))
def test_each_process_begins_with_its_share_of_the_long_and_waiting_tests(long, waiting, others, processes):
    amounts = (long, waiting, others)
    tests = [f"{kind}::{n}" for kind, amount in zip(_KINDS, amounts, strict=True) for n in range(amount)]

    ordered = waiting_first(reversed(tests), processes=processes, name_of=str)

    assert sorted(ordered) == sorted(tests)
    shares = []
    for left in range(processes, 0, -1):
        # Processes of pytest-xdist get consecutive pieces of the list.
        size = len(ordered) // left
        piece, ordered = ordered[:size], ordered[size:]
        kinds = [next(place for place, kind in enumerate(_KINDS) if name.startswith(kind)) for name in piece]
        assert kinds == sorted(kinds)
        shares.append([kinds.count(place) for place in range(2)])
    if others >= long + waiting + processes:
        for share in zip(*shares, strict=True):
            assert max(share) - min(share) <= 1
