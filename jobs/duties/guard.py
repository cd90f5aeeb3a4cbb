"""The delete guard's duty: check whether the removals of a run have to be approved before they begin."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Final, LiteralString
from uuid import UUID

from django.db import transaction

from jobs.connectors.repository import registry
from jobs.connectors.repository.base import hash_of
from jobs.connectors.repository.kind import BadIdentifier
from jobs.duties.attempts import NO_FAILURES
from jobs.duties.context import Pass
from jobs.duties.guarded_rules import compare_with_rules
from jobs.duties.moves import move
from jobs.guard.decision import Facts, Thresholds, cause, hosts_that_lose_too_much, question, should_ask
from jobs.lifecycle.job import Guard, RunEnd, Scan
from jobs.models import Job, RemovalQuestion, Seed
from jobs.queue.removing.unreached import COMPARED, EXAMPLES, FOLLOWED, Unreached

_HOSTS_KEPT: Final = 100
# True if the job has an output that keeps documents. Without such an output, a clean-up removes nothing, and needs
# no approval.
_HOLDS: Final[LiteralString] = """
SELECT EXISTS (SELECT FROM jobs_job_outputs AS link JOIN jobs_outputconnection AS output ON output.id = link.outputconnection_id
                WHERE link.job_id = %(job)s AND output.connector <> 'null')
"""


def applies(job: Any) -> bool:
    """True if the removals of the job's run may have to be approved."""
    return not (job.guard == Guard.ALLOWED or job.guard_percent is None or not (job.scan == Scan.FULL or job.takes_out))


def must_ask(at: Pass, job: Any) -> Facts | None:
    """Return the removals of this run's clean-up if an operator must approve them first, else None."""
    if not applies(job):
        return None
    facts = _count(at, job)
    return _in_detail(at, job, facts) if should_ask(facts, thresholds_of(job)) else None


def count_in_detail(at: Pass, job: Any) -> Facts:
    """Return the removals of this run's clean-up, with their causes."""
    facts = _count(at, job)
    return _in_detail(at, job, facts) if facts.leaving else facts


def _count(at: Pass, job: Any) -> Facts:
    unreached = _unreached(at, job)
    hosts = unreached.hosts()
    leaving = sum(host.leaving for host in hosts)
    if leaving and not _has_output(at, job):
        leaving, hosts = 0, []
    return Facts(leaving, unreached.staying(), hosts, unreached.seeds(_hashes_of_seeds(job)) if leaving else ())


def _in_detail(at: Pass, job: Any, facts: Facts) -> Facts:
    unreached = _unreached(at, job)
    return replace(
        facts,
        parents=unreached.parents(),
        outside=unreached.outside(),
        rules=compare_with_rules(at, job, unreached.examples(COMPARED)),
        followed=FOLLOWED,
    )


def examples(at: Pass, job: Any) -> list[str]:
    """Return the identifiers of some documents that the clean-up would remove."""
    return _unreached(at, job).examples(EXAMPLES)


def ask(at: Pass, job: Any, facts: Facts, examples: Sequence[str], *, reason: str = "") -> bool:
    """End the run without its clean-up, and request an operator's approval; return True if the run ended."""
    thresholds = thresholds_of(job)
    # Hosts that lose too large a share come first, so that the limit of the list never cuts them off.
    hosts = [*hosts_that_lose_too_much(facts, thresholds), *facts.hosts]
    with transaction.atomic():
        moved = move(
            at,
            job.id,
            "hold removals",
            facts={**NO_FAILURES, "ended_at": at.now, "run_end": RunEnd.HELD},
            reason=reason or question(facts, thresholds),
        )
        if moved:
            RemovalQuestion.objects.update_or_create(
                job_id=job.id,
                defaults={
                    "run_no": job.run_no,
                    "asked_at": at.now,
                    "leaving": facts.leaving,
                    "staying": facts.staying,
                    "cause": cause(facts),
                    "hosts": [asdict(host) for host in list(dict.fromkeys(hosts))[:_HOSTS_KEPT]],
                    "parents": [asdict(parent) for parent in facts.parents],
                    "seeds": [asdict(seed) for seed in facts.seeds],
                    "examples": list(examples),
                },
            )
    return moved


def thresholds_of(job: Any) -> Thresholds:
    """Return the thresholds of the delete guard of a job. The row has the columns of these thresholds."""
    return Thresholds(job.guard_percent, job.guard_host_percent, job.guard_documents, asks_for_seeds=job.guard_seeds)


def _unreached(at: Pass, job: Any) -> Unreached:
    return Unreached(
        at.connection,
        job_id=job.id,
        run_no=job.run_no,
        is_full_scan=job.scan == Scan.FULL,
        takes_out=job.takes_out,
    )


def _has_output(at: Pass, job: Any) -> bool:
    row = at.connection.execute(_HOLDS, {"job": job.id}).fetchone()
    return bool(row and row[0])


def _hashes_of_seeds(job: Any) -> list[UUID]:
    """Return the hashes of the documents that the job's seeds name."""
    connector = Job.objects.values_list("repository__connector", flat=True).get(pk=job.id)
    kind = registry.installed().get(connector)
    if kind is None:
        return []
    found = []
    for urls in Seed.objects.filter(job_id=job.id, removed_at=None).values_list("urls", flat=True):
        for url in urls:
            try:
                found.append(UUID(hash_of(kind.canonical(url))))
            except BadIdentifier:
                continue
    return found
