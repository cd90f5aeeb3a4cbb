"""
Create and change jobs: their fields, seeds, outputs and schedule.

Functions take keywords, the author (`made_by`) and `now`. Their errors have messages that can be shown as they are.
"""

import datetime as dt
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Unpack

from django.db import transaction
from django.utils.translation import gettext as _

from jobs.checks.job_options import GUARD, JobOptions, check_options, store_windows
from jobs.connectors.repository import freshness_goals
from jobs.connectors.repository.access_rules import as_stored, check_rules
from jobs.connectors.repository.registry import check_specification
from jobs.connectors.repository.registry import find as find_connector
from jobs.connectors.transformation.pipeline import problems_of, read_pipeline
from jobs.lifecycle.job import Phase, StartMethod
from jobs.lifecycle.schedule import Window
from jobs.models import Job, OutputConnection, RepositoryConnection, Seed
from jobs.partitions.this_partition import refuse_job_elsewhere
from jobs.state import journal, versions
from jobs.state.transitions import lock_job
from jobs.verbs.seeds import (
    SeedWanted,
    addresses_of,
    are_as_stored,
    insert_seeds,
    repeats_in,
    replace_seeds,
    seed_facts,
)
from nodes.errors import Invalid, NameTaken
from nodes.life.identity import TAG
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership.changes import differences, in_words

_MOST_NAME: Final = 200
# The pattern of workers' tags.
_TAG: Final = re.compile(TAG)
# Phases of a job in which changed seeds are still read.
RUNNING_PHASES: Final = frozenset({Phase.READY_FOR_STARTUP, Phase.STARTING_UP, Phase.ACTIVE})
CHANGES_WHILE_IT_RUNS: Final = frozenset({"priority", "start_method", "windows", "freshness_goals", *GUARD})
# A hash below all hashes of documents: a search from here reads all of them.
_FROM_THE_FIRST: Final = uuid.UUID(int=0)
# Names that a connector gives to its problems, if these are about a field of the job and not about a key of its
# specification.
_JOB_FIELDS: Final = {"seeds": "seeds", "specification": "specification"}


@dataclass(frozen=True, slots=True)
class JobSaved:
    """A stored job; `warnings` are sentences about valid fields that are probably mistakes."""

    job: Job
    warnings: list[str] = field(default_factory=list)


def create_job(
    *,
    name: str,
    repository: RepositoryConnection,
    outputs: Sequence[OutputConnection],
    seeds: Sequence[SeedWanted],
    specification: Mapping[str, Any],
    pipeline: Mapping[str, Any] | None = None,
    windows: Sequence[Window] = (),
    node_scope: str = CLUSTER_SCOPE,
    made_by: str,
    now: dt.datetime,
    **options: Unpack[JobOptions],
) -> JobSaved:
    """
    Store a new job with its seeds and its schedule.

    Raises:
        Invalid: a field is invalid, or the name is taken.
        ControlledElsewhere: this is not the control partition.
    """
    check_name(name)
    refuse_job_elsewhere(node_scope)
    stages, problems = _read_pipeline(pipeline or {}, outputs)
    if "access_rules" in options:
        options["access_rules"] = as_stored(options["access_rules"])
    if "freshness_goals" in options:
        options["freshness_goals"] = freshness_goals.as_stored(options["freshness_goals"])
    job = Job(
        name=name,
        repository=repository,
        specification=dict(specification),
        pipeline=stages,
        node_scope=node_scope,
        schedule_checked_at=now,
        **options,
    )
    warnings = _check(job, seeds=seeds, outputs=outputs, windows=windows, problems=problems, now=now)
    warnings += repeats_in(seeds)
    if Job.objects.filter(name=name).exists():
        raise NameTaken("job", name)
    with transaction.atomic():
        job.save()
        job.outputs.set(outputs)
        insert_seeds(job, seeds)
        store_windows(job, windows)
        journal.record(job, kind="created", message="was created", made_by=made_by, now=now)
        versions.keep(job, made_by=made_by, now=now)
    return JobSaved(job, warnings)


def change_job(
    job_id: int,
    *,
    name: str | None = None,
    outputs: Sequence[OutputConnection] | None = None,
    seeds: Sequence[SeedWanted] | None = None,
    specification: Mapping[str, Any] | None = None,
    pipeline: Mapping[str, Any] | None = None,
    windows: Sequence[Window] | None = None,
    node_scope: str | None = None,
    made_by: str,
    now: dt.datetime,
    **options: Unpack[JobOptions],
) -> JobSaved:
    """
    Change a job. None keeps a field. While the job runs, only its seeds, priority, schedule, delete guard and freshness
    goals can change.

    If the job loses an output, documents that only this job kept there are removed after this call.

    The next run reads and indexes everything again after one of these changes: another specification, other access
    rules or outputs, the first hop limit, the first kept versions, a new archive, or a removed address of a seed. After
    a change of the pipeline, the next run reads everything again, and writes the changed results to the outputs. A seed
    that is changed while the job runs is read immediately.

    Raises:
        Invalid: a field is invalid, or cannot be changed now.
        ControlledElsewhere: this is not the control partition.
        Unknown: the job does not exist.
    """
    if name is not None:
        check_name(name)
    if "access_rules" in options:
        options["access_rules"] = as_stored(options["access_rules"])
    if "freshness_goals" in options:
        options["freshness_goals"] = freshness_goals.as_stored(options["freshness_goals"])
    with transaction.atomic():
        job = lock_job(job_id)
        refuse_job_elsewhere(job.node_scope)
        stored_seeds = list(job.seeds.filter(removed_at=None))
        stored_outputs = list(job.outputs.order_by("pk"))
        stored_windows = [window.times for window in job.windows.all()]
        stages, problems = _changed_pipeline(job, pipeline, stored_outputs if outputs is None else outputs)
        columns: dict[str, Any] = {
            "name": name,
            "specification": specification,
            "pipeline": stages,
            "node_scope": node_scope,
        }
        changed = {
            field: value for field, value in columns.items() if value is not None and value != getattr(job, field)
        }
        changed.update((field, value) for field, value in options.items() if value != getattr(job, field))
        outputs_change = outputs is not None and {one.pk for one in outputs} != {one.pk for one in stored_outputs}
        seeds_before = [seed_facts(seed.urls, seed.policy_id, seed.tag) for seed in stored_seeds]
        before = _facts(job, outputs=stored_outputs, seeds=seeds_before, windows=stored_windows)
        schedule_changes = "start_method" in changed or (windows is not None and list(windows) != stored_windows)
        repeats = repeats_in(seeds or ())
        if seeds is not None and are_as_stored(seeds, stored_seeds):
            seeds = None
        _refuse_while_it_runs(
            job, changed=[*changed, *(["outputs"] if outputs_change else [])], seeds_change=seeds is not None
        )
        if name is not None and Job.objects.filter(name=name).exclude(pk=job.pk).exists():
            raise NameTaken("job", name)
        # Only a job with hop limits stores its links. So with its first limits, every document must be read
        # unconditionally once.
        hops_begin = bool(changed.get("hop_limits")) and not job.hop_limits
        # With the first kept versions, every document must be read unconditionally once, too: no document has a kept
        # version yet.
        versions_begin = bool(changed.get("kept_versions")) and not job.kept_versions
        if changed.get("kept_versions", job.kept_versions) < job.kept_versions:
            job.surplus_versions_after = _FROM_THE_FIRST
        for field, value in changed.items():
            setattr(job, field, value)
        warnings = _check(
            job,
            seeds=seeds
            if seeds is not None
            else [SeedWanted(tuple(seed.urls), seed.policy, seed.tag) for seed in stored_seeds],
            outputs=outputs if outputs is not None else stored_outputs,
            windows=windows if windows is not None else stored_windows,
            problems=problems,
            now=now,
        )
        # With a new archive, every document must be read unconditionally once, so that the archive holds it.
        archive_begins = bool(changed.get("archive"))
        # Addresses around a removed seed may no longer belong to the job. Every page must be read again, so that no
        # stored link names them.
        scope_narrows = seeds is not None and not _all_addresses(stored_seeds) <= {
            url for seed in seeds for url in seed.stored_urls
        }
        if (
            changed.keys() & {"specification", "access_rules", "pipeline"}
            or outputs_change
            or hops_begin
            or archive_begins
            or versions_begin
            or scope_narrows
        ):
            job.specification_version += 1
        if "freshness_goals" in changed or (
            seeds is not None and addresses_of(seeds) != [seed.urls for seed in stored_seeds]
        ):
            job.revision += 1
        if outputs_change or changed.keys() & {"specification", "access_rules", "pipeline", "hop_limits", "hop_mode"}:
            job.from_the_beginning = True
        if schedule_changes:
            # Windows of the new schedule that opened before this change are skipped.
            job.schedule_checked_at, job.schedule_due_at, job.missed_window_at = now, None, None
        versions.keep_first(job, now=now)
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
            versions.keep(job, made_by=made_by, now=now)
    return JobSaved(job, [*warnings, *repeats])


def _all_addresses(seeds: Sequence[Seed]) -> set[str]:
    return {url for seed in seeds for url in seed.urls}


def _facts(
    job: Job, *, outputs: Sequence[OutputConnection], seeds: list[dict[str, Any]], windows: Sequence[Window]
) -> dict[str, Any]:
    """Return the fields of a job that operators set."""
    return {
        **{name: getattr(job, name) for name in ("name", "specification", "node_scope", *JobOptions.__annotations__)},
        "pipeline": read_pipeline(job.pipeline).facts(),
        "outputs": sorted(output.name for output in outputs),
        "seeds": seeds,
        "windows": [asdict(window) for window in windows],
    }


def check_name(name: str) -> None:
    """
    Check the name of a job.

    Raises:
        Invalid: the name is blank, too long, or has characters that cannot be shown or stored.
    """
    if not name.strip() or len(name) > _MOST_NAME or not name.isprintable():
        raise Invalid({"name": [f"The name of a job needs 1 to {_MOST_NAME} printable characters, not only blanks."]})


def _check(
    job: Job,
    *,
    seeds: Sequence[SeedWanted],
    outputs: Sequence[OutputConnection],
    windows: Sequence[Window],
    problems: dict[str, list[str]],
    now: dt.datetime,
) -> list[str]:
    """
    Check a new or changed job, and return warnings about it. `problems` are the problems that are known before; further
    problems are added to them.

    Raises:
        Invalid: a field is invalid.
    """
    urls = [url for seed in seeds for url in seed.urls]
    if not urls:
        problems["seeds"] = ["A job needs at least one seed address."]
    if not outputs:
        problems["outputs"] = ["A job needs an output. Choose “null” to store nothing."]
    if any(seed.tag and not _TAG.fullmatch(seed.tag) for seed in seeds):
        problems["seeds"] = ["A tag needs 1 to 64 letters, digits, dots, dashes and underscores."]
    if "seeds" in job.specification:
        problems["specification"] = ["seeds: Give the seeds in the field “seeds” of the job."]
    checked = check_specification(job.repository, specification=job.specification, seeds=urls)
    problems.update((_JOB_FIELDS.get(name, f"specification.{name}"), said) for name, said in checked.problems.items())
    kind = find_connector(job.repository.connector)
    link_types = kind.link_types
    if job.archive and not getattr(kind, "has_exchanges", False):
        problems["archive"] = [f"Documents of {kind.label} have no raw exchanges. Choose no archive."]
    problems.update(_check_access(job))
    for place, why in freshness_goals.check_goals(job.freshness_goals).items():
        problems[f"freshness_goals.{place}" if place else "freshness_goals"] = why
    problems.update(check_options(job, windows=windows, link_types=link_types, now=now))
    if problems:
        raise Invalid(problems)
    said = list(checked.warnings)
    if windows and job.start_method == StartMethod.MANUAL:
        said.append(
            _(
                "The windows have no effect, because the job starts by hand. Choose another start method, or remove them."
            )
        )
    return said


def _check_access(job: Job) -> dict[str, list[str]]:
    found = check_rules(job.access_rules)
    problems = {f"access_rules.{place}" if place else "access_rules": said for place, said in found.items()}
    if not problems and (why := why_no_group(job.repository, job.access_rules)):
        problems["access_rules"] = [why]
    return problems


def _read_pipeline(
    given: Mapping[str, Any], outputs: Sequence[OutputConnection]
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return a given pipeline in its stored form, and its problems by field."""
    found = problems_of(given, outputs=[output.pk for output in outputs])
    if found:
        return {}, {f"pipeline.{name}" if name else "pipeline": said for name, said in found.items()}
    return read_pipeline(given).stored(), {}


def _changed_pipeline(
    job: Job, given: Mapping[str, Any] | None, outputs: Sequence[OutputConnection]
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """
    Return the new pipeline of a job with these outputs, and its problems by field. If None is given, the stored
    pipeline stays.
    """
    if given is not None:
        return _read_pipeline(given, outputs)
    return read_pipeline(job.pipeline).for_outputs([output.pk for output in outputs]).stored(), {}


def why_no_group(repository: RepositoryConnection, rules: Sequence[Mapping[str, Any]]) -> str:
    """Return the reason why no user can have the tokens of these rules, as a sentence; "" if users can have them."""
    if repository.authority_group_id is not None or not any(rule.get("allow") for rule in rules):
        return ""
    return f"Tokens belong to an authority group, and source {repository.name} has none. Choose its group first."


def _refuse_while_it_runs(job: Job, *, changed: Sequence[str], seeds_change: bool) -> None:
    """
    Check that these fields can change in the job's present phase.

    Raises:
        Invalid: one of these fields cannot change in this phase.
    """
    if job.phase == Phase.INACTIVE:
        return
    held = [field for field in changed if job.phase not in RUNNING_PHASES or field not in CHANGES_WHILE_IT_RUNS]
    if seeds_change and job.phase not in RUNNING_PHASES:
        held.append("seeds")
    if held:
        why = f"Job {job.name} is “{job.status}”. It can be changed only when it is not running."
        raise Invalid({field: [why] for field in held})
