"""Proves that the history has one entry for each request, output write and job transition, and drops old days."""

import datetime as dt
import time

import pytest

from jobs.connectors.repository.base import Ending, Record
from jobs.duties.cleaning import clean
from jobs.duties.context import Pass
from jobs.duties.history import clear_histories, keep_history
from jobs.duties.retention_subjects import SUBJECTS
from jobs.lifecycle.activity import OF_TRANSITIONS
from jobs.lifecycle.job import TRANSITIONS, Pause, Phase, RunEnd
from jobs.models import Activity, Job, QueueItem, RepositoryConnection
from jobs.queue import notifications
from jobs.queue.flushing.flush import OutputWriter, flush
from jobs.queue.flushing.history import Departure
from jobs.queue.removing.drop import drop
from jobs.settings.table import KEEP_HISTORY
from jobs.state.transitions import make_transition
from jobs.verbs.connections import clear_history
from tests.integration.test_queue_flush import OneWorker
from tests.support.cluster import NOON, elect_main, register_node, seconds
from tests.support.factories import (
    facts_of,
    hash_of,
    make_documents,
    make_job,
    make_output,
    make_result,
)

DAY = dt.timedelta(days=1)


@pytest.fixture
def crawl(connection, tmp_path):
    return OneWorker(connection, output=make_output(tmp_path / "out.jsonl"))


def fetched(code="200", *, began_ago=1.5, **facts):
    """Return the record of a connector for a request that began `began_ago` seconds ago."""
    usual = {
        "activity": "fetch",
        "seconds": 0.25,
        "bytes": 1000,
        "entity": "http://a.example/page",
        "result_code": code,
    }
    return Record(began=time.monotonic() - began_ago, **(usual | facts))


def history(**asked):
    return list(Activity.objects.filter(**asked).order_by("started_at", "id"))


class Outputs(OutputWriter):
    """Outputs that write nothing. They report these documents as removed."""

    def __init__(self, *departures):
        self.departures = departures

    def write(self, cursor, *, results, now):
        return self.departures

    def remove(self, cursor, *, claims, jobs, now):
        return self.departures


# --- Entries -------------------------------------------------------------------------------------


def test_an_activity_of_a_connector_is_in_the_history_with_its_start(crawl):
    make_documents(crawl.lane, ["page"])

    crawl.flush(crawl.claim()["page"], records=[fetched("200"), fetched("503", entity="http://a.example/robots.txt")])

    first, second = history(activity="fetch")
    assert (first.result_code, first.bytes, first.seconds, first.entity) == ("200", 1000, 0.25, "http://a.example/page")
    assert (first.job_id, first.repository_id, first.output_id) == (crawl.job.pk, crawl.job.repository_id, None)
    assert NOON - seconds(1.6) < first.started_at < NOON - seconds(1.4)
    assert (second.result_code, second.entity) == ("503", "http://a.example/robots.txt")


def test_each_history_entry_names_its_worker(connection, tmp_path):
    crawl = OneWorker(connection, output=make_output(tmp_path / "out.jsonl"), worker="worker-7")
    make_documents(crawl.lane, ["page"])

    crawl.flush(crawl.claim()["page"], records=[fetched()])

    assert {row.activity: row.node for row in history(job_id=crawl.job.pk, entity__startswith="http")} == {
        "fetch": "worker-7",
        "document ingest": "worker-7",
    }


def test_a_document_keeps_the_duration_of_its_own_last_request(crawl):
    make_documents(crawl.lane, ["page"])
    make_documents(crawl.lane, ["held back"], response_ms=7)
    of_robots = fetched(entity="http://a.example/robots.txt", seconds=3.0)
    claimed = crawl.claim()

    crawl.flush(claimed["page"], ending=Ending.RETRY, code="503", records=[fetched("503"), of_robots])
    crawl.flush(claimed["held back"], requested=False, records=[of_robots])

    assert QueueItem.objects.get(hash=hash_of("page")).response_ms == 250
    assert QueueItem.objects.get(hash=hash_of("held back")).response_ms == 7


def test_a_failed_attempt_is_in_the_history_though_its_document_waits(crawl):
    make_documents(crawl.lane, ["page"])

    crawl.flush(
        crawl.claim()["page"],
        ending=Ending.RETRY,
        code="503",
        references=None,
        retry_after=9.0,
        records=[fetched("503")],
    )

    assert [row.result_code for row in history()] == ["503"]


def test_the_history_has_each_output_that_got_a_text_with_its_size(crawl):
    make_documents(crawl.lane, ["page"])

    crawl.flush(crawl.claim()["page"], text="größe")

    (ingested,) = history()
    assert (ingested.activity, ingested.output_id) == ("document ingest", crawl.job.outputs.get().pk)
    assert (ingested.entity, ingested.bytes, ingested.result_code) == ("http://a.example/page", 7, "OK")


def test_the_history_has_no_line_for_an_output_that_stores_nothing(connection):
    crawl = OneWorker(connection)
    make_documents(crawl.lane, ["page"])

    crawl.flush(crawl.claim()["page"])

    assert history() == []


def test_a_removed_document_is_logged_once_for_each_output(crawl, connection):
    make_documents(crawl.lane, ["page"])
    claimed = crawl.claim()["page"]
    gone = [
        Departure(crawl.job.pk, crawl.lane.pk, output, claimed.document.hash, "http://a.example/page")
        for output in (7, 8)
    ]
    result = make_result(claimed, facts_of(crawl.job), ending=Ending.FAILED, code="404", removes=True)

    flush(connection, worker=crawl.worker.id, results=[result], outputs=Outputs(*gone), now=NOON)

    rows = history()
    assert [(row.activity, row.output_id) for row in rows] == [("document deletion", 7), ("document deletion", 8)]
    assert rows[0].started_at == NOON


def test_documents_that_a_clean_up_removed_are_logged(crawl, connection):
    make_documents(crawl.lane, ["page"])
    claimed = crawl.claim()["page"]
    connection.execute("UPDATE jobs_queueitem SET stage = 3")
    gone = Departure(crawl.job.pk, crawl.lane.pk, 7, claimed.document.hash, "http://a.example/page")

    dropped = drop(
        connection,
        worker=crawl.worker.id,
        claims=[claimed],
        jobs={crawl.job.pk: facts_of(crawl.job)},
        outputs=Outputs(gone),
        now=NOON,
    )

    assert (dropped.dropped, dropped.removed) == (1, 1)
    assert [(row.activity, row.output_id) for row in history()] == [("document deletion", 7)]


def test_an_outcome_whose_claim_was_lost_is_not_reported(crawl, connection):
    make_documents(crawl.lane, ["page"])
    claimed = crawl.claim()["page"]
    connection.execute("UPDATE jobs_queueitem SET stage = 0, batch_id = NULL")

    crawl.flush(claimed, records=[fetched()])

    assert history() == []


def test_no_history_is_written_while_it_is_switched_off(crawl, connection, settings):
    settings.CRAWLCTL_ENVIRONMENT = {KEEP_HISTORY.path: 0}
    make_documents(crawl.lane, ["page"])
    result = make_result(crawl.claim()["page"], facts_of(crawl.job), records=[fetched()])

    flush(connection, worker=crawl.worker.id, results=[result], keeps_history=False, now=NOON)
    make_transition(make_job().pk, "start", made_by="a test", now=NOON)

    assert history() == []


def test_text_that_no_database_can_store_is_kept_in_part(crawl):
    make_documents(crawl.lane, ["page"])
    hostile = fetched(entity="http://a.example/\0\udc80", result_description="é" * 10_000)

    crawl.flush(crawl.claim()["page"], records=[hostile])

    row = history(activity="fetch")[0]
    assert row.entity == "http://a.example/?"
    assert len(row.result_description) == 4_000


@pytest.mark.parametrize(("refused", "code"), [("", "OK"), ("It is away.", "REFUSED")])
def test_a_notification_of_an_output_is_recorded_once_in_the_history(connection, tmp_path, refused, code):
    job, output = make_job(), make_output(tmp_path / "out.jsonl")
    Job.objects.filter(pk=job.pk).update(phase=Phase.NOTIFYING)
    worker = register_node(connection, "worker")
    notifications.plan(connection, job_id=job.pk, outputs=[output.pk], again=True)
    claimed = notifications.claim(connection, worker=worker.id, scope=worker.scope)
    settled = {"worker": worker.id, "notification_id": claimed.notification_id, "refused": refused, "seconds": 0.5}

    assert notifications.settle(connection, **settled)
    assert notifications.settle(connection, **settled) is False

    (row,) = history(activity="output notification")
    assert (row.output_id, row.entity, row.seconds) == (output.pk, f"{job.pk}({job.name})", 0.5)
    assert (row.result_code, row.result_description) == (code, refused)


# --- Transitions of jobs -------------------------------------------------------------------------


def test_every_transition_recorded_in_the_history_exists():
    assert set(OF_TRANSITIONS) <= set(TRANSITIONS)


@pytest.mark.parametrize(
    ("state", "transition", "facts", "recorded"),
    [
        ({"phase": Phase.INACTIVE}, "start", {}, ("job start", "")),
        ({"phase": Phase.ACTIVE, "pause": Pause.PAUSING}, "halt", {}, ("job stop", "")),
        ({"phase": Phase.ACTIVE, "pause": Pause.PAUSED}, "resume", {}, ("job continue", "")),
    ],
)
@pytest.mark.django_db
def test_transitions_of_a_job_are_in_the_history_with_its_number_and_name(state, transition, facts, recorded):
    job = make_job("manual")
    Job.objects.filter(pk=job.pk).update(**state)

    make_transition(job.pk, transition, made_by="a test", now=NOON, facts=facts, reason="because")

    (row,) = history()
    assert (row.activity, row.result_code) == recorded
    assert (row.entity, row.result_description, row.started_at) == (f"{job.pk}(manual)", "because", NOON)


@pytest.mark.django_db
def test_outputs_are_notified_of_the_end_of_a_run_and_its_result():
    job = make_job()
    Job.objects.filter(pk=job.pk).update(phase=Phase.ACTIVE, stop_request="abort")

    make_transition(job.pk, "end aborted", made_by="a test", now=NOON, facts={"run_end": RunEnd.ABORTED})

    assert [(row.activity, row.result_code) for row in history()] == [("job stop", "aborted")]


# --- Days ----------------------------------------------------------------------------------------


@pytest.fixture
def main(connection):
    """
    Yield a function that performs the duty of a main. Before and after the test, the history has the partitions of the
    present days.
    """
    manager = register_node(connection, "manager")
    term = elect_main(connection, manager)

    def keep(now, *, duty=keep_history):
        at = Pass(connection=connection, me=manager.id, scope=manager.scope, now=now, term=term, groups=())
        done = duty(at)
        if duty is keep_history:
            clean(connection, SUBJECTS["history"], now=now, term=term)
        return done

    def go_back_to_the_present():
        connection.execute("TRUNCATE jobs_activity")
        keep(dt.datetime.now(tz=dt.UTC))
        for day in days(connection) - next_eight_days(dt.datetime.now(tz=dt.UTC)):
            connection.execute(f"DROP TABLE jobs_activity_{day:%Y%m%d}")

    # Earlier tests may have left partitions for the days of another time.
    go_back_to_the_present()
    yield keep
    go_back_to_the_present()


def days(connection):
    rows = connection.execute(
        "SELECT relname FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE inhparent = 'jobs_activity'::regclass"
    )
    names = {name.rpartition("_")[2] for (name,) in rows} - {"default"}
    return {dt.datetime.strptime(name, "%Y%m%d").replace(tzinfo=dt.UTC).date() for name in names}


def next_eight_days(now):
    return {(now + ahead * DAY).date() for ahead in range(8)}


def store_activity(connection, started_at):
    repository = make_job().repository_id
    Activity.objects.create(started_at=started_at, repository_id=repository, activity="fetch", entity="x")


def partitions_of_rows(connection):
    return [
        name for (name,) in connection.execute("SELECT tableoid::regclass::text FROM jobs_activity ORDER BY started_at")
    ]


def test_the_history_of_a_source_is_cleared_a_chunk_at_a_time(connection, main):
    source, other = (RepositoryConnection.objects.create(name=name) for name in ("source", "other"))
    Activity.objects.bulk_create(
        Activity(started_at=NOON + seconds(number), repository_id=of.pk, activity="fetch", entity="x")
        for of, most in ((source, 5_001), (other, 1))
        for number in range(most)
    )

    clear_history(source.pk, made_by="a test", now=NOON + seconds(5_000))

    assert [main(NOON, duty=clear_histories) for _ in range(3)] == [5_000, 0, 0]
    # Entries from after the request, and entries of other repositories, stay.
    assert sorted(Activity.objects.values_list("repository_id", flat=True)) == [source.pk, other.pk]
    source.refresh_from_db()
    assert source.clear_history_before is None


def test_partitions_of_days_are_made_in_advance_and_receive_their_rows(connection, main):
    main(NOON)
    store_activity(connection, NOON + 7 * DAY)

    assert next_eight_days(NOON) <= days(connection)
    assert partitions_of_rows(connection) == ["jobs_activity_20300108"]


def test_a_repeated_duty_of_the_history_changes_nothing(connection, main):
    main(NOON)
    before = days(connection)

    main(NOON)

    assert days(connection) == before


def test_rows_written_before_their_day_had_a_partition_move_into_it(connection, main):
    store_activity(connection, NOON)
    store_activity(connection, NOON + 30 * DAY)
    assert partitions_of_rows(connection) == ["jobs_activity_default"] * 2

    main(NOON)

    assert partitions_of_rows(connection) == ["jobs_activity_20300101", "jobs_activity_default"]


def test_a_day_made_later_has_the_index_of_the_table(connection, main):
    main(NOON)

    indexed = connection.execute(
        "SELECT count(*) FROM pg_index WHERE indrelid = 'jobs_activity_20300101'::regclass AND indisvalid"
    ).fetchone()
    assert indexed == (1,)


def test_days_that_are_too_old_are_dropped_with_their_rows(connection, main, settings):
    settings.CRAWLCTL_ENVIRONMENT = {KEEP_HISTORY.path: 2}
    main(NOON)
    store_activity(connection, NOON)
    store_activity(connection, NOON + 2 * DAY)

    main(NOON + 2 * DAY)
    assert NOON.date() in days(connection)
    main(NOON + 3 * DAY)

    assert min(days(connection)) == (NOON + DAY).date()
    assert [row.started_at for row in history()] == [NOON + 2 * DAY]


def test_the_duty_of_the_history_does_not_wait_for_a_long_report(connection, other_connection, main):
    with other_connection.transaction():
        other_connection.execute("SELECT count(*) FROM jobs_activity")
        main(NOON)
        missing = next_eight_days(NOON) - days(connection)

    main(NOON)

    assert missing == next_eight_days(NOON)
    assert next_eight_days(NOON) <= days(connection)
