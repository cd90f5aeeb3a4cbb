"""Proves that a worker remembers its written references (links to documents, with their depth) in bounded memory."""

import dataclasses
import tracemalloc
import uuid

from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobs.loops.worker.known_references import KnownReferences
from jobs.queue.flushing.outcomes import JobFacts
from tests.support.tables import each_row

JOB = JobFacts(id=7, run_no=3, repository=1, tracks_depth=True, max_depth=None, has_budget=False, outputs=())
NEXT_RUN = dataclasses.replace(JOB, run_no=4)
OTHER_JOB = dataclasses.replace(JOB, id=8)
WITHOUT_DEPTH = dataclasses.replace(JOB, tracks_depth=False)


def hash_of(number):
    return uuid.uuid5(uuid.NAMESPACE_URL, str(number)).hex


def test_written_references_are_remembered_only_for_their_run():
    known = KnownReferences()

    known.add([(JOB, hash_of(1), 2)])

    assert known.holds(JOB, hash_of(1), 2)
    assert not known.holds(JOB, hash_of(2), 2)
    assert not known.holds(NEXT_RUN, hash_of(1), 2)
    assert not known.holds(OTHER_JOB, hash_of(1), 2)


@each_row("asked_before", [True, False])
def test_a_shorter_path_is_unknown_until_it_is_written(asked_before):
    known = KnownReferences()
    known.add([(JOB, hash_of(1), 5)])
    if asked_before:
        known.holds(JOB, hash_of(1), 5)

    assert not known.holds(JOB, hash_of(1), 4)
    known.add([(JOB, hash_of(1), 4)])

    assert known.holds(JOB, hash_of(1), 4)
    assert not known.holds(JOB, hash_of(1), 3)


@each_row("at_hand", [1, 1_000])
def test_a_longer_path_written_later_does_not_increase_the_known_depth(at_hand):
    known = KnownReferences(at_hand=at_hand)
    known.add([(JOB, hash_of(1), 2), (JOB, hash_of(1), 6)])
    # Add a further reference. With `at_hand=1`, this removes the first reference from those at hand.
    known.add([(JOB, hash_of(2), 1)])

    assert known.holds(JOB, hash_of(1), 2)


def test_any_path_is_remembered_if_the_job_has_no_depth_limit():
    known = KnownReferences()
    known.add([(WITHOUT_DEPTH, hash_of(1), 9)])

    assert known.holds(WITHOUT_DEPTH, hash_of(1), 0)


@each_row("at_hand", [1, 1_000])
def test_references_in_use_stay_and_unused_references_are_forgotten(at_hand):
    known = KnownReferences(of_a_half=100, at_hand=at_hand)
    known.add([(JOB, hash_of("often"), 1), (JOB, hash_of("once"), 1)])

    for number in range(1_000):
        known.add([(JOB, hash_of(number), 1)])
        if number % 50 == 0:
            assert known.holds(JOB, hash_of("often"), 1)

    # Look up another reference, so that the reference "often" is no longer at hand.
    assert known.holds(JOB, hash_of(999), 1)
    assert known.holds(JOB, hash_of("often"), 1)
    assert not known.holds(JOB, hash_of("once"), 1)


def test_the_memory_is_bounded_over_many_runs():
    tracemalloc.start()
    known = KnownReferences(of_a_half=5_000)
    known.add((JOB, hash_of(number), 1) for number in range(20_000))
    full = tracemalloc.get_traced_memory()[0]

    for run_no in range(100):
        job = dataclasses.replace(JOB, run_no=run_no)
        known.add((job, hash_of(number), 1) for number in range(300))
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()

    assert after < 1.2 * full


_NAMED = st.lists(st.tuples(st.sampled_from([JOB, NEXT_RUN, OTHER_JOB]), st.integers(0, 30), st.integers(0, 4)))


@given(added=_NAMED, asked=_NAMED, of_a_half=st.integers(1, 50))
# The younger half of the memory is full, and its only hash is added again with a greater depth.
@example(added=[(JOB, 0, 0), (JOB, 0, 1)], asked=[(JOB, 0, 0)], of_a_half=1)
@settings(max_examples=200)
def test_the_cache_never_holds_unwritten_references(added, asked, of_a_half):
    known = KnownReferences(of_a_half=of_a_half)
    nearest = {}
    for job, number, depth in added:
        known.add([(job, hash_of(number), depth)])
        nearest[job, number] = min(depth, nearest.get((job, number), depth))

    for job, number, depth in asked:
        is_written = nearest.get((job, number), depth + 1) <= depth
        assert is_written or not known.holds(job, hash_of(number), depth)
        if len(nearest) <= of_a_half:
            assert known.holds(job, hash_of(number), depth) == is_written


@given(added=_NAMED, asked=st.lists(st.integers(0, 30)), job=st.sampled_from([JOB, NEXT_RUN, WITHOUT_DEPTH]))
def test_unknown_references_are_returned_in_the_given_order(added, asked, job):
    known = KnownReferences(of_a_half=20)
    known.add((job, hash_of(number), depth) for job, number, depth in added)
    hashes = [hash_of(number) for number in asked]

    assert known.unknown(job, hashes, 2) == [one for one in hashes if not known.holds(job, one, 2)]
