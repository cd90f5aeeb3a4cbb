"""Proves the order in which the processes of pytest-xdist run the tests."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.ordering import WAITING, waiting_first


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 8))
def test_each_process_begins_with_its_share_of_the_waiting_tests(waiting, others, processes):
    tests = [f"{WAITING[0]}{n}" for n in range(waiting)] + [f"tests/unit/{n}" for n in range(others)]

    ordered = waiting_first(reversed(tests), processes=processes, name_of=str)

    assert sorted(ordered) == sorted(tests)
    shares = []
    for left in range(processes, 0, -1):
        # The pieces of pytest-xdist.
        size = len(ordered) // left
        piece, ordered = ordered[:size], ordered[size:]
        waits = [name.startswith(WAITING) for name in piece]
        assert waits == sorted(waits, reverse=True)
        shares.append(sum(waits))
    if others >= waiting + processes:
        assert max(shares) - min(shares) <= 1
