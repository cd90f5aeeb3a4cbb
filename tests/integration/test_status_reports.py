"""Proves that words, filters, counters and lists show the same state for each document."""

import itertools
import uuid
from collections import Counter as Tally

import pytest
from django.db import connection, transaction

from jobs.lifecycle.document import CLAIMED, Action, Stage, manifoldcf_name
from jobs.lifecycle.job import Kind, Phase, Scan
from jobs.models import CounterDelta, Job, Lane, QueueItem
from jobs.queries.reports.all_partitions import read_all_documents_everywhere
from jobs.queries.reports.document_filter import StatusFilter
from jobs.queries.reports.document_states import (
    STATE_CONDITIONS,
    STATUS_CONDITIONS,
    Facts,
    State,
    Status,
    state_of,
    status_of,
)
from jobs.queries.reports.document_status import read_document_status
from jobs.queries.reports.execution import BadPattern, BadPosition
from jobs.queries.reports.queue_status import read_queue_status
from tests.support.api import make_documents, make_job
from tests.support.cluster import NOON, seconds
from tests.support.factories import count_folded
from tests.support.processes import copy_of
from tests.support.tables import each_row

PAST, FUTURE = NOON - seconds(1), NOON + seconds(1)
# (seq, check_time): numbered, due, not yet due, never due.
TIMES = ((1, None), (None, PAST), (None, FUTURE), (None, None))

# ManifoldCF's own table: the names of documents in each state and, if time does not decide, in each status.
STATES_BY_NAME = {
    State.NEVER_PROCESSED: {"PENDING", "ACTIVE", "ACTIVENEEDRESCAN"},
    State.PROCESSED: {
        "PENDINGPURGATORY",
        "ACTIVEPURGATORY",
        "ACTIVENEEDRESCANPURGATORY",
        "COMPLETE",
        "UNCHANGED",
        "PURGATORY",
    },
    State.BEING_REMOVED: {"BEINGDELETED", "BEINGCLEANED", "ELIGIBLEFORDELETE"},
    State.OUT_OF_SCOPE: {"HOPCOUNTREMOVED"},
}
STATUSES_BY_NAME = {
    Status.INACTIVE: {"COMPLETE", "UNCHANGED", "PURGATORY"},
    Status.DELETING: {"BEINGDELETED", "BEINGCLEANED", "ELIGIBLEFORDELETE"},
    Status.HOPCOUNT_EXCEEDED: {"HOPCOUNTREMOVED"},
}


def asked(**facts):
    return StatusFilter(**({"now": NOON} | facts))


@pytest.fixture(scope="module")
def filled(template, django_db_blocker):
    """
    Return a database with every possible row, and the rows. The database is made once, because that takes a second.
    """
    with django_db_blocker.unblock(), copy_of(template) as database:
        with database.as_django():
            fill()
            rows = list(QueueItem.objects.select_related("job"))
        yield database, [(item, facts_of(item)) for item in rows]


@pytest.fixture
def world(filled, django_db_blocker):
    """Return all rows, and the facts of each row. At the end of the test, the writes of the test are rolled back."""
    database, rows = filled
    with django_db_blocker.unblock(), database.as_django(), transaction.atomic():
        yield rows
        transaction.set_rollback(True)


def fill():
    """Create every possible row, in jobs of every scan, running and being deleted, and the counters of these rows."""
    for scan, phase in itertools.product(Scan, (Phase.ACTIVE, Phase.DELETING)):
        job = make_job(f"{scan} {phase}")
        Job.objects.filter(pk=job.pk).update(scan=scan, phase=phase, run_no=2, kind=Kind.CONTINUOUS)
        make_documents(job, 0)
        lane = Lane.objects.get(seed__job=job)
        shapes = itertools.product(Stage, (False, True), (False, True), (1, 2), Action, TIMES)
        rows = QueueItem.objects.bulk_create(
            QueueItem(
                hash=uuid.uuid5(uuid.NAMESPACE_URL, str(number)),
                job=job,
                lane=lane,
                identifier=f"http://{'ab'[number % 2]}.example/{number}",
                stage=stage,
                indexed_before=indexed,
                rescan=rescan,
                run_no=run_no,
                action=action,
                seq=seq,
                check_time=check_time,
                batch_id=1 if stage in CLAIMED else None,
            )
            for number, (stage, indexed, rescan, run_no, action, (seq, check_time)) in enumerate(shapes)
        )
        for number, ((run_no, stage), amount) in enumerate(Tally((row.run_no, row.stage) for row in rows).items()):
            count = (count_folded, CounterDelta.objects.create)[number % 2]
            count(job_id=job.pk, lane_id=lane.pk, run_no=run_no, measure="stage", stage=stage, amount=amount)


def facts_of(item):
    return Facts(
        stage=Stage(item.stage),
        indexed_before=item.indexed_before,
        is_of_this_run=item.run_no == item.job.run_no,
        scan=Scan(item.job.scan),
        phase=Phase(item.job.phase),
        action=Action(item.action),
        has_number=item.seq is not None,
        check_time=item.check_time,
        recurs=item.job.kind == Kind.CONTINUOUS,
    )


def by_conditions(conditions):
    """Return the names of the conditions that hold, for each document."""
    columns = ", ".join(f"CASE WHEN {condition} THEN '{name}' END" for name, condition in conditions.items())
    statement = f"""
        SELECT item.hash, item.job_id, array_remove(ARRAY[{columns}], NULL)
          FROM jobs_queueitem AS item JOIN jobs_job AS job ON job.id = item.job_id
    """
    with connection.cursor() as cursor:
        cursor.execute(statement, {"now": NOON})
        return {(key, job): names for key, job, names in cursor.fetchall()}


# --- Words and conditions ------------------------------------------------------------------------


def test_sql_conditions_and_python_agree_on_the_state_of_every_document(world):
    states, statuses = by_conditions(STATE_CONDITIONS), by_conditions(STATUS_CONDITIONS)

    for item, facts in world:
        assert states[item.hash, item.job_id] == [state_of(facts)], facts
        assert statuses[item.hash, item.job_id] == [status_of(facts, now=NOON)], facts


def test_states_and_statuses_are_those_of_manifoldcf(world):
    for item, facts in world:
        name = item.manifoldcf_status
        assert name == manifoldcf_name(
            stage=facts.stage,
            indexed_before=facts.indexed_before,
            rescan=item.rescan,
            of_this_run=facts.is_of_this_run,
            scan=facts.scan,
            deleting=facts.phase == Phase.DELETING,
            recurs=facts.recurs,
        )
        # ManifoldCF has no row for such a document. Here it is inactive until a link names it.
        if not name:
            assert status_of(facts, now=NOON) == Status.INACTIVE
            continue
        if not (name == "PENDINGPURGATORY" and facts.stage == Stage.DONE):
            assert name in STATES_BY_NAME[state_of(facts)], facts
        for status, names in STATUSES_BY_NAME.items():
            assert (name in names) == (status_of(facts, now=NOON) == status), facts


@pytest.mark.django_db
@each_row(("now", "status"), [(PAST, Status.WAITING_FOR_PROCESSING), (NOON, Status.READY_FOR_PROCESSING)])
def test_readiness_of_lanes_depends_on_the_time_of_the_query(now, status):
    make_documents(make_job(), 1, stage=Stage.PENDING, check_time=NOON - seconds(0.5))

    (line,) = read_document_status(asked(now=now), limit=9).lines

    assert line.status == status
    assert read_queue_status(asked(now=now, identifier="."), limit=9).lines[0].counts[status] == 1


# --- Counts --------------------------------------------------------------------------------------


def tally(rows, only=lambda _item, _facts: True):
    return Tally(status_of(facts, now=NOON) for item, facts in rows if only(item, facts))


def counts_of(line):
    return {status: amount for status, amount in line.counts.items() if amount}


def test_counts_of_all_jobs_from_the_counters_are_exact(world):
    (line,) = read_queue_status(asked(), limit=9).lines

    assert counts_of(line) == tally(world)
    assert (line.identifier_class, line.documents) == ("", QueueItem.objects.count())


def test_counts_from_the_counters_are_exact_for_some_jobs(world):
    jobs = list(Job.objects.filter(scan=Scan.RECHECK).values_list("pk", flat=True))

    (line,) = read_queue_status(asked(job_ids=jobs), limit=9).lines

    assert counts_of(line) == tally(world, only=lambda item, _facts: item.job_id in jobs)


def test_counts_by_class_are_exact(world):
    page = read_queue_status(asked(), identifier_class="//([a-z])", limit=9)

    assert [line.identifier_class for line in page.lines] == ["a", "b"]
    for line in page.lines:
        of_class = tally(world, only=lambda item, _, host=line.identifier_class: f"//{host}." in item.identifier)
        assert counts_of(line) == of_class


@each_row("state", State)
def test_counts_can_be_limited_to_a_state(world, state):
    (line,) = read_queue_status(asked(states=[state]), limit=9).lines

    assert counts_of(line) == tally(world, only=lambda _item, facts: state_of(facts) == state)


def test_counts_can_be_limited_to_some_statuses(world):
    some = [Status.DELETING, Status.WAITING_FOREVER]

    (line,) = read_queue_status(asked(statuses=some), limit=9).lines

    assert counts_of(line) == {status: tally(world)[status] for status in some}
    by_pattern = read_queue_status(asked(statuses=some, identifier="."), limit=9).lines[0]
    assert counts_of(by_pattern) == counts_of(line)


def test_classes_are_listed_in_pages(world):
    first = read_queue_status(asked(), identifier_class="//(.*)", limit=3)
    second = read_queue_status(asked(), identifier_class="//(.*)", limit=3, after=first.next)

    shown = [line.identifier_class for line in [*first.lines, *second.lines]]
    assert shown == sorted(shown)
    assert len(set(shown)) == 6


@pytest.mark.django_db
def test_an_empty_queue_has_no_counts():
    make_job()

    assert read_queue_status(asked(), limit=9).lines == []


# --- Documents -----------------------------------------------------------------------------------


def listed(**facts):
    return [line for page in read_all_documents_everywhere(asked(**facts)) for line in page]


@each_row("status", Status)
def test_documents_of_a_status_are_listed_and_no_others(world, status):
    lines = listed(statuses=[status])

    assert {line.status for line in lines} == {status}
    assert len(lines) == tally(world)[status]


def test_several_filters_can_be_combined(world):
    job = Job.objects.get(scan=Scan.FULL, phase=Phase.ACTIVE)

    lines = listed(job_ids=[job.pk], states=[State.PROCESSED], statuses=[Status.PROCESSING], identifier="//a")

    assert lines
    assert {(line.job, line.state, line.status) for line in lines} == {(job.name, State.PROCESSED, Status.PROCESSING)}
    assert all("//a" in line.identifier for line in lines)


def test_documents_of_one_source_are_listed(world):
    other = make_job("other", repository=type(Job.objects.first().repository).objects.create(name="another web"))
    make_documents(other, 3)

    assert {line.job for line in listed(repository_id=other.repository_id)} == {"other"}


def test_pages_of_a_status_report_have_each_document_once(world):
    first = read_document_status(asked(), limit=100)
    second = read_document_status(asked(), limit=100, after=first.next)

    keys = [(line.hash, line.job_id) for line in [*first.lines, *second.lines]]
    assert keys == sorted(keys)
    assert len(set(keys)) == 200


@pytest.mark.django_db
def test_the_row_of_a_document_has_its_next_action_and_its_failures():
    make_documents(
        make_job(), 1, stage=Stage.PENDING, check_time=FUTURE, failures=2, failing_since=PAST, action=Action.EXPIRE
    )

    (line,) = listed()

    assert (line.scheduled_at, line.action, line.retry_count, line.failing_since) == (FUTURE, Action.EXPIRE, 2, PAST)
    assert (line.state, line.status) == (State.NEVER_PROCESSED, Status.WAITING_FOR_EXPIRATION)


@pytest.mark.django_db
def test_the_row_of_a_failing_document_shows_when_its_retries_end():
    limits = {"most_failures": 3, "failing_until": FUTURE}
    make_documents(make_job(), 1, stage=Stage.PENDING, failures=1, **limits)

    (line,) = listed()

    assert (line.retry_limit, line.retry_until) == (3, FUTURE)
    QueueItem.objects.update(failures=0)
    (line,) = listed()
    assert (line.retry_limit, line.retry_until) == (None, None)


@pytest.mark.django_db
def test_a_finished_task_is_not_scheduled():
    make_documents(make_job(), 1)

    (line,) = listed()

    assert (line.scheduled_at, line.action, line.status) == (None, None, Status.INACTIVE)


@pytest.mark.django_db
def test_an_invalid_pattern_or_position_of_a_status_report_is_refused():
    with pytest.raises(BadPattern):
        listed(identifier="(")
    with pytest.raises(BadPattern):
        read_queue_status(asked(), identifier_class="(", limit=1)
    with pytest.raises(BadPosition):
        read_document_status(asked(), limit=1, after="nowhere")
