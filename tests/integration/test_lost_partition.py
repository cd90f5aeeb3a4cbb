"""Proves that a partition with a lost database can be removed, and that other partitions find its hosts again."""

from io import StringIO
from unittest.mock import Mock

import psycopg
import pytest
from django.core.management import CommandError, call_command

from jobs.lifecycle.document import Stage
from jobs.models import ForeignLink, Job, Outcome, OutLinks, PartitionedJob, QueueItem, Seed
from jobs.partitions import lost_partition, removing
from jobs.partitions.agreement import check_partitions, noted_names
from jobs.partitions.facts import send_fact
from jobs.partitions.move_notes import KEY, read_move
from jobs.partitions.moving import Move, MovePhase, change_owner
from jobs.partitions.placement import SLOTS, BadPartitions, Placement, slot_of
from jobs.partitions.slots import read_map
from jobs.settings.partitions import PARTITION, PARTITIONS
from tests.support.cluster import NOON
from tests.support.factories import hash_of, make_documents, make_job, make_lane
from tests.support.processes import copy_of

ENDED = {"stage": Stage.DONE, "outcome": Outcome.INDEXED, "result_code": "200", "fetched_at": NOON, "validators": "{}"}
NAMES = ("a", "b", "c")


def host_of(partition):
    """Return a host that a partition has at first."""
    placed = Placement("a", NAMES)
    return next(host for n in range(1000) if placed.partition_of(host := f"h{n}.example") == partition)


def link(job, name, *, host, target):
    where = {"identifier": f"http://{host}/{name}", "bin": host, "found_on": hash_of("page")}
    facts = {"run_no": 1, "depth": 1, "redirects": 0, "seed": job.seeds.get(), "target": target}
    ForeignLink.objects.create(hash=hash_of(name), job=job, **where, **facts)


@pytest.fixture
def job(connection):
    """Return a job of partition `a`. Two of its pages name documents of `b` and of `c`."""
    job = make_job("news")
    make_documents(make_lane(job.seeds.get(), "own.example"), ["page", "other"], **ENDED)
    OutLinks.objects.create(hash=hash_of("page"), job=job, targets=[hash_of("lost")])
    OutLinks.objects.create(hash=hash_of("other"), job=job, targets=[hash_of("kept")])
    Seed.objects.update(seeding_version="read")
    PartitionedJob.objects.create(job=job, number=job.pk)
    return job


@pytest.fixture
def third(template, django_db_blocker):
    """Return the database of partition `c`."""
    with django_db_blocker.unblock(), copy_of(template) as database:
        with psycopg.connect(database.dsn, autocommit=True) as there:
            note(there, "c")
        yield database


def note(connection, name, names=NAMES):
    send_fact(connection, name, name, "names:all", {"here": name, "names": list(names), "identity": name})


@pytest.fixture
def control(dsn, connection, third, settings):
    """Make this database the control partition of three partitions. Partition `b` is lost."""
    note(connection, "a")
    send_fact(connection, "b", "a", "life:all", {"documents": 1234, "rate": 0})
    connection.commit() if not connection.autocommit else None
    addresses = (f"a={dsn}", f"b={psycopg.conninfo.make_conninfo(dsn, dbname='absent')}", f"c={third.dsn}")
    values = {PARTITION.path: "a", PARTITIONS.path: addresses}
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **values}
    return connection


def remove(*words):
    call_command("partition", "remove", "b", "--lost", *words, stdout=(out := StringIO()))
    return out.getvalue()


def test_a_dry_run_shows_what_would_be_lost_and_changes_nothing(control, job):
    link(job, "lost", host=host_of("b"), target="b")

    output = remove("--dry-run")

    slots = read_map(control, NAMES).slots_of("b")
    assert f"Partition b has {len(slots)} slots: a gets " in output
    assert "Lost are 1,234 documents (as of " in output
    assert "by 1 links of other partitions" in output
    assert noted_names(control)["names"] == list(NAMES)


def test_other_partitions_take_the_slots_of_a_lost_one_and_reread_seeds(control, job, third):
    before = read_map(control, NAMES)

    remove()

    with psycopg.connect(third.dsn, autocommit=True) as there:
        maps = {read_map(one, NAMES) for one in (control, there)}
        assert [noted_names(one)["names"] for one in (control, there)] == [["a", "c"]] * 2
    (new,) = maps
    assert new.epoch > before.epoch
    assert len(new.slots_of("a")) + len(new.slots_of("c")) == SLOTS
    assert all(new.owners[slot] == owner for slot, owner in enumerate(before.owners) if owner != "b")
    assert set(Seed.objects.values_list("seeding_version", flat=True)) == {""}


def test_documents_that_link_to_lost_ones_are_fetched_unconditionally(control, job):
    gained = Placement("a", NAMES)
    # After the removal, the slots of `b` belong to `a` and `c` alternately.
    of_b = read_map(control, NAMES).slots_of("b")
    hosts = [f"h{n}.example" for n in range(5000) if gained.partition_of(f"h{n}.example") == "b"]
    own = next(host for host in hosts if of_b.index(slot_of(host)) % 2 == 0)
    others = next(host for host in hosts if of_b.index(slot_of(host)) % 2 == 1)
    link(job, "lost", host=own, target="b")
    link(job, "moved", host=others, target="b")
    link(job, "kept", host=host_of("c"), target="c")

    remove()

    assert dict(QueueItem.objects.values_list("identifier", "validators")) == {
        "http://own.example/page": "",
        "http://own.example/other": "{}",
    }
    targets = {one.identifier.rpartition("/")[2]: one.target for one in ForeignLink.objects.all()}
    assert targets == {"moved": "c", "kept": "c"}


def test_an_interrupted_removal_of_a_lost_partition_is_completed(control, job, third, monkeypatch):
    for place, name in ((lost_partition, "adopt_map"), (removing, "note_names")):
        with monkeypatch.context() as interrupted:
            interrupted.setattr(place, name, Mock(side_effect=KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                remove()

    remove()

    with psycopg.connect(third.dsn, autocommit=True) as there:
        assert read_map(control, NAMES) == read_map(there, NAMES)
    assert noted_names(control)["names"] == ["a", "c"]


@pytest.fixture
def move(control):
    """Return a move of some slots to `c`, which copies documents. Partition `b` has not sent its documents yet."""
    before = read_map(control, NAMES)
    move = Move(change_owner(before, before.slots_of("b")[:10], ["c"], number=1), MovePhase.COPYING)
    send_fact(control, "a", "a", KEY, move.as_json())
    return move


def test_a_move_that_copies_documents_continues_without_a_lost_partition(control, job, move):
    left = len(move.to.slots_of("b"))
    assert f"Partition b has {left} slots" in remove("--dry-run")
    assert read_move(control) == move

    output = remove()

    after = read_move(control)
    assert "goes on without b" in output
    assert "Documents that were sent to it, and have not arrived, come back." in output
    assert (after.number, after.phase, after.without) == (2, MovePhase.COPYING, ("b",))
    assert after.to.slots_of("b") == []
    assert len(after.to.slots_of("c")) >= len(move.to.slots_of("c")) + left // 2
    assert noted_names(control)["names"] == list(NAMES)


def test_a_removal_waits_for_the_end_of_a_move_that_copies_documents(control, job, move):
    remove()
    with pytest.raises(CommandError, match=r"Move 2 goes on without b\. Wait for its end"):
        remove()

    after = read_move(control)
    send_fact(control, "a", "a", KEY, Move(after.to, MovePhase.DONE, without=after.without).as_json())
    remove()

    assert noted_names(control)["names"] == ["a", "c"]


def test_a_removal_is_refused_until_a_move_that_waits_for_jobs_is_cancelled(control, job, move):
    send_fact(control, "a", "a", KEY, Move(move.to).as_json())

    with pytest.raises(CommandError, match="Cancel the move: crawlctl partition cancel-move"):
        remove()


def test_a_partition_that_answers_cannot_be_removed_as_lost(control, job, third):
    with pytest.raises(CommandError, match="Partition c answers, so it is not lost"):
        call_command("partition", "remove", "c", "--lost")


def test_a_lost_partition_is_not_removed_during_a_run(control, job):
    Job.objects.update(phase="active", run_no=1)

    with pytest.raises(CommandError, match="Job news is in a run in partition a"):
        remove()


def test_the_last_partition_runs_jobs_without_waiting_for_others(connection, job):
    note(connection, "a", names=["a", "b"])
    with pytest.raises(BadPartitions):
        check_partitions(connection)

    note(connection, "a", names=["a"])
    check_partitions(connection)

    assert not PartitionedJob.objects.exists()
