"""Proves that after a flush or a clean-up, outputs and their record have exactly the documents of their jobs."""

import datetime as dt
import fcntl
import itertools
import json
import threading
import uuid
from pathlib import Path

import psycopg
import pytest

from jobs.connectors.output.base import OutputError
from jobs.connectors.repository.base import Content, Document, Ending, Outcome
from jobs.lifecycle.document import Stage
from jobs.lifecycle.endings import result_of
from jobs.loops.worker.outputs import JobOutputs
from jobs.models import (
    Batch,
    CounterDelta,
    IndexedDocument,
    Job,
    OutLinks,
    OutputConnection,
    QueueItem,
    RepositoryConnection,
    SearchDocument,
    Seed,
    ThrottleGroup,
)
from jobs.queue import take
from jobs.queue.flushing.flush import flush
from jobs.queue.flushing.outcomes import JobFacts, Result
from jobs.queue.removing.drop import Dropped, drop
from jobs.queue.take import Claimed
from jobs.verbs import connections
from nodes.membership.fences import FenceRefused
from tests.support.cluster import register_node
from tests.support.factories import make_lane
from tests.support.waiting import wait_until

NOON = dt.datetime(2030, 1, 1, 12, tzinfo=dt.UTC)
PAGE, OTHER_PAGE = "http://a.example/page", "http://a.example/other"


def hash_of(url: str) -> str:
    return uuid.uuid5(uuid.NAMESPACE_URL, url).hex


class JobWithOutputs:
    """A job in its third run. A worker claims its documents one by one."""

    def __init__(self, name: str, *outputs: OutputConnection) -> None:
        repository, _ = RepositoryConnection.objects.get_or_create(name="web")
        self.row = Job.objects.create(name=name, repository=repository, run_no=3)
        self.row.outputs.set(outputs)
        seed = Seed.objects.create(job=self.row, urls=["http://a.example/"])
        self.group = ThrottleGroup.objects.create(seed=seed, node_scope="cluster")
        self.lane = make_lane(seed, ready_at=None)
        holding = tuple(sorted(output.pk for output in outputs if output.connector != "null"))
        self.facts = JobFacts(
            id=self.row.pk,
            run_no=3,
            repository=repository.pk,
            tracks_depth=False,
            max_depth=None,
            has_budget=False,
            outputs=holding,
        )

    def claim(self, url: str, *, stage: Stage = Stage.ACTIVE, was_lost: bool = False) -> Claimed:
        """
        Claim the document in a batch, as stuffing and taking do. A known document keeps its fields. `was_lost` marks an
        earlier lost claim.
        """
        batch = Batch.objects.create(
            group=self.group, node_scope="cluster", state=Batch.State.SENT, documents=1, created_at=NOON
        )
        claim = {"stage": stage, "batch": batch} | ({"losses": 1, "indexed_before": True} if was_lost else {})
        mine = QueueItem.objects.filter(hash=hash_of(url), job=self.row)
        if not mine.update(**claim):
            QueueItem.objects.create(hash=hash_of(url), job=self.row, lane=self.lane, identifier=url, run_no=3, **claim)
        document = Document(
            hash=hash_of(url),
            identifier=url,
            depth=0,
            redirects=0,
            version="",
            validators="",
            failures=0,
            failing_for=0,
        )
        return Claimed(
            document=document,
            job_id=self.row.pk,
            run_no=3,
            seed_id=self.lane.seed_id,
            lane_id=self.lane.pk,
            batch_id=batch.pk,
            specification_version=self.row.specification_version,
        )

    def indexed(self, url: str, text: str = "text", *, version: str = "1:v1", **claim) -> Result:
        content = Content(url=url, title="", description="", text=text, content_type="text/html", language="")
        return self.ended(url, Ending.INDEXED, "200", version=version, content=content, references=[], **claim)

    def gone(self, url: str, code: str = "404", ending: Ending = Ending.FAILED, **claim) -> Result:
        return self.ended(url, ending, code, references=[], removes=True, **claim)

    def ended(self, url: str, ending: Ending, code: str, *, was_lost: bool = False, **facts) -> Result:
        claimed = self.claim(url, was_lost=was_lost)
        return Result(claimed=claimed, job=self.facts, outcome=Outcome(claimed.document, ending, code, **facts))

    def deleted(self) -> int:
        """Return the number of documents that were counted as removed from an output."""
        return sum(CounterDelta.objects.filter(job_id=self.row.pk, measure="deleted").values_list("amount", flat=True))


@pytest.fixture
def search_output(connection):
    return OutputConnection.objects.create(name="search", connector="search")


@pytest.fixture
def lines(tmp_path, connection):
    return OutputConnection.objects.create(
        name="lines", connector="jsonl", configuration={"path": str(tmp_path / "out.jsonl")}
    )


@pytest.fixture
def worker(connection):
    return register_node(connection, "worker").id


@pytest.fixture
def flushed(connection, worker):
    """Return a function that flushes results with the outputs of their jobs."""

    def run(*results: Result):
        return flush(connection, worker=worker, results=results, outputs=JobOutputs(), now=NOON)

    return run


@pytest.fixture
def dropped(connection, worker):
    """Return a function that drops claimed documents of some jobs."""

    def run(*claims: Claimed, jobs: tuple[JobWithOutputs, ...]) -> Dropped:
        facts = {job.row.pk: job.facts for job in jobs}
        return drop(connection, worker=worker, claims=claims, jobs=facts, outputs=JobOutputs(), now=NOON)

    return run


def texts() -> dict[str, str]:
    """Check that the record agrees with the search output. Return the texts in this output."""
    indexed = {(row.hash, row.output_id): row for row in IndexedDocument.objects.filter(output__connector="search")}
    documents = {(row.hash, row.output_id): row for row in SearchDocument.objects.all()}
    assert indexed.keys() == documents.keys()
    return {row.url: row.text for row in documents.values()}


def actions(lines: OutputConnection) -> list[tuple[str, str]]:
    path = Path(lines.configuration["path"])
    if not path.exists():
        return []
    return [(line["action"], line["url"]) for line in map(json.loads, path.read_text().split("\n")[:-1])]


# --- Flush ---------------------------------------------------------------------------------------


def test_an_indexed_document_is_in_all_outputs_of_its_job(search_output, lines, flushed):
    job = JobWithOutputs("job", search_output, lines)

    flushed(job.indexed(PAGE, "words"))

    assert texts() == {PAGE: "words"}
    assert actions(lines) == [("add", PAGE)]
    assert set(IndexedDocument.objects.values_list("output", "version")) == {
        (search_output.pk, "1:v1"),
        (lines.pk, "1:v1"),
    }


def test_a_changed_document_replaces_its_old_version(search_output, flushed):
    job = JobWithOutputs("job", search_output)
    flushed(job.indexed(PAGE, "old", version="1:v1"))

    flushed(job.indexed(PAGE, "new", version="1:v2"))

    assert texts() == {PAGE: "new"}
    assert IndexedDocument.objects.get().version == "1:v2"
    assert job.deleted() == 0


def test_the_null_output_has_no_record_of_its_documents(flushed):
    job = JobWithOutputs("job", OutputConnection.objects.create(name="null", connector="null"))

    flushed(job.indexed(PAGE))
    flushed(job.gone(PAGE))

    assert not IndexedDocument.objects.exists()
    assert job.deleted() == 0


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        (Ending.FAILED, "404"),
        (Ending.FAILED, "410"),
        (Ending.EXCLUDED, "NOINDEX"),
        (Ending.EXCLUDED, "REDIRECT"),
        (Ending.EXCLUDED, "ROBOTS"),
        (Ending.EXCLUDED, "NOT_TEXT"),
    ],
)
def test_a_document_lost_at_its_source_leaves_all_outputs_and_counts_once(search_output, lines, flushed, ending, code):
    job = JobWithOutputs("job", search_output, lines)
    flushed(job.indexed(PAGE), job.indexed(OTHER_PAGE))

    flushed(job.gone(PAGE, code, ending))

    assert texts() == {OTHER_PAGE: "text"}
    assert actions(lines)[-1] == ("delete", PAGE)
    assert job.deleted() == 1


def test_documents_that_were_not_read_stay_in_the_outputs(search_output, lines, flushed):
    job = JobWithOutputs("job", search_output, lines)
    flushed(job.indexed(PAGE))

    flushed(job.ended(PAGE, Ending.FAILED, "500", version="1:v1"))
    flushed(job.ended(PAGE, Ending.UNCHANGED, "OK_UNCHANGED", version="1:v1"))
    flushed(job.ended(PAGE, Ending.RETRY, "503", retry_after=60))

    assert texts() == {PAGE: "text"}
    assert actions(lines) == [("add", PAGE)]
    assert job.deleted() == 0


def test_a_document_without_an_output_is_removed_from_none(search_output, lines, flushed):
    job = JobWithOutputs("job", search_output, lines)

    flushed(job.gone(PAGE))
    flushed(job.gone(PAGE))

    assert actions(lines) == []
    assert job.deleted() == 0


def test_an_outcome_that_lost_its_claim_reaches_no_output(search_output, lines, flushed):
    job = JobWithOutputs("job", search_output, lines)
    stale = job.indexed(PAGE, "stale")
    job.claim(PAGE)

    assert flushed(stale).refused == 1

    assert texts() == {}
    assert actions(lines) == []


def test_no_outcome_is_stored_if_one_output_refuses_a_document(search_output, connection, flushed, tmp_path):
    (tmp_path / "file").write_text("")
    nowhere = OutputConnection.objects.create(
        name="nowhere", connector="jsonl", configuration={"path": str(tmp_path / "file/out.jsonl")}
    )
    job = JobWithOutputs("job", search_output, nowhere)

    with pytest.raises(OutputError, match="cannot be"):
        flushed(job.indexed(PAGE))

    assert texts() == {}
    assert QueueItem.objects.get().stage == Stage.ACTIVE


def test_a_worker_gets_the_version_of_a_document_only_if_all_outputs_have_it(
    search_output, lines, connection, flushed, worker
):
    job = JobWithOutputs("job", search_output, lines)
    flushed(job.indexed(PAGE, version="1:v1"))

    def taken_version() -> str:
        claimed = job.claim(PAGE)
        Batch.objects.filter(pk=claimed.batch_id).update(state=Batch.State.AVAILABLE)
        job_turn(job, claimed.batch_id)
        (turn,) = take.take(connection, worker=worker, room=10, idle=True, now=NOON).turns
        return turn.documents[0].document.version

    assert taken_version() == "1:v1"
    IndexedDocument.objects.filter(output=lines).update(version="1:v0")
    assert taken_version() == ""


def job_turn(job: JobWithOutputs, batch: int) -> None:
    job.lane.turns.create(batch_id=batch, bin=job.lane.bin, documents=1, requests=1, gap=0)


def test_a_removal_is_logged_when_a_lost_worker_may_have_logged_the_text(search_output, lines, flushed):
    job = JobWithOutputs("job", search_output, lines)

    flushed(job.gone(PAGE, was_lost=True))

    assert actions(lines) == [("delete", PAGE)]
    assert job.deleted() == 0


def test_a_removal_is_logged_even_if_the_lost_document_was_tried_meanwhile(lines, flushed):
    job = JobWithOutputs("job", lines)
    flushed(job.ended(PAGE, Ending.FAILED, "500", was_lost=True))

    flushed(job.gone(PAGE))

    assert actions(lines) == [("delete", PAGE)]


def test_a_writer_that_was_replaced_while_it_was_frozen_logs_nothing(lines, dsn, connection, worker, tmp_path):
    job = JobWithOutputs("job", lines)
    result, errors = job.indexed(PAGE), []
    path = tmp_path / "out.jsonl"
    path.touch()
    frozen = psycopg.connect(dsn, autocommit=True)

    def run() -> None:
        try:
            flush(frozen, worker=worker, results=[result], outputs=JobOutputs(), now=NOON)
        except psycopg.OperationalError as error:
            errors.append(error)

    flushing = threading.Thread(target=run)
    with path.open("rb") as held_up:
        fcntl.flock(held_up, fcntl.LOCK_EX)
        flushing.start()
        wait_until(lambda: has_read_its_documents(connection, frozen.info.backend_pid))
        connection.execute("SELECT pg_terminate_backend(%s)", [frozen.info.backend_pid])
    flushing.join(10)

    assert len(errors) == 1
    assert actions(lines) == []


def has_read_its_documents(connection: psycopg.Connection, pid: int) -> bool:
    """True if the server has answered the query for documents, and waits for the next statement."""
    waiting_for = connection.execute(
        "SELECT wait_event FROM pg_stat_activity WHERE pid = %s AND query LIKE '%%indexeddocument%%'", [pid]
    ).fetchone()
    return waiting_for == ("ClientRead",)


# --- Shared outputs ------------------------------------------------------------------------------


def test_a_document_of_another_job_stays_and_its_last_holder_removes_it(search_output, lines, flushed):
    one, other = JobWithOutputs("one", search_output, lines), JobWithOutputs("other", search_output, lines)
    flushed(one.indexed(PAGE))
    flushed(other.indexed(PAGE))

    flushed(one.gone(PAGE))
    assert texts() == {PAGE: "text"}
    flushed(other.gone(PAGE))

    assert texts() == {}
    assert actions(lines) == [("add", PAGE), ("add", PAGE), ("delete", PAGE)]
    assert (one.deleted(), other.deleted()) == (0, 1)


def test_a_job_does_not_keep_a_document_in_an_output_that_it_lacks(search_output, lines, flushed):
    one, other = JobWithOutputs("one", search_output), JobWithOutputs("other", lines)
    flushed(one.indexed(PAGE))
    flushed(other.indexed(PAGE))

    flushed(one.gone(PAGE))

    assert texts() == {}
    assert actions(lines) == [("add", PAGE)]


def test_the_later_of_two_jobs_that_release_a_document_removes_it(search_output, connection, dsn, worker, flushed):
    one, other = JobWithOutputs("one", search_output), JobWithOutputs("other", search_output)
    flushed(one.indexed(PAGE))
    flushed(other.indexed(PAGE))
    first, second = one.gone(PAGE), other.gone(PAGE)
    waiting = threading.Thread(target=lambda: flush_elsewhere(dsn, worker, second))

    with connection.transaction():
        flush(connection, worker=worker, results=[first], outputs=JobOutputs(), now=NOON)
        waiting.start()
        wait_until(lambda: waits_for_a_lock(dsn))
    waiting.join(10)

    assert texts() == {}
    assert (one.deleted(), other.deleted()) == (0, 1)


def test_a_job_that_adds_a_document_during_its_removal_keeps_it(search_output, connection, dsn, worker, flushed):
    one, other = JobWithOutputs("one", search_output), JobWithOutputs("other", search_output)
    flushed(one.indexed(PAGE, "old"))
    first, second = one.gone(PAGE), other.indexed(PAGE, "new")
    waiting = threading.Thread(target=lambda: flush_elsewhere(dsn, worker, second))

    with connection.transaction():
        flush(connection, worker=worker, results=[first], outputs=JobOutputs(), now=NOON)
        waiting.start()
        wait_until(lambda: waits_for_a_lock(dsn))
    waiting.join(10)

    assert texts() == {PAGE: "new"}
    assert one.deleted() == 1


def flush_elsewhere(dsn: str, worker: uuid.UUID, result: Result) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        flush(connection, worker=worker, results=[result], outputs=JobOutputs(), now=NOON)


def waits_for_a_lock(dsn: str) -> bool:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)").fetchone() == (True,)


# --- Drop ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", [Stage.BEING_CLEANED, Stage.BEING_DELETED])
def test_a_dropped_document_leaves_outputs_and_queue(search_output, lines, flushed, dropped, stage):
    job = JobWithOutputs("job", search_output, lines)
    flushed(job.indexed(PAGE), job.indexed(OTHER_PAGE))

    done = dropped(job.claim(PAGE, stage=stage), jobs=(job,))

    assert done == Dropped(dropped=1, removed=1)
    assert texts() == {OTHER_PAGE: "text"}
    assert actions(lines)[-1] == ("delete", PAGE)
    assert [item.identifier for item in QueueItem.objects.all()] == [OTHER_PAGE]
    assert [link.hash.hex for link in OutLinks.objects.all()] == [hash_of(OTHER_PAGE)]


def test_a_dropped_document_is_subtracted_from_the_counts_of_its_run(search_output, flushed, dropped):
    job = JobWithOutputs("job", search_output)
    flushed(job.indexed(PAGE))
    CounterDelta.objects.all().delete()
    claim = job.claim(PAGE, stage=Stage.BEING_CLEANED)
    QueueItem.objects.update(run_no=2)

    dropped(claim, jobs=(job,))

    assert set(CounterDelta.objects.values_list("lane_id", "run_no", "measure", "stage", "amount")) == {
        (job.lane.pk, 2, "stage", Stage.BEING_CLEANED, -1),
        (job.lane.pk, 3, "deleted", 0, 1),
        # The document ended as indexed before, and no longer exists in run 3.
        (job.lane.pk, 3, "differs", result_of(Ending.INDEXED, "200"), 1),
    }


def test_a_document_that_no_output_held_is_dropped_and_not_counted(search_output, lines, flushed, dropped):
    job = JobWithOutputs("job", search_output, lines)
    flushed(job.gone(PAGE))

    assert dropped(job.claim(PAGE, stage=Stage.BEING_CLEANED), jobs=(job,)) == Dropped(dropped=1)

    assert not QueueItem.objects.exists()
    assert actions(lines) == []


def test_documents_of_another_job_stay_when_a_job_is_deleted(search_output, flushed, dropped):
    one, other = JobWithOutputs("one", search_output), JobWithOutputs("other", search_output)
    flushed(one.indexed(PAGE))
    flushed(other.indexed(PAGE))

    assert dropped(one.claim(PAGE, stage=Stage.BEING_DELETED), jobs=(one,)) == Dropped(dropped=1)

    assert texts() == {PAGE: "text"}
    assert [item.job_id for item in QueueItem.objects.all()] == [other.row.pk]


@pytest.mark.parametrize("stages", list(itertools.product([Stage.BEING_CLEANED, Stage.BEING_DELETED], repeat=2)))
@pytest.mark.parametrize("turned", [False, True])
def test_the_later_of_two_jobs_that_drop_a_document_removes_it(
    search_output, lines, connection, other_connection, rival, worker, flushed, stages, turned
):
    one, other = JobWithOutputs("one", search_output, lines), JobWithOutputs("other", search_output, lines)
    flushed(one.indexed(PAGE))
    flushed(other.indexed(PAGE))
    claims = [(job, job.claim(PAGE, stage=stage)) for job, stage in zip((one, other), stages, strict=True)]
    (first, its_claim), (second, the_other_claim) = reversed(claims) if turned else claims

    with connection.transaction():
        done = drop_of(connection, worker, first, its_claim)
        rival.start_and_wait(drop_of, other_connection, worker, second, the_other_claim)
        assert (done.dropped, done.removed) == (1, 0)
    done = rival.result()

    assert (done.dropped, done.removed) == (1, 1)
    assert texts() == {}
    assert actions(lines) == [("add", PAGE), ("add", PAGE), ("delete", PAGE)]
    assert not QueueItem.objects.exists()


def test_a_clean_up_keeps_a_document_that_another_job_adds(
    search_output, connection, other_connection, rival, worker, flushed
):
    one, other = JobWithOutputs("one", search_output), JobWithOutputs("other", search_output)
    flushed(one.indexed(PAGE, "old"))
    claim, added = one.claim(PAGE, stage=Stage.BEING_CLEANED), other.indexed(PAGE, "new")

    with connection.transaction():
        flush(connection, worker=worker, results=[added], outputs=JobOutputs(), now=NOON)
        rival.start_and_wait(drop_of, other_connection, worker, one, claim)
    done = rival.result()

    assert (done.dropped, done.removed) == (1, 0)
    assert texts() == {PAGE: "new"}


def drop_of(connection: psycopg.Connection, worker: uuid.UUID, job: JobWithOutputs, claim: Claimed) -> Dropped:
    jobs = {job.row.pk: job.facts}
    return drop(connection, worker=worker, claims=[claim], jobs=jobs, outputs=JobOutputs(), now=NOON)


def test_a_drop_without_its_claim_drops_nothing(search_output, flushed, dropped):
    job = JobWithOutputs("job", search_output)
    flushed(job.indexed(PAGE))
    lost = job.claim(PAGE, stage=Stage.BEING_CLEANED)
    job.claim(PAGE, stage=Stage.BEING_CLEANED)

    assert dropped(lost, jobs=(job,)) == Dropped(refused=1)

    assert texts() == {PAGE: "text"}
    assert QueueItem.objects.count() == 1


def test_a_document_that_is_claimed_to_be_fetched_is_not_dropped(search_output, flushed, dropped):
    job = JobWithOutputs("job", search_output)
    flushed(job.indexed(PAGE))

    assert dropped(job.claim(PAGE, stage=Stage.ACTIVE), jobs=(job,)) == Dropped(refused=1)


def test_a_failed_worker_drops_nothing(search_output, connection, worker, flushed, dropped):
    job = JobWithOutputs("job", search_output)
    flushed(job.indexed(PAGE))
    claim = job.claim(PAGE, stage=Stage.BEING_CLEANED)
    connection.execute("UPDATE nodes_node SET status = 'failed', stopped_at = now() WHERE id = %s", [worker])

    with pytest.raises(FenceRefused):
        dropped(claim, jobs=(job,))

    assert texts() == {PAGE: "text"}
    assert QueueItem.objects.count() == 1


# --- Connections ---------------------------------------------------------------------------------


def test_a_connection_that_changed_between_runs_is_read_again(lines, connection, worker, tmp_path):
    job, outputs = JobWithOutputs("job", lines), JobOutputs()
    flush(connection, worker=worker, results=[job.indexed(PAGE)], outputs=outputs, now=NOON)

    connections.change(OutputConnection, lines.pk, configuration={"path": str(tmp_path / "elsewhere.jsonl")})
    job.row.refresh_from_db()
    flush(connection, worker=worker, results=[job.indexed(PAGE)], outputs=outputs, now=NOON)

    assert actions(lines) == [("add", PAGE)]
    lines.refresh_from_db()
    assert actions(lines) == [("add", PAGE)]


def test_a_document_claimed_before_an_edit_goes_to_the_edited_output(lines, connection, worker, tmp_path):
    job, outputs = JobWithOutputs("job", lines), JobOutputs()
    early = job.indexed(PAGE)
    connections.change(OutputConnection, lines.pk, configuration={"path": str(tmp_path / "elsewhere.jsonl")})
    job.row.refresh_from_db()
    flush(connection, worker=worker, results=[job.indexed(OTHER_PAGE)], outputs=outputs, now=NOON)

    flush(connection, worker=worker, results=[early], outputs=outputs, now=NOON)

    lines.refresh_from_db()
    assert actions(lines) == [("add", OTHER_PAGE), ("add", PAGE)]


@pytest.mark.parametrize("configuration", [{}, {"path": "relative"}, {"path": "/x", "mode": "w"}])
def test_an_invalid_output_connection_is_refused_with_a_reason(configuration, flushed):
    broken = OutputConnection.objects.create(name="broken", connector="jsonl", configuration=configuration)
    job = JobWithOutputs("job", broken)

    with pytest.raises(OutputError, match=f"Output connection {broken.pk} cannot be used"):
        flushed(job.indexed(PAGE))
