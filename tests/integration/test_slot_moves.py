"""
Proves moves of slots between partitions: jobs are held, documents are copied, and each partition carries out its steps.
"""

from dataclasses import replace

import pytest

from jobs.duties.slot_moves import MOVES, move_slots
from jobs.duties.start import prepare_runs
from jobs.lifecycle.job import Guard, Phase
from jobs.models import (
    BinState,
    DocumentVersion,
    ForeignLink,
    ForeignReference,
    IndexedDocument,
    Job,
    OutLinks,
    PartitionedJob,
    PartitionFact,
    QueueItem,
    SearchDocument,
    Seed,
)
from jobs.partitions.exchange import offer_links
from jobs.partitions.facts import send_fact, sent_fact
from jobs.partitions.move_notes import (
    KEY,
    REPORT_KEY,
    MoveRefused,
    cancel_move,
    continue_without_partition,
    read_move,
    read_report,
    request_move,
)
from jobs.partitions.moving import HeldJob, Move, MovePhase, Report, change_owner
from jobs.partitions.placement import slot_of
from jobs.partitions.slots import KEY as MAP_KEY
from jobs.partitions.slots import SlotMap, read_map
from jobs.partitions.this_partition import placement
from jobs.queries.jobs.counts import count_own_documents
from jobs.queries.jobs.page import read_job_page
from jobs.state.transitions import SlotsMove, make_transition
from jobs.verbs import control
from jobs.verdicts.causes import Cause
from tests.integration.test_queue_flush import OneWorker
from tests.support.cluster import NOON
from tests.support.factories import hash_of, make_documents, make_lane, make_output
from tests.support.partitions import be_partition, receive_fact
from tests.support.stepping import Main
from tests.support.tables import each_row


@pytest.fixture
def crawl(connection):
    return OneWorker(connection)


# --- Held jobs -----------------------------------------------------------------------------------


def test_a_held_job_hands_out_no_document_until_the_move_is_over(crawl):
    make_documents(crawl.lane, ["page"])
    Job.objects.update(move_hold=3)

    assert crawl.claim() == {}
    assert read_job_page(Job.objects.get().pk, now=NOON).verdict.cause == Cause.SLOTS

    Job.objects.update(move_hold=0)
    assert set(crawl.claim()) == {"page"}


@each_row(
    "name, state",
    [
        ("begin reseeding", {}),
        ("shut down", {}),
        ("prepare", {"phase": Phase.READY_FOR_STARTUP}),
        ("allow removals", {"phase": Phase.INACTIVE, "guard": Guard.WAITING}),
        ("delete", {"phase": Phase.INACTIVE}),
    ],
)
def test_a_held_job_reads_no_seeds_and_removes_no_documents(crawl, name, state):
    Job.objects.update(move_hold=3, **{"phase": Phase.ACTIVE, "seeding": False, "guard": Guard.NO, **state})
    job = Job.objects.get()

    with pytest.raises(SlotsMove, match="while slots move between partitions"):
        make_transition(job.pk, name, made_by="vera", now=NOON)

    Job.objects.update(move_hold=0)
    make_transition(job.pk, name, made_by="vera", now=NOON)


def test_operators_pause_and_abort_a_held_job(crawl):
    Job.objects.update(move_hold=3)
    job = Job.objects.get()

    control.pause(job.pk, made_by="vera", now=NOON)
    control.abort(job.pk, made_by="vera", now=NOON)

    job.refresh_from_db()
    assert (job.move_hold, job.stop_request) == (3, "abort")


# --- The steps of a partition --------------------------------------------------------------------

NUMBER = 7
HOST = "a.example"
OTHERS = [f"h{number}.example" for number in range(99)]
RUNNING = {str(NUMBER): HeldJob(1, is_active=True)}


class Moving:
    """
    Partition `a`, which leads a move of the host's slot to `b`.

    The same database can act as `b` afterwards: by then, the chunks of `a` are stored as rows for `b`, and the
    documents of `a` have left.
    """

    def __init__(self, connection, settings):
        be_partition(settings, "a")
        self.connection, self.settings, self.crawl = connection, settings, OneWorker(connection)
        self.main = Main(connection)
        self.job = self.crawl.job
        PartitionedJob.objects.create(job=self.job, number=NUMBER)
        # Partition `a` has the second half of the slots, which contains the host's slot.
        send_fact(connection, "a", "a", MAP_KEY, SlotMap(0, ("b",) * 512 + ("a",) * 512).as_json())

    def request(self):
        return request_move(self.connection, placement(), slots=[slot_of(HOST)], targets=["b"])

    def step(self, times=1):
        for _ in range(times):
            self.main.step(move_slots)

    def receive_from_b(self, **report):
        """Receive the report of `b`, which holds the running job."""
        usual = Report(self.move.number, self.move.number, held=RUNNING, sent={})
        receive_fact(self.connection, "b", "a", REPORT_KEY, replace(usual, **report).as_json())

    def sends(self):
        """Make all steps of `a` until its documents are sent."""
        self.request()
        self.step()
        self.receive_from_b(epoch=0, sent=None)
        self.step(5)

    def becomes_b(self):
        be_partition(self.settings, "b")

    def has_a_move(self):
        """True if the duty that moves slots is due."""
        return self.connection.execute(f"SELECT {MOVES}").fetchone()[0]

    @property
    def move(self):
        return read_move(self.connection)

    @property
    def own(self):
        return read_report(self.connection, "ab")


@pytest.fixture
def moving(connection, settings):
    return Moving(connection, settings)


def test_a_partition_holds_its_jobs_and_reports_them(moving):
    moving.request()

    moving.step()

    assert Job.objects.get().move_hold == moving.move.number == 1
    assert moving.own.held == RUNNING
    assert sent_fact(moving.connection, "a", "b", KEY)["phase"] == "holding"


def test_a_move_waits_for_documents_in_progress(moving):
    make_documents(moving.crawl.lane, ["page"])
    claims = moving.crawl.claim()
    moving.request()

    moving.step()

    assert moving.own.held is None
    assert "are in progress" in moving.own.waits_for

    moving.crawl.flush(claims["page"])
    moving.step()
    assert moving.own.held == RUNNING


@each_row(
    "state",
    [{"phase": Phase.STARTING_UP}, {"phase": Phase.SHUTTING_DOWN}, {"phase": Phase.ACTIVE, "seeding": True}],
    ids=["starts", "removes documents", "reads its seeds"],
)
def test_a_move_waits_for_a_job_that_begins_or_ends(moving, state):
    Job.objects.update(**state)
    moving.request()

    moving.step()

    assert (Job.objects.get().move_hold, moving.own.held) == (0, None)
    assert moving.own.waits_for
    cancel_move(moving.connection, placement())


def test_no_run_is_prepared_while_slots_move(moving):
    Job.objects.update(phase=Phase.READY_FOR_STARTUP)
    moving.request()

    assert moving.main.step(prepare_runs) == 0
    moving.step()
    assert moving.own.held == {str(NUMBER): HeldJob(1, is_active=False)}

    cancel_move(moving.connection, placement())
    moving.step()
    assert moving.main.step(prepare_runs) == 1


def test_a_move_is_refused_if_documents_of_a_job_cannot_move(moving):
    Job.objects.update(archive="warc")
    moving.request()

    moving.step()

    assert moving.move.phase == MovePhase.REFUSED
    assert "a: Job" in moving.move.why
    assert "keeps an archive" in moving.move.why
    assert Job.objects.get().move_hold == 0


def test_a_cancelled_move_changes_nothing_and_the_next_has_another_number(moving):
    moving.request()
    moving.step()

    cancel_move(moving.connection, placement())
    moving.step()

    assert Job.objects.get().move_hold == 0
    assert read_map(moving.connection, "ab").epoch == 0
    assert moving.request().number == 2


def test_one_move_runs_at_a_time_and_a_copying_move_cannot_be_cancelled(moving):
    moving.sends()

    with pytest.raises(MoveRefused, match="A move of slots is in progress already"):
        moving.request()
    with pytest.raises(MoveRefused, match="cannot be cancelled"):
        cancel_move(moving.connection, placement())


def test_a_move_after_a_restore_begins_from_the_map_of_the_last_move(moving):
    before = read_map(moving.connection, "ab")
    last = Move(change_owner(before, [slot_of(HOST)], ["b"], number=1), MovePhase.DONE)
    send_fact(moving.connection, "a", "a", KEY, last.as_json())

    move = request_move(moving.connection, placement(), slots=[1000], targets=["b"])

    assert (move.number, move.to.owners[slot_of(HOST)], move.to.owners[1000]) == (2, "b", "b")


# --- Documents -----------------------------------------------------------------------------------


def rows_of(model, **without):
    """Return the rows of a table without the columns that each database numbers itself."""
    columns = [field.attname for field in model._meta.concrete_fields if field.attname not in without]
    return sorted(map(str, model.objects.values_list(*columns)))


def write_into_output(moving, name):
    """Write a document into an output of this database, with its text."""
    output = make_output()
    moving.job.outputs.add(output)
    IndexedDocument.objects.create(output=output, hash=hash_of(name), version="1", indexed_at=NOON)
    SearchDocument.objects.create(
        output=output, hash=hash_of(name), url=f"http://{HOST}/{name}", title="", description="", text="words",
        content_type="text/html", language="en", fetched_at=NOON, written_at=NOON,
    )  # fmt: skip


def test_documents_move_with_all_their_rows_and_arrive_unchanged(moving):
    make_documents(moving.crawl.lane, ["page"])
    moving.crawl.flush(moving.crawl.claim()["page"], validators="etag", names=["waiting"], facts={"kept_versions": 3})
    write_into_output(moving, "page")
    (newest,) = DocumentVersion.objects.all()
    for number in (newest.number + 1, newest.number + 2):
        newest.number = number
        newest.save(force_insert=True)
    tables = (QueueItem, OutLinks, DocumentVersion, IndexedDocument, SearchDocument)
    own = {"seq": "", "batch_id": ""}
    before = [rows_of(table, **own) for table in tables]

    moving.sends()

    assert [table.objects.count() for table in tables] == [0, 0, 0, 0, 0]
    assert moving.own.sent == {"b": 1}
    assert set(ForeignLink.objects.values_list("hash", "target")) == {
        (hash_of(name), "b") for name in ("page", "waiting")
    }

    moving.becomes_b()
    moving.step()

    assert [rows_of(table, **own) for table in tables] == before
    assert not ForeignLink.objects.exists()
    assert not PartitionFact.objects.filter(target="b", key__startswith="chunk:").exists()


def test_links_that_arrived_by_a_move_are_sent_to_a_restored_partition(moving):
    make_documents(moving.crawl.lane, ["page"])
    moving.crawl.flush(moving.crawl.claim()["page"], names=["waiting"])
    other = make_lane(moving.crawl.running.seed, next(name for name in OTHERS if slot_of(name) > 600))
    QueueItem.objects.filter(hash=hash_of("waiting")).update(lane_id=other.pk)
    moving.sends()
    QueueItem.objects.all().delete()
    ForeignLink.objects.update(run_no=0)
    moving.becomes_b()
    moving.step()
    assert [(link.hash, link.target) for link in ForeignLink.objects.all()] == [(hash_of("waiting"), "a")]

    offered = [offer_links(moving.connection, "b", "a") for _ in range(2)]

    assert offered == [1, 0]
    (reference,) = ForeignReference.objects.all()
    assert (reference.source, reference.target, reference.hash) == ("b", "a", hash_of("waiting"))
    assert (reference.job_number, reference.run_no, reference.found_on) == (NUMBER, 1, hash_of("page"))


def test_documents_that_left_by_a_move_are_sent_to_a_restored_partition(moving):
    make_documents(moving.crawl.lane, ["page"])
    moving.sends()

    assert offer_links(moving.connection, "a", "b") == 1
    assert ForeignReference.objects.get().hash == hash_of("page")


def test_a_chunk_that_arrives_again_changes_nothing(moving):
    make_documents(moving.crawl.lane, ["page"])
    moving.sends()
    chunk = PartitionFact.objects.get(target="b", key__startswith="chunk:")
    moving.becomes_b()
    moving.step()
    QueueItem.objects.update(depth=5)

    receive_fact(moving.connection, "a", "b", chunk.key, chunk.body)
    moving.step()

    assert QueueItem.objects.get().depth == 5
    (applied,) = moving.own.applied["a"].values()
    assert applied == 1


def test_counts_move_with_their_documents(moving):
    make_documents(moving.crawl.lane, ["one", "two"])

    moving.sends()
    assert count_own_documents([moving.job.pk])[moving.job.pk].pending == -2

    moving.becomes_b()
    moving.step()
    assert count_own_documents([moving.job.pk])[moving.job.pk].pending == 0


def test_hosts_that_stay_keep_their_documents(moving):
    other = next(name for name in OTHERS if slot_of(name) > 600)
    make_documents(make_lane(moving.crawl.running.seed, other), ["stays"])
    make_documents(moving.crawl.lane, ["leaves"])

    moving.sends()

    assert QueueItem.objects.get().hash == hash_of("stays")


def test_the_gap_of_a_host_begins_when_the_host_arrives(moving):
    make_documents(moving.crawl.lane, ["page"])
    moving.sends()
    BinState.objects.update(last_start_at=None)

    moving.becomes_b()
    moving.step()

    assert BinState.objects.get().last_start_at is not None


def test_a_stop_by_an_operator_moves_with_its_host(moving):
    make_documents(moving.crawl.lane, ["page"])
    moving.crawl.lane.bin.stopped_at, moving.crawl.lane.bin.stopped_by = NOON, "vera"
    moving.crawl.lane.bin.save()

    moving.sends()
    moving.crawl.lane.bin.refresh_from_db()
    assert moving.crawl.lane.bin.stopped_at is None

    moving.becomes_b()
    moving.step()
    moving.crawl.lane.bin.refresh_from_db()
    assert (moving.crawl.lane.bin.stopped_at, moving.crawl.lane.bin.stopped_by) == (NOON, "vera")


def test_seeds_are_read_again_under_the_new_map(moving):
    Seed.objects.update(seeded_run=1, seeding_version="v1")
    Job.objects.update(unread=0)

    moving.sends()

    assert (Seed.objects.get().seeded_run, Seed.objects.get().seeding_version) == (0, "")
    assert Job.objects.get().unread > 0


def test_a_move_ends_when_the_other_partition_has_applied_all_chunks(moving):
    make_documents(moving.crawl.lane, ["page"])
    moving.sends()
    assert moving.move.phase == MovePhase.COPYING

    moving.receive_from_b(applied={"a": {moving.own.series: 1}})
    moving.step(2)

    assert moving.move.phase == MovePhase.DONE
    assert Job.objects.get().move_hold == 0
    assert not PartitionFact.objects.filter(key__startswith="chunk:").exists()
    assert read_map(moving.connection, "ab").epoch == 1


def test_a_move_continues_without_a_lost_partition_and_takes_back_chunks(moving):
    make_documents(moving.crawl.lane, ["one", "two"])
    moving.sends()
    assert QueueItem.objects.count() == 0
    lost = moving.move

    continue_without_partition(moving.connection, placement(), "b")
    moving.step(6)

    assert (moving.move.number, moving.move.phase) == (lost.number + 1, MovePhase.DONE)
    assert {row.hash for row in QueueItem.objects.all()} == {hash_of("one"), hash_of("two")}
    assert count_own_documents([moving.job.pk])[moving.job.pk].pending == 0
    assert read_map(moving.connection, "ab").slots_of("b") == []
    assert (Job.objects.get().move_hold, ForeignLink.objects.count()) == (0, 0)
    assert not PartitionFact.objects.filter(key__startswith="chunk:").exists()


def test_a_partition_that_returns_after_its_loss_gives_up_its_documents(moving):
    make_documents(moving.crawl.lane, ["page"])
    before = read_map(moving.connection, "ab")
    moving.becomes_b()
    send_fact(moving.connection, "b", "b", MAP_KEY, change_owner(before, range(1024), ["b"], number=1).as_json())
    without_b = Move(change_owner(before, range(1024), ["a"], number=2), MovePhase.DONE, without=("b",))

    receive_fact(moving.connection, "a", "b", KEY, without_b.as_json())
    moving.step(6)

    assert moving.own.sent == {"a": 1}
    assert not QueueItem.objects.exists()


def test_only_a_copying_move_continues_without_a_partition(moving):
    moving.request()

    with pytest.raises(MoveRefused, match="is not copying documents"):
        continue_without_partition(moving.connection, placement(), "b")


def test_a_killed_main_manager_has_sent_a_chunk_completely_or_not_at_all(moving, monkeypatch):
    make_documents(moving.crawl.lane, ["page"])
    monkeypatch.setattr("jobs.queue.moving.sending.count_moved", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        moving.sends()
    assert QueueItem.objects.count() == 1
    assert not PartitionFact.objects.filter(key__startswith="chunk:").exists()

    monkeypatch.undo()
    moving.step(3)

    assert moving.own.sent == {"b": 1}


def test_a_restored_control_partition_learns_of_a_move_from_other_partitions(moving):
    make_documents(moving.crawl.lane, ["page"])
    to = change_owner(read_map(moving.connection, "ab"), [slot_of(HOST)], ["b"], number=1)
    done = Move(to, MovePhase.DONE).as_json()
    assert not moving.has_a_move()

    receive_fact(moving.connection, "b", "a", KEY, done)
    assert moving.has_a_move()
    moving.step(4)

    assert moving.own.sent == {"b": 1}
    assert read_map(moving.connection, "ab") == to
    assert sent_fact(moving.connection, "a", "b", KEY) == done
    moving.step()
    assert Job.objects.get().move_hold == 0


def test_a_partition_reports_its_recorded_move_to_the_control_partition(moving):
    moving.request()
    moving.step()
    moving.becomes_b()
    PartitionFact.objects.filter(source="a", target="a", key=KEY).delete()

    moving.step()

    assert sent_fact(moving.connection, "b", "a", KEY) == sent_fact(moving.connection, "a", "b", KEY)
