"""Proves that two runs are compared document by document, with correct estimates from samples."""

import uuid

import pytest

from jobs.lifecycle.endings import Kind
from jobs.models import Job, Outcome
from jobs.partitions.merged import Merged, Silent
from jobs.queries.jobs import run, run_documents
from jobs.queries.jobs.run_differences import Flip, Flips, Result
from jobs.queries.jobs.run_documents import Ended, Pair, compare_documents, estimate, kind_of
from jobs.ui.compared_documents import compared_documents
from tests.support.cluster import NOON
from tests.support.tables import each_row

INDEXED, UNCHANGED, FAILED, EXCLUDED = Outcome.INDEXED, Outcome.UNCHANGED, Outcome.FAILED, Outcome.EXCLUDED


def ended(outcome, code="200", version=1):
    return Ended("http://a.example/", outcome, code, version, None)


@each_row(
    ("earlier", "later", "kind"),
    [
        (None, ended(FAILED, "500"), Kind.NEW),
        (ended(INDEXED), None, Kind.GONE),
        (ended(INDEXED), ended(INDEXED, version=2), Kind.CHANGED),
        (ended(INDEXED), ended(UNCHANGED, "304"), None),
        (ended(INDEXED), ended(INDEXED, version=0), None),
        (ended(UNCHANGED), ended(FAILED, "500"), Kind.WORSE),
        (ended(INDEXED), ended(EXCLUDED, "404"), Kind.WORSE),
        (ended(FAILED, "500"), ended(INDEXED, version=2), Kind.BETTER),
        (ended(FAILED, "500"), ended(EXCLUDED, "404"), Kind.OTHER),
        (ended(FAILED, "500"), ended(FAILED, "503"), Kind.OTHER),
        (ended(FAILED, "500"), ended(FAILED, "500"), None),
        (ended(INDEXED), ended(Outcome.NONE, ""), None),
    ],
)
def test_a_document_differs_in_one_way_or_not_at_all(earlier, later, kind):
    assert kind_of(Pair(uuid.uuid4(), "http://a.example/", earlier, later)) == kind


def test_a_number_counted_from_all_documents_is_exact():
    found = estimate(7, share=1.0)

    assert (found.number, found.least, found.most) == (7, 7, 7)


@pytest.mark.parametrize(
    ("count", "least", "most"), [(0, 0, 3.7), (1, 0.025, 5.6), (10, 4.8, 18.4), (100, 81.4, 121.6)]
)
def test_the_range_of_an_estimate_is_that_of_a_poisson_distribution(count, least, most):
    found = estimate(count, share=0.001)

    assert found.number == 1_000 * count
    assert found.least == pytest.approx(1_000 * least, rel=0.2, abs=200)
    assert found.most == pytest.approx(1_000 * most, rel=0.1)


def sample(*hashes, limit=None):
    return run_documents._Sample({uuid.UUID(int=each): ended(INDEXED) for each in hashes}, limit)


def compared(monkeypatch, here, there, *, silent=(), flips=None):
    found = Merged((*here, flips), {"b": (*there, flips)}, silent)
    monkeypatch.setattr(run_documents, "read_everywhere", lambda _own, _elsewhere: found)
    return compare_documents(job_id=1, earlier=1, later=2)


def test_a_document_that_moved_to_another_partition_is_not_reported_gone(monkeypatch):
    found = compared(monkeypatch, (sample(1, 2), sample(1)), (sample(), sample(2)))

    assert (found.compared, [kind.count for kind in found.kinds]) == (2, [0] * 6)
    assert found.is_exact


def test_documents_of_a_partition_without_an_answer_are_left_out(monkeypatch):
    found = compared(monkeypatch, (sample(1), sample(1)), (sample(), sample()), silent=[Silent("c", None)])

    assert not found.is_exact
    assert compared_documents(found, job_id=1, now=NOON)["says"] == (
        "All documents of the partitions that answered were compared: 1."
    )


def test_only_documents_below_the_lowest_limit_are_compared(monkeypatch):
    half, quarter = uuid.UUID(int=2**127 - 1), uuid.UUID(int=2**126 - 1)
    here = (sample(1, 2**126, limit=half), sample(1, 2, limit=quarter))

    found = compared(monkeypatch, here, (sample(), sample()))

    assert (found.compared, found.of_all) == (2, 8)
    assert found.kinds[0].of_all.number == 4


def test_the_counted_documents_of_all_partitions_add_up(monkeypatch):
    half = uuid.UUID(int=2**127 - 1)
    worse = Flip(Kind.WORSE, Result(INDEXED, "200"), Result(FAILED, "503"), "a.example", 20, ["http://a.example/x"])

    found = compared(
        monkeypatch,
        (sample(1, limit=half), sample(1, limit=half)),
        (sample(), sample()),
        flips=Flips(are_limits=False, of_hosts=[worse]),
    )

    counted = next(one for one in found.kinds if one.kind == Kind.WORSE)
    assert (counted.count, counted.of_all, counted.flips[0].number) == (0, run_documents.Estimate(40, 40, 40), 40)
    assert [pair.identifier for pair in counted.examples] == ["http://a.example/x"]


def test_nodes_are_named_with_their_partition_and_silent_ones_are_listed(monkeypatch):
    here = run.NodesOfRun(frozenset({"main"}), frozenset({"w1"}))
    there = run.NodesOfRun(frozenset({"main"}), frozenset({"w1", "w2"}))
    parts = Merged([here, here], {"b": [here, there], "c": [None, here]}, [Silent("d", None)])
    monkeypatch.setattr(run, "read_everywhere", lambda _own, _elsewhere: parts)

    earlier, later, missing = run._nodes_everywhere(Job(), None, None)

    assert sorted(later.workers - earlier.workers) == ["w2 (b)"]
    assert sorted(earlier.managers) == ["main", "main (b)"]
    assert missing == ["c", "d"]


def test_nothing_is_compared_if_a_partition_kept_no_sample(monkeypatch):
    assert compared(monkeypatch, (sample(1), sample(1)), (sample(2), None)) is None
