"""Proves over random states that each waiting document has a true cause, which agrees with the stuffing."""

import datetime as dt
from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from jobs.lifecycle.job import Guard, JobState, Pause, Phase, StopRequest, Window, situation_of
from jobs.throttling.bins import BinSeen, LaneSeen, OpenTurn, ParentSeen, plan_turns
from jobs.throttling.limits import UNLIMITED_REQUESTS, Limits
from jobs.throttling.next_start import opens_at
from jobs.verdicts.causes import Cause
from jobs.verdicts.hosts import Above, Known, judge_host
from jobs.verdicts.jobs import ClusterSeen, DocumentSeen, HostOfJob, JobSeen, judge_document, judge_job
from jobs.verdicts.requests import Requests
from tests.support.cluster import NOON
from tests.unit.test_turn_planning import WORKER

moments = st.none() | st.integers(-100, 100).map(lambda seconds: NOON + dt.timedelta(seconds=seconds))
rates = st.none() | st.floats(0, 100)
limits = st.builds(
    Limits,
    requests=st.sampled_from([1, 2, 16, UNLIMITED_REQUESTS]),
    gap=st.sampled_from([0.0, 0.01, 0.5, 1.0, 3600.0]),
    bytes_per_second=st.none() | st.sampled_from([1_000.0, 1e6]),
    denied=st.booleans(),
    closed_until=moments,
)
parents = st.builds(
    Above,
    id=st.integers(1, 3),
    limits=limits,
    open_requests=st.integers(0, 20),
    opens_at=moments,
    starts_per_second=rates,
    open_documents=st.integers(0, 200),
)
latest = st.builds(
    lambda ended, failed, seconds: Requests(ended, min(ended, failed), {"REFUSED": failed}, seconds, NOON),
    st.integers(0, 100),
    st.integers(0, 100),
    st.none() | st.floats(0, 60),
)
hosts = st.builds(
    Known,
    limits=limits,
    is_stopped=st.booleans(),
    open_turns=st.integers(0, 3),
    lent=st.integers(0, 20),
    not_before=moments,
    back_off_until=moments,
    back_off_level=st.integers(0, 3),
    waiting=st.integers(0, 3),
    ready_at=moments,
    is_owned=st.booleans(),
    is_served=st.booleans(),
    starts_per_second=rates,
    bytes_per_second=rates,
    above=st.lists(parents, max_size=2, unique_by=lambda above: above.id),
    held=st.integers(0, 3),
    in_progress=st.integers(0, 3),
    is_known=st.booleans(),
    missing_tag=st.sampled_from(["", "intranet"]),
    group_failing_since=moments,
    workers_are_full=st.booleans(),
    asks_for_delay=st.booleans(),
    open_now=st.none() | st.integers(0, 20),
    changed_at=moments,
    latest=latest,
)
states = st.builds(
    JobState,
    phase=st.sampled_from(Phase),
    guard=st.sampled_from(Guard),
    pause=st.sampled_from(Pause),
    window=st.sampled_from(Window),
    stop_request=st.sampled_from(StopRequest),
    resuming=st.booleans(),
    seeding=st.booleans(),
    connectors_ready=st.booleans(),
).filter(situation_of)
jobs = st.builds(
    JobSeen,
    state=states,
    is_paused_by_output=st.booleans(),
    opens_at=moments,
    archive_hold=st.sampled_from(["", "its stores are away"]),
    move_hold=st.booleans(),
)
clusters = st.builds(
    ClusterSeen,
    managers=st.integers(0, 2),
    workers=st.integers(0, 2),
    disk_shortage=st.sampled_from(["", "its disk is full"]),
)
documents = st.builds(
    DocumentSeen,
    is_claimed=st.booleans(),
    check_time=moments,
    gate=st.sampled_from(["", "a login"]),
    budget_is_used=st.booleans(),
    other_job=st.sampled_from(["", "news"]),
)


def is_later(moment):
    return moment is not None and moment > NOON


# For each cause of a host, the facts that make it true. They are written independently of the verdict's code.
TRUE_OF_HOSTS = {
    Cause.STOPPED: lambda host: host.is_stopped and not host.limits.denied,
    Cause.DENIED: lambda host: host.limits.denied,
    Cause.CLOSED: lambda host: is_later(host.limits.closed_until),
    Cause.BACK_OFF: lambda host: is_later(host.back_off_until),
    Cause.JOBS_HELD: lambda host: host.held >= host.waiting,
    Cause.NO_WORKER: lambda host: not host.is_served,
    Cause.NO_TAG: lambda host: not host.is_served and host.missing_tag,
    Cause.NO_OWNER: lambda host: not host.is_owned,
    Cause.GROUP_FAILS: lambda host: host.group_failing_since is not None,
    Cause.NOT_DUE: lambda host: not host.open_turns and (host.ready_at is None or is_later(host.ready_at)),
    Cause.NEXT: lambda host: not host.open_turns and not is_later(host.not_before) and not is_later(host.ready_at),
    Cause.TRIAL: lambda host: host.open_turns and host.back_off_level,
    Cause.RAMPING: lambda host: host.open_turns and (not host.is_known or host.changed_at is not None),
    Cause.GAP: lambda host: is_paced(host) and not host.asks_for_delay,
    Cause.CRAWL_DELAY: lambda host: is_paced(host) and host.asks_for_delay,
    Cause.BYTES: lambda host: (
        host.limits.bytes_per_second is not None and (host.open_turns or is_later(host.not_before))
    ),
    Cause.REQUESTS: lambda host: host.open_turns and not has_unused_connections(host),
    Cause.WORKERS: lambda host: (
        host.workers_are_full or (host.open_turns and not host.limits.gap and has_unused_connections(host))
    ),
}


def is_paced(host):
    """True if the host is served with a gap, or waits for the end of a gap."""
    if host.open_turns:
        return host.limits.gap > 0
    return is_later(host.not_before) and host.not_before <= NOON + dt.timedelta(seconds=host.limits.gap)


def has_unused_connections(host):
    limit, rate, seconds = host.limits.requests, host.starts_per_second, host.latest.seconds
    if limit >= UNLIMITED_REQUESTS:
        return True
    in_use = host.open_now if host.open_now is not None else rate * seconds if rate and seconds else limit
    return in_use < limit / 2


def blocks(above, host):
    """True if this parent can keep the host waiting."""
    if above.open_requests >= above.limits.requests or above.limits.gap > host.limits.gap:
        return True
    below = above.limits.gap or above.limits.bytes_per_second is not None
    return not host.open_turns and (is_later(above.opens_at) or (below and above.open_documents > 1))


def is_true_of_host(verdict, host):
    if verdict.until is not None and verdict.until <= NOON:
        return False
    if verdict.cause == Cause.PARENT:
        return blocks(next(above for above in host.above if above.id == verdict.parent), host)
    return TRUE_OF_HOSTS[verdict.cause](host)


TRUE_OF_JOBS = {
    Cause.DISK: lambda job, cluster: cluster.disk_shortage,
    Cause.NOT_RUNNING: lambda job, _: job.state.phase == Phase.INACTIVE,
    Cause.ABORTING: lambda job, _: job.state.stop_request != StopRequest.NONE,
    Cause.CONNECTOR: lambda job, _: not job.state.connectors_ready,
    Cause.PAUSED: lambda job, _: job.state.pause != Pause.NO,
    Cause.OUTPUT: lambda job, _: job.state.pause != Pause.NO and job.is_paused_by_output,
    Cause.ARCHIVE: lambda job, _: job.archive_hold,
    Cause.SLOTS: lambda job, _: job.move_hold,
    Cause.WINDOW: lambda job, _: job.state.window != Window.INSIDE,
    Cause.GUARD: lambda job, _: job.state.guard == Guard.WAITING,
    Cause.NO_MANAGER: lambda _, cluster: not cluster.managers,
    Cause.NO_WORKER: lambda _, cluster: not cluster.workers,
    Cause.STARTING: lambda job, _: (
        job.state.resuming or job.state.phase in {Phase.READY_FOR_STARTUP, Phase.STARTING_UP}
    ),
    Cause.ENDING: lambda job, _: job.state.phase not in {Phase.ACTIVE, Phase.INACTIVE},
}
TRUE_OF_DOCUMENTS = {
    Cause.GATE: lambda document: document.gate,
    Cause.BUDGET: lambda document: document.budget_is_used,
    Cause.RETRY: lambda document: is_later(document.check_time),
    Cause.OTHER_JOB: lambda document: document.other_job,
    Cause.IN_PROGRESS: lambda document: document.is_claimed,
}


@given(host=hosts)
def test_a_host_with_a_queue_is_held_by_a_cause_that_is_true(host):
    assume(host.queued)

    verdict = judge_host(host, now=NOON)

    assert is_true_of_host(verdict, host), verdict


@given(host=hosts, gap=st.sampled_from([0.01, 0.5, 1.0]))
def test_a_parent_as_fast_as_the_host_is_not_named_as_the_cause(host, gap):
    limits = replace(host.limits, gap=gap)
    above = [replace(one, limits=replace(one.limits, gap=gap / 2)) for one in host.above]
    served = replace(host, limits=limits, above=above, open_turns=1, starts_per_second=1 / gap)

    assert judge_host(served, now=NOON).cause != Cause.PARENT


@given(document=documents, job=jobs, cluster=clusters, host=hosts)
def test_a_waiting_document_is_held_by_a_cause_that_is_true(document, job, cluster, host):
    verdict = judge_document(document, job, cluster, host, now=NOON)
    cause = verdict.cause

    assert (
        (cause in TRUE_OF_DOCUMENTS and TRUE_OF_DOCUMENTS[cause](document))
        or (cause in TRUE_OF_JOBS and TRUE_OF_JOBS[cause](job, cluster))
        or (cause not in TRUE_OF_DOCUMENTS and cause not in TRUE_OF_JOBS and is_true_of_host(verdict, host))
    ), verdict
    assert cause not in {Cause.NOTHING_WAITS, Cause.JOBS_HELD}


@given(job=jobs, cluster=clusters, host=hosts, waiting=st.integers(0, 3), in_progress=st.integers(0, 3))
def test_a_job_with_a_queue_always_has_a_verdict(job, cluster, host, waiting, in_progress):
    hosts_of_job = [HostOfJob(judge_host(host, now=NOON), host.waiting, host.in_progress)]

    verdict = judge_job(job, cluster, waiting=waiting, in_progress=in_progress, hosts=hosts_of_job)

    if waiting:
        assert verdict.cause not in {Cause.NOTHING_WAITS, Cause.IN_PROGRESS}
    if job.state.may_be_stuffed and cluster == ClusterSeen(1, 1) and waiting:
        assert verdict.cause in {judge_host(host, now=NOON).cause, Cause.NEXT}


parents_seen = st.builds(
    ParentSeen,
    id=st.integers(1, 3),
    limits=limits.map(lambda bounds: replace(bounds, denied=False)),
    not_before=moments,
    back_off_until=moments,
    open_requests=st.integers(0, 20),
    open_documents=st.integers(0, 200),
    workers=st.sampled_from([frozenset(), frozenset({WORKER})]),
    whole_group=st.just(True),
)


def parent_for_pages(seen):
    """Return a parent in the form that pages receive."""
    opens = opens_at(seen.not_before, back_off_until=seen.back_off_until, closed_until=seen.limits.closed_until)
    return Above(seen.id, seen.limits, seen.open_requests, opens, open_documents=seen.open_documents)


@given(
    bounds=limits,
    not_before=moments,
    back_off_until=moments,
    back_off_level=st.integers(0, 2),
    turns=st.integers(0, 2),
    lent=st.integers(0, 20),
    is_known=st.booleans(),
    parents=st.lists(parents_seen, max_size=2, unique_by=lambda parent: parent.id),
)
def test_hosts_without_a_turn_from_stuffing_are_held_by_a_limit(
    bounds, not_before, back_off_until, back_off_level, turns, lent, is_known, parents
):
    """
    For a ready lane without a turn, the verdict names a limit. For a lane with a turn, the verdict names no closed
    limit.
    """
    seen = BinSeen(
        id=1,
        limits=bounds,
        not_before=not_before,
        back_off_until=back_off_until,
        closed_at=None,
        is_known=is_known,
        open_requests=lent if turns else 0,
        turns=[OpenTurn(number, WORKER, has_follower=True) for number in range(turns)],
        back_off_level=back_off_level,
    )
    lane = LaneSeen(id=1, bin_id=1, job_id=1, priority=5, served_at=None)
    host = Known(
        limits=bounds,
        is_stopped=False,
        open_turns=turns,
        lent=seen.open_requests,
        not_before=not_before,
        back_off_until=back_off_until,
        back_off_level=back_off_level,
        waiting=1,
        ready_at=NOON,
        is_owned=True,
        is_served=True,
        is_known=is_known,
        starts_per_second=None,
        bytes_per_second=None,
        above=[parent_for_pages(parent) for parent in parents],
    )

    given_turns, _ = plan_turns(bins=[seen], parents=parents, lanes=[lane], workers=1, now=NOON)

    verdict = judge_host(host, now=NOON)
    if not given_turns:
        assert verdict.cause not in {Cause.NEXT, Cause.NOTHING_WAITS}
    elif not bounds.denied:
        assert verdict.cause not in {Cause.CLOSED, Cause.BACK_OFF, Cause.STOPPED, Cause.DENIED}
        # A turn may be handed out a second before it may begin.
        is_near = verdict.until is not None and verdict.until <= NOON + dt.timedelta(seconds=1)
        assert turns or verdict.cause != Cause.PARENT or is_near
