"""
All operations of operators on jobs and the cluster. Admin pages, the REST API and commands translate and call these.

Functions take keywords, the author (`made_by`) and `now`. They return the result and raise errors whose messages can
be shown as they are.
"""

import datetime as dt
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple, Unpack

from django.db import connection, transaction

from jobs.checks.invalid import name_taken
from jobs.checks.job_options import GUARD, Terms, check_terms, store_windows
from jobs.connectors.repository.registry import check_specification
from jobs.connectors.repository.registry import find as find_connector
from jobs.lifecycle.job import Phase
from jobs.lifecycle.schedule import Window
from jobs.models import Job, OutputConnection, RepositoryConnection, ThrottleGroup
from jobs.queue.send_back import SentBack, send_back
from jobs.queue.wake import wake_job
from jobs.state import channels, journal
from jobs.state.runs import InvalidJob, ask_for_run
from jobs.state.transitions import JobUnknown, StateChange, TransitionRefused, lock_job, make_transition
from jobs.verbs.seeds import SeedWanted, addresses_of, are_as_stored, insert_seeds, replace_seeds, seed_facts
from nodes.life.identity import TAG
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership.changes import differences, in_words
from nodes.membership.requests import NoMain, RequestRefused, ask
from nodes.models import ClusterRequest, Node

__all__ = [
    "VERBS",
    "GroupUnknown",
    "InvalidJob",
    "JobUnknown",
    "NoMain",
    "NodeUnknown",
    "RequestRefused",
    "SeedWanted",
    "TransitionRefused",
    "abort",
    "allow_removals",
    "change_job",
    "check_name",
    "create_job",
    "delete",
    "drain_node",
    "move_group",
    "pause",
    "rebalance",
    "refuse_removals",
    "reset_seeding",
    "restart",
    "restart_minimal",
    "resume",
    "send_back_failed",
    "start",
    "start_minimal",
]


_MOST_NAME: Final = 200
# The pattern of workers' tags.
_TAG: Final = re.compile(TAG)
# Phases of a run in which its seeds are still read.
RUNNING_PHASES: Final = frozenset({Phase.READY_FOR_STARTUP, Phase.STARTING_UP, Phase.ACTIVE})
CHANGES_WHILE_IT_RUNS: Final = frozenset({"priority", "start_method", "windows", *GUARD})
# A value below all hashes of documents.
_FROM_THE_FIRST: Final = uuid.UUID(int=0)
# A job that failed to start gets all its attempts again.
_AS_NEW: Final = {"failures": 0, "failing_since": None, "retry_at": None}


class GroupUnknown(Exception):
    """There is no group with this id: it has ended, or never existed."""

    def __init__(self, group_id: int) -> None:
        self.group_id = group_id
        super().__init__(f"Group {group_id} does not exist. A group exists while one of its seeds is running.")


class NodeUnknown(Exception):
    """There is no node with this id in the cluster."""

    def __init__(self, node_id: uuid.UUID) -> None:
        self.node_id = node_id
        super().__init__(f"Node {node_id} does not exist in the cluster.")


@dataclass(frozen=True, slots=True)
class JobSaved:
    """A stored job; `warnings` are sentences about fields that are valid and probably not meant."""

    job: Job
    warnings: list[str] = field(default_factory=list)


def create_job(
    *,
    name: str,
    repository: RepositoryConnection,
    outputs: Sequence[OutputConnection],
    seeds: Sequence[SeedWanted],
    specification: Mapping[str, Any],
    windows: Sequence[Window] = (),
    node_scope: str = CLUSTER_SCOPE,
    made_by: str,
    now: dt.datetime,
    **terms: Unpack[Terms],
) -> JobSaved:
    """
    Store a new job with its seeds and its schedule.

    Raises:
        InvalidJob: a field is invalid, or the name is taken.
    """
    check_name(name)
    job = Job(
        name=name,
        repository=repository,
        specification=dict(specification),
        node_scope=node_scope,
        schedule_checked_at=now,
        **terms,
    )
    warnings = _check(job, seeds=seeds, outputs=outputs, windows=windows, now=now)
    if Job.objects.filter(name=name).exists():
        raise InvalidJob(name_taken("job", name), is_conflict=True)
    with transaction.atomic():
        job.save()
        job.outputs.set(outputs)
        insert_seeds(job, seeds)
        store_windows(job, windows)
        journal.record(job, kind="created", message="was created", made_by=made_by, now=now)
    return JobSaved(job, warnings)


def change_job(
    job_id: int,
    *,
    name: str | None = None,
    outputs: Sequence[OutputConnection] | None = None,
    seeds: Sequence[SeedWanted] | None = None,
    specification: Mapping[str, Any] | None = None,
    windows: Sequence[Window] | None = None,
    node_scope: str | None = None,
    made_by: str,
    now: dt.datetime,
    **terms: Unpack[Terms],
) -> JobSaved:
    """
    Change a job; None keeps a field. While it runs, only its seeds, priority and schedule can change.

    If it loses an output, documents that only this job kept there are removed after this call. After a change of the
    specification or the outputs, or with the first hop limit, the next run reads and indexes everything again. A seed
    that is changed while the job runs is read at once.

    Raises:
        InvalidJob: a field is invalid, or cannot be changed now.
        JobUnknown: the job does not exist.
    """
    if name is not None:
        check_name(name)
    with transaction.atomic():
        job = lock_job(job_id)
        stored_seeds = list(job.seeds.filter(removed_at=None))
        stored_outputs = list(job.outputs.order_by("pk"))
        stored_windows = [window.times for window in job.windows.all()]
        columns: dict[str, Any] = {"name": name, "specification": specification, "node_scope": node_scope}
        changed = {
            field: value for field, value in columns.items() if value is not None and value != getattr(job, field)
        }
        changed.update((field, value) for field, value in terms.items() if value != getattr(job, field))
        outputs_change = outputs is not None and {one.pk for one in outputs} != {one.pk for one in stored_outputs}
        seeds_before = [seed_facts(seed.urls, seed.policy_id, seed.tag) for seed in stored_seeds]
        before = _facts(job, outputs=stored_outputs, seeds=seeds_before, windows=stored_windows)
        schedule_changes = "start_method" in changed or (windows is not None and list(windows) != stored_windows)
        if seeds is not None and are_as_stored(seeds, stored_seeds):
            seeds = None
        _refuse_while_it_runs(
            job, changed=[*changed, *(["outputs"] if outputs_change else [])], seeds_change=seeds is not None
        )
        if name is not None and Job.objects.filter(name=name).exclude(pk=job.pk).exists():
            raise InvalidJob(name_taken("job", name), is_conflict=True)
        # Only a job with hop limits stores its links: with the first limits, every document must be read
        # unconditionally once.
        hops_begin = bool(changed.get("hop_limits")) and not job.hop_limits
        for field, value in changed.items():
            setattr(job, field, value)
        warnings = _check(
            job,
            seeds=seeds
            if seeds is not None
            else [SeedWanted(tuple(seed.urls), seed.policy, seed.tag) for seed in stored_seeds],
            outputs=outputs if outputs is not None else stored_outputs,
            windows=windows if windows is not None else stored_windows,
            now=now,
        )
        if "specification" in changed or outputs_change or hops_begin:
            job.specification_version += 1
        if seeds is not None and addresses_of(seeds) != [seed.urls for seed in stored_seeds]:
            job.seeds_version += 1
        if outputs_change or changed.keys() & {"specification", "hop_limits", "hop_mode"}:
            job.from_the_beginning = True
        if schedule_changes:
            # Windows of the new schedule that opened before this change are not made up for.
            job.schedule_checked_at, job.schedule_due_at, job.missed_window_at = now, None, None
        job.save()
        if outputs is not None:
            taken = [one.pk for one in stored_outputs if one not in outputs]
            job.outputs.set(outputs)
            OutputConnection.objects.filter(pk__in=taken).update(orphans_after=_FROM_THE_FIRST)
        if seeds is not None:
            replace_seeds(job, seeds, stored=stored_seeds, now=now)
        if windows is not None and schedule_changes:
            store_windows(job, windows)
        seeds_after = [
            seed_facts(seed.stored_urls, seed.policy.pk if seed.policy else None, seed.tag) for seed in seeds or []
        ]
        after = _facts(
            job,
            outputs=stored_outputs if outputs is None else outputs,
            seeds=seeds_before if seeds is None else seeds_after,
            windows=stored_windows if windows is None else windows,
        )
        found = differences(before, after)
        if found:
            message, detail = f"was changed: {in_words(found)}", {"changes": found}
            journal.record(job, kind="changed", message=message, made_by=made_by, now=now, detail=detail)
    return JobSaved(job, warnings)


def _facts(
    job: Job, *, outputs: Sequence[OutputConnection], seeds: list[dict[str, Any]], windows: Sequence[Window]
) -> dict[str, Any]:
    """Return the fields of a job that operators set."""
    return {
        **{name: getattr(job, name) for name in ("name", "specification", "node_scope", *Terms.__annotations__)},
        "outputs": sorted(output.name for output in outputs),
        "seeds": seeds,
        "windows": [asdict(window) for window in windows],
    }


def start(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Request a run, which the main manager prepares. It has no window: a run that was started by hand never waits."""
    return ask_for_run(job_id, "start", made_by=made_by, now=now, facts={"window_ends_at": None})


def start_minimal(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Request a run that reads only documents reported as changed, and removes none because it did not reach them."""
    return ask_for_run(job_id, "start minimal", made_by=made_by, now=now, facts={"window_ends_at": None})


def pause(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Stop handing out documents; the job is paused when its documents in flight have ended."""
    return make_transition(job_id, "pause", made_by=made_by, now=now)


def resume(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Continue a paused job; outside its window it continues when the window opens."""
    return make_transition(job_id, "resume", made_by=made_by, now=now)


def abort(job_id: int, *, made_by: str, now: dt.datetime, reason: str = "") -> StateChange:
    """End the run before it is finished: documents that it did not reach stay."""
    facts = {"retry_at": None, "schedule_checked_at": now}
    return make_transition(job_id, "abort", made_by=made_by, now=now, facts=facts, reason=reason)


def restart(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """End the run as `abort` does, and start the next one at once."""
    return make_transition(job_id, "restart", made_by=made_by, now=now, facts=_AS_NEW)


def restart_minimal(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """End the run as `abort` does, and start a minimal one at once."""
    return make_transition(job_id, "restart minimal", made_by=made_by, now=now, facts=_AS_NEW)


def reset_seeding(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Let the next run read the source as if for the first time."""
    return make_transition(job_id, "reset seeding", made_by=made_by, now=now, facts={"from_the_beginning": True})


def send_back_failed(job_id: int, *, codes: Sequence[str] = (), made_by: str, now: dt.datetime) -> SentBack:
    """
    Make documents due again that failed in the job's run with one of these codes, or with any.

    In an active job they are due at once. An inactive job reads them in its next run, unless that is a full one,
    which reads all documents that it reaches anyway.

    Raises:
        JobUnknown: the job does not exist.
        TransitionRefused: the job is neither active nor inactive.
    """
    connection.ensure_connection()
    sent = send_back(connection.connection, job_id=job_id, codes=codes, now=now)
    job = Job.objects.filter(pk=job_id).first()
    if job is None:
        raise JobUnknown(job_id)
    if sent is None:
        raise TransitionRefused(job, "send back")
    if sent.documents:
        about = ", ".join(codes) or "any code"
        message = f"{sent.documents:,} documents that failed ({about}) were sent back"
        journal.record(job, kind="sent back", message=message, made_by=made_by, now=now)
    return sent


def delete(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Delete the job, its documents, and documents that only it keeps in its outputs."""
    return make_transition(job_id, "delete", made_by=made_by, now=now, facts=_AS_NEW)


def rebalance(*, dry_run: bool = False, made_by: str, now: dt.datetime) -> ClusterRequest:
    """
    Request a rebalance of groups over managers from the main manager; with `dry_run` only its plan.

    Raises:
        NoMain: the cluster has no main manager.
    """
    return ask(ClusterRequest.Kind.REBALANCE, channel=channels.GROUPS, dry_run=dry_run, asked_by=made_by, now=now)


def move_group(group_id: int, *, to: uuid.UUID, made_by: str, now: dt.datetime) -> ClusterRequest:
    """
    Request the move of one group of seeds to another manager.

    Raises:
        GroupUnknown, NodeUnknown: the group, or the node, does not exist.
        RequestRefused: the group cannot move there now.
        NoMain: the cluster has no main manager.
    """
    if not ThrottleGroup.objects.filter(pk=group_id, node_scope=CLUSTER_SCOPE).exists():
        raise GroupUnknown(group_id)
    _check_node(to)
    return ask(ClusterRequest.Kind.MOVE, channel=channels.GROUPS, item=group_id, node=to, asked_by=made_by, now=now)


def drain_node(node_id: uuid.UUID, *, dry_run: bool = False, made_by: str, now: dt.datetime) -> ClusterRequest:
    """
    Request a node to finish or hand over its work, and to stop; with `dry_run` only the plan of the moves.

    Raises:
        NodeUnknown: the node does not exist.
        RequestRefused: it has ended, or no other node could take over.
        NoMain: the cluster has no main manager.
    """
    _check_node(node_id)
    return ask(
        ClusterRequest.Kind.DRAIN, channel=channels.GROUPS, node=node_id, dry_run=dry_run, asked_by=made_by, now=now
    )


def _check_node(node_id: uuid.UUID) -> None:
    if not Node.objects.filter(pk=node_id, scope=CLUSTER_SCOPE).exists():
        raise NodeUnknown(node_id)


def allow_removals(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Let the clean-up remove the documents that the delete guard held back: the last run did not reach them."""
    connection.ensure_connection()
    # This precedes the transition: until then no stuffer reads the lanes, and after it they must not sleep.
    wake_job(connection.connection, job_id=job_id, now=now)
    return make_transition(job_id, "allow removals", made_by=made_by, now=now, facts=_AS_NEW)


def refuse_removals(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Keep the documents that the delete guard held back. The next run searches for them again."""
    return make_transition(job_id, "refuse removals", made_by=made_by, now=now)


class Verb(NamedTuple):
    """An operation of an operator: its function, and the permission for it."""

    perform: Callable[..., StateChange]
    permission: str


# All transitions that the lifecycle's table gives to operators, by their verb.
VERBS: Final[Mapping[str, Verb]] = {
    "start": Verb(start, "jobs.control_job"),
    "start-minimal": Verb(start_minimal, "jobs.control_job"),
    "pause": Verb(pause, "jobs.control_job"),
    "resume": Verb(resume, "jobs.control_job"),
    "abort": Verb(abort, "jobs.control_job"),
    "restart": Verb(restart, "jobs.control_job"),
    "restart-minimal": Verb(restart_minimal, "jobs.control_job"),
    "reset-seeding": Verb(reset_seeding, "jobs.control_job"),
    "delete": Verb(delete, "jobs.delete_job"),
    "allow-removals": Verb(allow_removals, "jobs.control_job"),
    "refuse-removals": Verb(refuse_removals, "jobs.control_job"),
}


def check_name(name: str) -> None:
    """
    Check the name of a job.

    Raises:
        InvalidJob: it is blank, too long, or has characters that cannot be shown or stored.
    """
    if not name.strip() or len(name) > _MOST_NAME or not name.isprintable():
        raise InvalidJob(
            {"name": [f"The name of a job needs 1 to {_MOST_NAME} printable characters, not only blanks."]}
        )


# Fields of connectors' problems that are no keys of the specification.
_SAID_OF: Final = {"seeds": "seeds", "specification": "specification"}


def _check(
    job: Job,
    *,
    seeds: Sequence[SeedWanted],
    outputs: Sequence[OutputConnection],
    windows: Sequence[Window],
    now: dt.datetime,
) -> list[str]:
    """
    Return warnings about a new or changed job.

    Raises:
        InvalidJob: a field is invalid.
    """
    problems: dict[str, list[str]] = {}
    urls = [url for seed in seeds for url in seed.urls]
    if not urls:
        problems["seeds"] = ["A job needs at least one seed address."]
    if not outputs:
        problems["outputs"] = ["A job needs an output. Choose “null” to store nothing."]
    if any(seed.tag and not _TAG.fullmatch(seed.tag) for seed in seeds):
        problems["seeds"] = ["A tag needs 1 to 64 letters, digits, dots, dashes and underscores."]
    if "seeds" in job.specification:
        problems["specification"] = ["seeds: they are the job's own, not part of its specification."]
    checked = check_specification(job.repository, specification=job.specification, seeds=urls)
    problems.update((_SAID_OF.get(name, f"specification.{name}"), said) for name, said in checked.problems.items())
    link_types = find_connector(job.repository.connector).link_types
    problems.update(check_terms(job, windows=windows, link_types=link_types, now=now))
    if problems:
        raise InvalidJob(problems)
    return list(checked.warnings)


def _refuse_while_it_runs(job: Job, *, changed: Sequence[str], seeds_change: bool) -> None:
    """
    Check that these fields can change in the job's present phase.

    Raises:
        InvalidJob: a running job depends on one of them.
    """
    if job.phase == Phase.INACTIVE:
        return
    held = [field for field in changed if job.phase not in RUNNING_PHASES or field not in CHANGES_WHILE_IT_RUNS]
    if seeds_change and job.phase not in RUNNING_PHASES:
        held.append("seeds")
    if held:
        why = f"Job {job.name} is “{job.status}”. It can be changed only when it is not running."
        raise InvalidJob({field: [why] for field in held})
