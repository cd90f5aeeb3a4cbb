"""
Proves that a database clock set back while nothing runs makes nothing wait longer, and lets no dead node seem alive.
"""

import datetime as dt
from contextlib import suppress
from dataclasses import replace
from uuid import uuid4

import pytest

from jobs.lifecycle.document import Stage
from jobs.loops.oneshot import JobBusy, take_over_job
from jobs.models import Bin, IndexedDocument, Job, LanePlan, QueueItem
from nodes.database.connections import connect
from nodes.decisions.elect import Elect, elect
from nodes.decisions.judge import judge
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership import leadership, members, snapshot
from nodes.membership.clock_jumps import notice_jump
from nodes.models import MainTerm, Node, NodeEvent
from nodes.tasks import verbs
from nodes.tasks.models import TaskTemplate, TaskWorker
from tests.support.cluster import BEAT, elect_main, register_node, seconds, steady_for
from tests.support.factories import (
    make_bin,
    make_documents,
    make_job,
    make_lane,
    make_output,
    make_running_job,
    state_of,
)
from tests.support.jumps import set_clock_back
from tests.support.processes import wait_for
from tests.support.task_kinds import NAMED

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = dt.timedelta(hours=1)
SECOND = dt.timedelta(seconds=1)


def register(connection, kind="manager"):
    """Register a node of a machine that no other node shares."""
    return register_node(connection, kind, boot_id=str(uuid4()))


def now_of(connection):
    return connection.execute("SELECT clock_timestamp()").fetchone()[0]


def look(connection, me):
    # The nodes have no processes on this machine, so no other node may check whether their processes exist.
    return snapshot.read_scope(connection, scope=CLUSTER_SCOPE, me=replace(me, boot_id="of the reader"))


def test_a_main_that_died_before_a_clock_jump_is_replaced_after_its_timeout(connection):
    old = register(connection, "manager")
    elect_main(connection, old)
    set_clock_back(connection, HOUR)

    new = register(connection, "manager")

    seen = look(connection, new).node(old.id)
    assert seconds(0) <= seen.heartbeat_age < seconds(60)
    Node.objects.filter(pk=old.id).update(heartbeat_at=now_of(connection) - 2 * seen.timeout)
    decided = elect(look(connection, new), beat=BEAT, is_steady=steady_for(HOUR))
    assert isinstance(decided, Elect)
    assert leadership.elect(
        connection, node_id=new.id, scope=CLUSTER_SCOPE, seen_term=decided.seen_term, replaces=decided.replaces
    )
    assert Node.objects.get(pk=old.id).status == "failed"


def test_a_live_manager_from_before_a_clock_jump_may_be_elected(connection):
    me = register(connection, "manager")
    set_clock_back(connection, HOUR)
    MainTerm.objects.filter(scope=CLUSTER_SCOPE).update(main_id=None)

    register(connection, "worker")

    assert isinstance(elect(look(connection, me), beat=BEAT, is_steady=steady_for(HOUR)), Elect)


def test_a_node_that_sends_heartbeats_again_is_not_failed(connection):
    main = register(connection, "manager")
    elect_main(connection, main)
    worker = register(connection, "worker")
    set_clock_back(connection, HOUR)

    register(connection, "worker")
    members.beat(connection, node_id=worker.id, progress={})

    assert judge(look(connection, main), is_steady=steady_for(HOUR)) == ()


def test_hosts_and_documents_keep_their_waiting_times(connection):
    manager = register(connection, "manager")
    run = make_running_job(manager)
    now = now_of(connection)
    lane = make_lane(run.seed, ready_at=now + 300 * SECOND)
    busy = make_bin("busy.example", state={"last_start_at": now, "not_before": now + 5 * SECOND})
    refusing = make_bin("refusing.example", backing_off_since=now, back_off_until=now + 120 * SECOND, back_off_level=1)
    [failing, read] = make_documents(lane, 2, check_time=now + 300 * SECOND)
    # Documents of a continuous job that wait for their next check.
    [done, excluded] = make_documents(lane, ["done", "excluded"], stage=Stage.DONE, check_time=now + 300 * SECOND)
    QueueItem.objects.filter(hash=failing.hash).update(failing_since=now, failing_until=now + HOUR, failures=1)
    QueueItem.objects.filter(hash__in=[read.hash, done.hash]).update(fetched_at=now)
    QueueItem.objects.filter(hash=excluded.hash).update(changed_at=now)
    set_clock_back(connection, HOUR)

    register(connection, "manager")

    now = now_of(connection)
    state = state_of(Bin.objects.get(pk=busy.pk))
    assert state.last_start_at <= now
    assert now < state.not_before < now + 10 * SECOND
    assert now + 60 * SECOND < Bin.objects.get(pk=refusing.pk).back_off_until < now + 125 * SECOND
    for item in QueueItem.objects.filter(job=run.job):
        assert now + 200 * SECOND < item.check_time < now + 305 * SECOND
        assert item.changed_at is None or item.changed_at <= now
    assert state_of(lane).ready_at <= now


def test_a_back_off_from_before_two_clock_jumps_does_not_become_longer(connection):
    register(connection, "manager")
    jump = 100_000 * HOUR
    now = now_of(connection)
    began_before = {"backing_off_since": now - jump - HOUR, "back_off_until": now + 120 * SECOND, "back_off_level": 3}
    host = make_bin("refusing.example", **began_before)
    set_clock_back(connection, jump)

    register(connection, "manager")

    now = now_of(connection)
    found = Bin.objects.get(pk=host.pk)
    assert now + 60 * SECOND < found.back_off_until < now + 125 * SECOND
    assert found.backing_off_since < now - 50 * SECOND


def test_times_of_output_requests_and_prices_of_looks_are_corrected(connection):
    run = make_running_job(register(connection, "manager"), output=make_output("/tmp/out.jsonl"))
    [output] = run.job.outputs.all()
    now = now_of(connection)
    before = IndexedDocument.objects.create(output=output, hash=uuid4(), version="1", indexed_at=now - HOUR)
    IndexedDocument.objects.create(output=output, hash=uuid4(), version="1", indexed_at=now)
    requested = {"trusted_from": now - 60 * SECOND, "clear_before": now - 60 * SECOND}
    type(output).objects.update(**requested)
    LanePlan.objects.create(lane=make_lane(run.seed), job=run.job, since=now, priced_at=now, due_at=now + 300 * SECOND)
    set_clock_back(connection, 100_000 * HOUR)

    register(connection, "manager")

    now = now_of(connection)
    output.refresh_from_db()
    assert max(output.trusted_from, output.clear_before) <= now
    assert LanePlan.objects.get().due_at <= now
    # A document from after the request stays.
    assert not IndexedDocument.objects.filter(indexed_at__gt=now + 60 * SECOND).exists()
    assert [record.hash for record in IndexedDocument.objects.filter(indexed_at__lt=output.clear_before)] == [
        before.hash
    ]


def test_a_schedule_from_before_a_clock_jump_still_starts_its_job(connection):
    manager = register(connection, "manager")
    job = make_job(node_scope=manager.scope)
    now = now_of(connection)
    Job.objects.filter(pk=job.pk).update(
        schedule_checked_at=now, schedule_due_at=now + 60 * SECOND, reseed_at=now + 60 * SECOND
    )
    set_clock_back(connection, 100_000 * HOUR)

    register(connection, "manager")

    job.refresh_from_db()
    now = now_of(connection)
    assert job.schedule_checked_at <= now
    assert job.schedule_due_at is None
    assert job.reseed_at < now + 61 * SECOND


def test_times_of_task_workers_and_templates_are_corrected(connection, settings):
    settings.CRAWLCTL_TASKS = (NAMED,)
    register(connection, "manager")
    template = verbs.put_template(urn="hourly", kind="count", schedule={"cron": "0 * * * *"}, made_by="a test")
    now = now_of(connection)
    TaskTemplate.objects.filter(pk=template.pk).update(last_moment=now, next_at=now + HOUR)
    TaskWorker.objects.create(id=register(connection).id, name="w", work_on="any", pid=1, process_start=1)
    set_clock_back(connection, 100_000 * HOUR)

    register(connection, "manager")

    assert TaskTemplate.objects.get(pk=template.pk).next_at <= now_of(connection)
    assert TaskWorker.objects.get().last_seen_at <= now_of(connection)


def test_a_one_shot_that_died_before_a_clock_jump_is_taken_over_in_time(connection):
    register_node(connection, "manager", scope="one-shot", boot_id="another boot", timeout=seconds(1))
    job = make_job(node_scope="one-shot")
    set_clock_back(connection, HOUR)

    def is_taken_over():
        with suppress(JobBusy):
            take_over_job(job, scope="mine", write_line=lambda _line: None)
        return job.node_scope == "mine"

    wait_for(is_taken_over, saying="the job is taken over")


def test_statement_limits_do_not_end_the_correction_of_a_large_crawl(connection, dsn):
    register(connection)
    set_clock_back(connection, HOUR)
    with connect(dsn, node_id="n", purpose="work", timeout=seconds(10)) as limited:
        limited.execute("SET statement_timeout = '300ms'")
        connection.execute(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.5); RETURN NEW; END'"
        )
        connection.execute("CREATE TRIGGER slow BEFORE UPDATE ON nodes_node FOR EACH STATEMENT EXECUTE FUNCTION slow()")
        try:
            with limited.transaction():
                assert notice_jump(limited)
        finally:
            connection.execute("DROP TRIGGER slow ON nodes_node; DROP FUNCTION slow()")
        assert limited.execute("SHOW statement_timeout").fetchone()[0] == "300ms"


def test_a_jump_is_noticed_once_and_written_to_the_journal(connection):
    register(connection, "manager")
    set_clock_back(connection, HOUR)

    register(connection, "manager")
    register(connection, "worker")

    message = "the clock of the database was set back by"
    assert NodeEvent.objects.filter(message__startswith=message).count() == 1


def test_a_jump_forward_needs_no_correction(connection):
    old = register(connection, "manager")
    set_clock_back(connection, -HOUR)

    new = register(connection, "manager")

    assert look(connection, new).node(old.id).is_silent
    assert not NodeEvent.objects.filter(message__contains="set back").exists()
