"""
Proves that documents become due again at the right time: by the scan of a run, by recrawl times, or for a last attempt.
"""

import pytest

from jobs.connectors.repository.base import Ending, RetryLimit
from jobs.duties.context import Pass
from jobs.duties.finish import end_runs
from jobs.lifecycle.document import Action, Stage
from jobs.lifecycle.job import Kind, Phase, Scan
from jobs.models import Batch, Job, LaneState, Outcome, QueueItem
from jobs.queue import release
from jobs.queue.flushing.recrawl import Intervals
from jobs.queue.offering.stuff_removals import stuff_expired, stuff_removals
from jobs.queue.removing.drop import drop
from jobs.queue.take import take
from nodes.membership import leadership
from tests.integration.test_queue_flush import OneWorker, document
from tests.support.cluster import NOON, elect_main, fall_silent, seconds
from tests.support.factories import make_documents

NOT_READ = {"references": None}


class NoOutputs:
    def remove(self, cursor, *, claims, jobs, now):
        return []


@pytest.fixture
def crawl(connection):
    made = OneWorker(connection)
    made.term = elect_main(connection, made.running.manager)
    return made


def begin_a_run(crawl, scan):
    crawl.begin_the_next_run()
    Job.objects.filter(pk=crawl.job.pk).update(scan=scan)


def claim_all(crawl, *, now=NOON):
    """Claim in two passes: the first numbers the due documents, the second hands them out."""
    return {**crawl.claim(now=now), **crawl.claim(now=now)}


def take_removals(crawl, *, now=NOON):
    taken = take(crawl.connection, worker=crawl.worker.id, room=1000, idle=True, now=now)
    return [claimed for claims in taken.removals.values() for claimed in claims]


def counted(crawl):
    """Return the number of documents by (run, stage), from the counters."""
    rows = crawl.connection.execute(
        """
        SELECT run_no, stage, sum(amount) FROM (
            SELECT run_no, stage, amount FROM jobs_counter WHERE measure = 'stage' AND job_id = %(job)s
            UNION ALL SELECT run_no, stage, amount FROM jobs_counterdelta WHERE measure = 'stage' AND job_id = %(job)s
        ) AS both_ GROUP BY run_no, stage HAVING sum(amount) <> 0
        """,
        {"job": crawl.job.pk},
    )
    return {(run, stage): int(amount) for run, stage, amount in rows}


def end_complete_runs(crawl):
    """Let the main manager end all complete runs. Return the phase that the job of `crawl` has after that."""
    manager = crawl.running.manager
    end_runs(
        Pass(
            connection=crawl.connection,
            me=manager.id,
            scope=manager.scope,
            now=NOON,
            term=crawl.term,
            groups=(crawl.running.group,),
        )
    )
    return Job.objects.get(pk=crawl.job.pk).phase


# --- Scans ---------------------------------------------------------------------------------------


def test_a_run_that_rechecks_hands_out_all_known_documents(crawl):
    make_documents(crawl.lane, ["done"], stage=Stage.DONE, outcome=Outcome.INDEXED, result_code="200")
    make_documents(crawl.lane, ["pending"])
    begin_a_run(crawl, Scan.RECHECK)

    claims = claim_all(crawl)

    assert set(claims) == {"done", "pending"}
    assert {item.run_no for item in QueueItem.objects.all()} == {crawl.job.run_no}


def test_a_run_for_changes_hands_out_only_pending_documents(crawl):
    make_documents(crawl.lane, ["done"], stage=Stage.DONE, outcome=Outcome.INDEXED, result_code="200")
    make_documents(crawl.lane, ["pending"])
    begin_a_run(crawl, Scan.CHANGES)

    assert set(claim_all(crawl)) == {"pending"}
    assert document("done").manifoldcf_status == "UNCHANGED"


def test_a_full_run_hands_out_only_documents_that_are_linked_in_this_run(crawl):
    make_documents(crawl.lane, ["done"], stage=Stage.DONE, outcome=Outcome.INDEXED, result_code="200")
    make_documents(crawl.lane, ["pending"])
    begin_a_run(crawl, Scan.FULL)

    assert claim_all(crawl) == {}


def test_counts_follow_documents_that_return_to_a_run(crawl):
    make_documents(crawl.lane, ["page"])
    crawl.flush(crawl.claim()["page"])
    before = counted(crawl)
    begin_a_run(crawl, Scan.RECHECK)

    crawl.flush(claim_all(crawl)["page"])

    change = {key: counted(crawl).get(key, 0) - before.get(key, 0) for key in {*before, *counted(crawl)}}
    assert {key: amount for key, amount in change.items() if amount} == {(1, Stage.DONE): -1, (2, Stage.DONE): 1}


@pytest.mark.parametrize("scan", [Scan.RECHECK, Scan.CHANGES])
def test_only_a_full_scan_removes_unreached_documents(crawl, scan):
    make_documents(crawl.lane, ["page"], stage=Stage.DONE, outcome=Outcome.INDEXED, result_code="200")
    begin_a_run(crawl, scan)
    Job.objects.update(phase=Phase.SHUTTING_DOWN)
    LaneState.objects.update(ready_at=NOON)

    offered = stuff_removals(
        crawl.connection, manager=crawl.running.manager.id, group=crawl.running.group, room=100, now=NOON
    )

    assert offered.documents == 0


def test_a_run_that_rechecks_ends_after_it_has_checked_everything(crawl):
    make_documents(crawl.lane, ["page"], stage=Stage.DONE, outcome=Outcome.INDEXED, result_code="200")
    begin_a_run(crawl, Scan.RECHECK)

    assert end_complete_runs(crawl) == Phase.ACTIVE
    crawl.flush(claim_all(crawl)["page"])
    assert end_complete_runs(crawl) == Phase.SHUTTING_DOWN


# --- Continuous jobs -----------------------------------------------------------------------------

DAILY = {"intervals": Intervals(recrawl_after=seconds(60))}
SHORT_LIVED = {"intervals": Intervals(expire_after=seconds(60))}


def test_a_document_of_a_continuous_job_is_rechecked_when_its_time_comes(crawl):
    make_documents(crawl.lane, ["page"])
    crawl.flush(crawl.claim()["page"], facts=DAILY)

    assert document("page").check_time == NOON + seconds(60)
    assert claim_all(crawl, now=NOON + seconds(59)) == {}
    assert set(claim_all(crawl, now=NOON + seconds(61))) == {"page"}


def test_unchanged_documents_are_checked_less_often_than_changed_documents(crawl):
    make_documents(crawl.lane, ["page"])
    crawl.flush(crawl.claim()["page"], facts=DAILY)
    later = NOON + seconds(600)
    crawl.flush(
        claim_all(crawl, now=later)["page"], facts=DAILY, now=later, ending=Ending.UNCHANGED, code="304", **NOT_READ
    )

    assert document("page").check_time == later + seconds(300)
    again = later + seconds(300)
    crawl.flush(claim_all(crawl, now=again)["page"], facts=DAILY, now=again, text="new")
    assert document("page").check_time == again + seconds(60)


def test_a_continuous_job_does_not_end_while_it_knows_a_document(crawl):
    Job.objects.update(kind=Kind.CONTINUOUS)
    make_documents(crawl.lane, ["page"])
    crawl.flush(crawl.claim()["page"], facts={"intervals": Intervals()})

    assert end_complete_runs(crawl) == Phase.ACTIVE
    assert document("page").manifoldcf_status == "PENDINGPURGATORY"


def expire(crawl, *, now):
    LaneState.objects.update(ready_at=NOON)
    return stuff_expired(
        crawl.connection, manager=crawl.running.manager.id, group=crawl.running.group, room=100, now=now
    ).documents


def test_an_expired_document_leaves_the_queue_and_then_the_job_ends(crawl):
    Job.objects.update(kind=Kind.CONTINUOUS)
    make_documents(crawl.lane, ["page"])
    crawl.flush(crawl.claim()["page"], facts=SHORT_LIVED)
    late = NOON + seconds(61)

    assert expire(crawl, now=NOON + seconds(59)) == 0
    assert expire(crawl, now=late) == 1
    claims = take_removals(crawl, now=late)
    drop(
        crawl.connection,
        worker=crawl.worker.id,
        claims=claims,
        jobs={crawl.job.pk: crawl.running.facts},
        outputs=NoOutputs(),
        now=late,
    )

    assert not QueueItem.objects.exists()
    assert not any(counted(crawl).get((1, stage)) for stage in (Stage.ACTIVE, Stage.DONE))
    Batch.objects.update(state="done")
    assert end_complete_runs(crawl) == Phase.SHUTTING_DOWN


@pytest.mark.parametrize("ending", ["read", "unchanged", "failed"])
def test_a_document_that_is_processed_again_expires_later(crawl, ending):
    outcomes = {
        "read": {"text": "new"},
        "unchanged": {"ending": Ending.UNCHANGED, "code": "304", **NOT_READ},
        "failed": {"ending": Ending.FAILED, "code": "403", **NOT_READ},
    }
    intervals = {"intervals": Intervals(recrawl_after=seconds(20), expire_after=seconds(60))}
    make_documents(crawl.lane, ["page"])
    crawl.flush(crawl.claim()["page"], facts=intervals)
    later = NOON + seconds(21)

    crawl.flush(claim_all(crawl, now=later)["page"], facts=intervals, now=later, **outcomes[ending])

    assert (document("page").action, document("page").check_time > later) == (Action.PROCESS, True)
    assert expire(crawl, now=NOON + seconds(61)) == 0


def test_expiring_documents_are_not_processed(crawl):
    make_documents(crawl.lane, ["page"])
    crawl.flush(crawl.claim()["page"], facts=SHORT_LIVED)

    assert claim_all(crawl, now=NOON + seconds(61)) == {}


def test_an_expiry_lost_with_its_worker_is_carried_out_by_another(crawl, connection):
    make_documents(crawl.lane, ["page"])
    crawl.flush(crawl.claim()["page"], facts=SHORT_LIVED)
    late = NOON + seconds(61)
    expire(crawl, now=late)
    take_removals(crawl, now=late)
    leadership.mark_failed(connection, verdict=fall_silent(connection, crawl.worker), term=crawl.term)

    release.release_of_lost_workers(connection, scope="cluster", term=crawl.term, now=late)

    assert document("page").action == Action.EXPIRE
    assert expire(crawl, now=late) == 1


# --- Limits of retries ---------------------------------------------------------------------------


def retry(crawl, claimed, limit, *, now=NOON):
    return crawl.flush(
        claimed, ending=Ending.RETRY, code="503", retry_after=1.0, retry_limit=limit, now=now, **NOT_READ
    )


def test_a_document_fails_at_its_last_attempt_and_keeps_its_links(crawl):
    make_documents(crawl.lane, ["page"])
    crawl.flush(crawl.claim()["page"], names=["child"])
    crawl.begin_the_next_run()
    QueueItem.objects.filter(pk=document("page").pk).update(run_no=2, stage=Stage.PENDING, seq=1)
    limit = RetryLimit(attempts=2)

    retry(crawl, crawl.claim()["page"], limit)
    assert document("page").stage == Stage.PENDING
    retry(crawl, claim_all(crawl, now=NOON + seconds(5))["page"], limit)

    assert (document("page").stage, document("page").outcome, document("page").result_code) == (
        Stage.DONE,
        Outcome.FAILED,
        "503",
    )
    assert document("child").run_no == 2


def test_a_limit_of_retries_may_end_the_run_of_the_job(crawl):
    make_documents(crawl.lane, ["page"])

    flushed = retry(crawl, crawl.claim()["page"], RetryLimit(attempts=1, aborts_job=True))

    assert list(flushed.failing_jobs) == [crawl.job.pk]
    assert "503" in flushed.failing_jobs[crawl.job.pk]


def test_a_limit_of_the_time_for_retries_counts_from_the_first_failure(crawl):
    make_documents(crawl.lane, ["page"], failures=1, failing_since=NOON - seconds(3600 * 24 * 365 * 30))

    retry(crawl, crawl.claim()["page"], RetryLimit(seconds=60.0))

    assert document("page").outcome == Outcome.FAILED


def test_attempts_are_counted_for_each_cause_of_retries(crawl):
    """Otherwise an outage of robots.txt, or a busy host, would use up the attempts after a network error."""
    make_documents(crawl.lane, ["page"])
    outage, network = RetryLimit(cause="outage"), RetryLimit(attempts=2, cause="network")
    given = [outage, outage, network, outage, network]

    stages = []
    for number, limit in enumerate(given):
        retry(crawl, claim_all(crawl, now=NOON + seconds(5 * number))["page"], limit, now=NOON + seconds(5 * number))
        stages.append(document("page").stage)

    assert stages == [Stage.PENDING] * 4 + [Stage.DONE]


def test_the_shown_limit_of_failures_includes_failures_of_other_causes(crawl):
    make_documents(crawl.lane, ["page"], failures=6, failing_since=NOON, failures_by_cause={"outage": 5, "network": 1})

    retry(crawl, crawl.claim()["page"], RetryLimit(attempts=3, cause="network"))

    assert (document("page").failures, document("page").most_failures) == (7, 8)


def test_retries_without_a_limit_never_end(crawl):
    make_documents(crawl.lane, ["page"], failures=1000)

    retry(crawl, crawl.claim()["page"], None)

    assert document("page").stage == Stage.PENDING


# --- Kinds of batches ----------------------------------------------------------------------------


@pytest.fixture
def cleaning(crawl):
    """Return a crawl with two batches of documents that its run did not reach."""
    make_documents(crawl.lane, 150, stage=Stage.DONE, outcome=Outcome.INDEXED, result_code="200")
    begin_a_run(crawl, Scan.FULL)
    Job.objects.update(phase=Phase.SHUTTING_DOWN)
    LaneState.objects.update(ready_at=NOON)
    stuff_removals(crawl.connection, manager=crawl.running.manager.id, group=crawl.running.group, room=1000, now=NOON)
    assert Batch.objects.filter(kind="clean").count() == 2
    return crawl


def taken_with(crawl, **pools):
    taken = take(crawl.connection, worker=crawl.worker.id, room=1000, idle=True, pools=pools, now=NOON)
    return sum(len(claims) for claims in taken.removals.values())


def test_a_worker_takes_batches_of_each_kind_up_to_the_size_of_its_pool(cleaning):
    assert taken_with(cleaning, clean=100) == 100
    assert taken_with(cleaning, clean=100) == 50


def test_a_pool_smaller_than_a_batch_still_gets_a_batch(cleaning):
    assert taken_with(cleaning, clean=1) == 100


def test_a_worker_leaves_batches_of_a_kind_that_it_does_not_take(cleaning):
    assert taken_with(cleaning, clean=0) == 0
    assert taken_with(cleaning, expire=0) == 150
