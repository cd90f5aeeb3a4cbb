"""
Every operator's verb, once. Admin pages, the REST API and commands translate and call these.

Functions take keywords, who asks (`made_by`) and `now`; they return what they did and raise errors
whose sentences can be shown as they are.
"""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any, Final, NamedTuple

from django.db import transaction

from jobs import journal
from jobs.connectors.repository.registry import check_specification
from jobs.connectors.repository.web.urls import typed_without_userinfo
from jobs.lifecycle.job import Phase
from jobs.models import Job, OutputConnection, RepositoryConnection, Seed, ThrottlePolicy
from jobs.runs import InvalidJob, ask_for_run
from jobs.transitions import JobUnknown, StateChange, TransitionRefused, make_transition
from nodes.lifecycle import CLUSTER_SCOPE

__all__ = [
    "VERBS",
    "InvalidJob",
    "JobUnknown",
    "SeedWanted",
    "TransitionRefused",
    "abort",
    "change_job",
    "check_name",
    "create_job",
    "delete",
    "pause",
    "reset_seeding",
    "restart",
    "restart_minimal",
    "resume",
    "start",
    "start_minimal",
]


_MOST_NAME: Final = 200
# A job that failed to start is tried as if it had not been.
_AS_NEW: Final = {"failures": 0, "failing_since": None, "retry_at": None}


@dataclass(frozen=True, slots=True)
class SeedWanted:
    """A seed as an operator names it. A password in an address is never stored: it would be shown again."""

    urls: tuple[str, ...]
    policy: ThrottlePolicy | None = None

    @property
    def stored_urls(self) -> list[str]:
        return [typed_without_userinfo(url.strip()) for url in self.urls]


@dataclass(frozen=True, slots=True)
class JobSaved:
    """A job as it is stored now; `warnings` are sentences about what is legal and probably not meant."""

    job: Job
    warnings: list[str] = field(default_factory=list)


def create_job(
    *,
    name: str,
    repository: RepositoryConnection,
    outputs: Sequence[OutputConnection],
    seeds: Sequence[SeedWanted],
    specification: Mapping[str, Any],
    max_documents: int | None = None,
    priority: int = 5,
    node_scope: str = CLUSTER_SCOPE,
    made_by: str,
    now: dt.datetime,
) -> JobSaved:
    """
    Store a new job with its seeds.

    Raises:
        InvalidJob: a field cannot be what was given, or the name is taken.
    """
    check_name(name)
    warnings = _check(
        repository, seeds=seeds, specification=specification, max_documents=max_documents, outputs=outputs
    )
    if Job.objects.filter(name=name).exists():
        raise InvalidJob({"name": [f"There is a job named {name!r} already; choose another name."]})
    with transaction.atomic():
        job = Job.objects.create(
            name=name,
            repository=repository,
            specification=dict(specification),
            max_documents=max_documents,
            priority=priority,
            node_scope=node_scope,
        )
        job.outputs.set(outputs)
        _plant(job, seeds)
        journal.record(job, kind="created", message="was created", made_by=made_by, now=now)
    return JobSaved(job, warnings)


def change_job(
    job_id: int,
    *,
    name: str | None = None,
    outputs: Sequence[OutputConnection] | None = None,
    seeds: Sequence[SeedWanted] | None = None,
    specification: Mapping[str, Any] | None = None,
    max_documents: int | EllipsisType | None = ...,
    priority: int | None = None,
    node_scope: str | None = None,
    made_by: str,
    now: dt.datetime,
) -> JobSaved:
    """
    Change a job that is not running; what is left out stays.

    A changed specification, output or seed makes the next run read and index everything anew.

    Raises:
        InvalidJob: a field cannot be what was given.
        JobUnknown: there is no such job.
    """
    if name is not None:
        check_name(name)
    with transaction.atomic():
        job = Job.objects.select_for_update(no_key=True).filter(pk=job_id).first()
        if job is None:
            raise JobUnknown(job_id)
        if job.phase != Phase.INACTIVE:
            raise InvalidJob({"name": [f"Job {job.name} is “{job.status}”: it can be changed when it is not running."]})
        stored = [SeedWanted(tuple(seed.urls), seed.policy) for seed in job.seeds.filter(removed_at=None)]
        wanted_seeds = list(seeds) if seeds is not None else stored
        wanted = dict(specification) if specification is not None else job.specification
        most = job.max_documents if isinstance(max_documents, EllipsisType) else max_documents
        wanted_outputs = list(outputs) if outputs is not None else list(job.outputs.all())
        warnings = _check(
            job.repository, seeds=wanted_seeds, specification=wanted, max_documents=most, outputs=wanted_outputs
        )
        if name is not None and Job.objects.filter(name=name).exclude(pk=job.pk).exists():
            raise InvalidJob({"name": [f"There is a job named {name!r} already; choose another name."]})
        if wanted != job.specification or {o.pk for o in wanted_outputs} != set(
            job.outputs.values_list("pk", flat=True)
        ):
            job.specification_version += 1
            job.from_the_beginning = True
        job.name = name if name is not None else job.name
        job.specification = wanted
        job.max_documents = most
        job.priority = priority if priority is not None else job.priority
        job.node_scope = node_scope if node_scope is not None else job.node_scope
        job.save()
        job.outputs.set(wanted_outputs)
        if seeds is not None:
            _replant(job, seeds, now=now)
        journal.record(job, kind="changed", message="was changed", made_by=made_by, now=now)
    return JobSaved(job, warnings)


def start(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Ask for a run. The main prepares it. It is under no window: what was started by hand never waits."""
    return ask_for_run(job_id, "start", made_by=made_by, now=now, facts={"window_ends_at": None})


def start_minimal(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Ask for a run that reads only what its source says has changed, and removes nothing that it did not reach."""
    return ask_for_run(job_id, "start minimal", made_by=made_by, now=now, facts={"window_ends_at": None})


def pause(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Hand out nothing more; the job is paused when what is in flight has ended."""
    return make_transition(job_id, "pause", made_by=made_by, now=now)


def resume(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Go on where the job was paused; outside of its window it goes on when that opens."""
    return make_transition(job_id, "resume", made_by=made_by, now=now)


def abort(job_id: int, *, made_by: str, now: dt.datetime, reason: str = "") -> StateChange:
    """End the run before it is finished: nothing that it did not reach is removed."""
    facts = {"retry_at": None, "schedule_checked_at": now}
    return make_transition(job_id, "abort", made_by=made_by, now=now, facts=facts, reason=reason)


def restart(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """End the run as `abort` does, and start the next one at once."""
    return make_transition(job_id, "restart", made_by=made_by, now=now, facts=_AS_NEW)


def restart_minimal(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """End the run as `abort` does, and start a minimal one at once."""
    return make_transition(job_id, "restart minimal", made_by=made_by, now=now, facts=_AS_NEW)


def reset_seeding(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Let the next run read the source as if it had never been read."""
    return make_transition(job_id, "reset seeding", made_by=made_by, now=now, facts={"from_the_beginning": True})


def delete(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Remove the job, its documents, and what only it holds in its outputs."""
    return make_transition(job_id, "delete", made_by=made_by, now=now, facts=_AS_NEW)


class Verb(NamedTuple):
    """What an operator may ask for: the function, and the right that it takes."""

    perform: Callable[..., StateChange]
    permission: str


# Every action that the lifecycle's table gives to operators, by its verb.
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
}


def check_name(name: str) -> None:
    """
    Let pass what can be the name of a job.

    Raises:
        InvalidJob: it is blank, too long, or holds what cannot be shown or stored.
    """
    if not name.strip() or len(name) > _MOST_NAME or not name.isprintable():
        raise InvalidJob({"name": [f"The name of a job is 1 to {_MOST_NAME} printable characters, not only blanks."]})


def _check(
    repository: RepositoryConnection,
    *,
    seeds: Sequence[SeedWanted],
    specification: Mapping[str, Any],
    max_documents: int | None,
    outputs: Sequence[OutputConnection],
) -> list[str]:
    """Return warnings about a job to be; raises InvalidJob for what cannot be."""
    problems: dict[str, list[str]] = {}
    urls = [url for seed in seeds for url in seed.urls]
    if not urls:
        problems["seeds"] = ["A job needs an address to start from."]
    if not outputs:
        problems["outputs"] = ["A job needs an output; choose “null” to keep nothing."]
    if max_documents is not None and not 1 <= max_documents < 2**53:
        problems["max_documents"] = [f"{max_documents} documents is no limit; write a whole number from 1 on."]
    if "seeds" in specification:
        problems["specification"] = ["seeds: they are the job's own, not part of its specification."]
    checked = check_specification(repository, specification=specification, seeds=urls)
    problems.update(checked.problems)
    if problems:
        raise InvalidJob(problems)
    return list(checked.warnings)


def _plant(job: Job, seeds: Sequence[SeedWanted]) -> None:
    Seed.objects.bulk_create(Seed(job=job, urls=seed.stored_urls, policy=seed.policy) for seed in seeds)


def _replant(job: Job, seeds: Sequence[SeedWanted], *, now: dt.datetime) -> None:
    """Keep the seeds that are still wanted, since documents stand in their lanes; mark the others."""
    kept: set[int] = set()
    new: list[SeedWanted] = []
    stored = list(job.seeds.filter(removed_at=None))
    for wanted in seeds:
        match = next((seed for seed in stored if seed.pk not in kept), None)
        if match is None:
            new.append(wanted)
            continue
        kept.add(match.pk)
        if match.urls != wanted.stored_urls or match.policy != wanted.policy:
            if match.policy != wanted.policy:
                match.group = None
            match.urls, match.policy = wanted.stored_urls, wanted.policy
            match.save()
    job.seeds.filter(removed_at=None).exclude(pk__in=kept).update(removed_at=now)
    _plant(job, new)
