"""
Decisions about suspects: their addresses are excluded or lose a parameter by a rule of the job, or they are no trap.

While a suspect is open and the trap guard of the job holds, workers end its new documents without a request.
"""

import datetime as dt
import enum
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import F

from jobs.connectors.repository import registry
from jobs.lifecycle.job import Phase
from jobs.models import Job, TrapDecision, TrapSuspect
from jobs.queries.traps import check_rule
from jobs.queue.send_back import SentBack, send_back
from jobs.state import channels, journal
from jobs.state.transitions import TransitionRefused
from jobs.traps.quarantine import TRAP
from jobs.verbs import editing
from jobs.verbs.control import MAY_CONTROL
from nodes.errors import Invalid, Refused, Unknown

MAY_RELEASE: Final = MAY_CONTROL
MAY_ACCEPT: Final = "jobs.change_job"


class RuleKind(enum.StrEnum):
    """The rules that a job can get for a suspect."""

    EXCLUDE = "exclude"
    DROP_PARAMETER = "drop_parameter"


@dataclass(frozen=True, slots=True)
class Released:
    """A released suspect, and the documents that are due again; `has_more` if one call cannot send back all."""

    suspect: TrapSuspect
    sent: SentBack


def accept(
    suspect_id: int,
    *,
    rule: str = RuleKind.EXCLUDE,
    confirm: bool = False,
    made_by: str,
    now: dt.datetime,
) -> TrapSuspect:
    """
    Give the job the rule of a suspect: an exclude pattern, or a parameter that links lose.

    Raises:
        Unknown: the suspect does not exist.
        Invalid: the rule is unknown, the suspect has no parameter, or the rule matches good pages and the caller did not
        confirm it.
        Refused: the suspect is decided, or the job runs.
        ControlledElsewhere: this is not the control partition.
    """
    if rule not in list(RuleKind):
        raise Invalid({"rule": [f"Write one of {', '.join(RuleKind)}."]})
    with transaction.atomic():
        suspect = _lock(suspect_id)
        _refuse_decided(suspect)
        job = Job.objects.select_related("repository").get(pk=suspect.job_id)
        if job.phase != Phase.INACTIVE:
            raise Refused(
                f"{job.name} runs, and its rules cannot change now. Accept the suspect when the run has ended. "
                "Until then the trap guard applies."
            )
        if rule == RuleKind.DROP_PARAMETER and not suspect.parameter:
            raise Invalid({"rule": ["This suspect is no parameter. Exclude its addresses, or release it."]})
        tested = check_rule(suspect, rule=rule)
        if tested.good and not confirm:
            raise Invalid(
                {
                    "confirm": [
                        f"The rule matches {tested.good:,} good pages, such as {tested.examples[0]}. Confirm it or release it."
                    ]
                }
            )
        editing.change_job(job.pk, specification=_with_rule(job, suspect, rule=rule), made_by=made_by, now=now)
        _decide(suspect, TrapDecision.ACCEPTED, made_by=made_by, now=now)
        message = f"the trap {suspect.template} at {suspect.host} was accepted as a rule ({rule})"
        journal.record(job, kind="trap accepted", message=message, made_by=made_by, now=now)
    return suspect


def release(suspect_id: int, *, made_by: str, now: dt.datetime) -> Released:
    """
    Release a suspect: it is no trap, and is not suspected again. Its documents are due, as `control.send_back_failed` says.

    All documents of the job that were held back are due. Workers hold back those of other suspects again.

    Raises:
        Unknown: the suspect does not exist.
        Refused: the suspect is decided.
        TransitionRefused: the job is neither active nor inactive.
    """
    with transaction.atomic():
        suspect = _lock(suspect_id)
        _refuse_decided(suspect)
        job = Job.objects.get(pk=suspect.job_id)
        if job.phase not in {Phase.ACTIVE, Phase.INACTIVE}:
            raise TransitionRefused(job, "send back")
        _decide(suspect, TrapDecision.RELEASED, made_by=made_by, now=now)
        # A worker must not judge a document that it takes from now on by the suspects that it knows.
        Job.objects.filter(pk=job.pk).update(seeds_version=F("seeds_version") + 1)
        message = f"the suspect {suspect.template} at {suspect.host} was released: it is no trap"
        journal.record(job, kind="trap released", message=message, made_by=made_by, now=now)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", (channels.CONTROL, str(job.pk)))
    connection.ensure_connection()
    sent = send_back(connection.connection, job_id=job.pk, codes=[TRAP], now=now)
    return Released(suspect, sent or SentBack(0, has_more=True))


def _lock(suspect_id: int) -> TrapSuspect:
    suspect = TrapSuspect.objects.select_for_update().filter(pk=suspect_id).first()
    if suspect is None:
        raise Unknown("suspect", suspect_id)
    return suspect


def _refuse_decided(suspect: TrapSuspect) -> None:
    if not suspect.is_open:
        raise Refused(f"{suspect.decided_by} has already {suspect.decision} {suspect.template} at {suspect.host}.")


def _decide(suspect: TrapSuspect, decision: TrapDecision, *, made_by: str, now: dt.datetime) -> None:
    suspect.decision, suspect.decided_by, suspect.decided_at = decision, made_by, now
    suspect.save(update_fields=["decision", "decided_by", "decided_at"])


def _with_rule(job: Job, suspect: TrapSuspect, *, rule: str) -> dict[str, Any]:
    """Return the specification of the job with the rule. A list of its own replaces that of the connection."""
    name, value = ("exclude", suspect.rule) if rule == RuleKind.EXCLUDE else ("drop_parameters", suspect.parameter)
    kind = registry.find(job.repository.connector)
    inherited = kind.configuration.read(job.repository.configuration).get(name, ())
    listed = list(job.specification.get(name, inherited))
    return {**job.specification, name: listed if value in listed else [*listed, value]}
