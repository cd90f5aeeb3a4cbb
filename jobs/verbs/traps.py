"""
Decisions about suspects. An accepted suspect gives the job a rule that excludes its addresses or removes a parameter. A
released suspect is not a trap.

While a suspect is open and the trap guard of the job holds, workers end its new documents without a request.
"""

import datetime as dt
from dataclasses import dataclass
from typing import Final

from django.db import connection, transaction

from jobs.lifecycle.job import Phase
from jobs.models import Job, RuleKind, RuleState, TrapDecision, TrapSuspect
from jobs.partitions.this_partition import ControlledElsewhere, refuse_job_elsewhere
from jobs.queries.traps import check_rule
from jobs.queue.send_back import SentBack, send_back
from jobs.state import journal, trap_rules
from jobs.state.transitions import TransitionRefused, lock_job
from jobs.traps.quarantine import TRAP, TrapGuard
from jobs.verbs.control import MAY_CONTROL
from jobs.verbs.trap_rules import (
    Effect,
    elsewhere,
    give_rule,
    give_rule_of,
    make_workers_read_again,
    take_rule,
    take_rule_of,
)
from nodes.errors import Invalid, NotAllowed, Refused, Unknown
from nodes.permissions import May

MAY_RELEASE: Final = MAY_CONTROL
MAY_ACCEPT: Final = "jobs.change_job"


@dataclass(frozen=True, slots=True)
class Released:
    """A released suspect, and the number of documents that are due again."""

    suspect: TrapSuspect
    sent: SentBack


@dataclass(frozen=True, slots=True)
class Undone:
    """A suspect that is open again. `documents` is the number of documents that were held back and are due now."""

    suspect: TrapSuspect
    effect: Effect
    documents: int = 0


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

    A job that runs gets the rule when the run ends. Until then, its workers hold the group back in any mode of the
    guard. If the thread works as another partition, the job of the control partition gets the rule, and both partitions
    store the decision.

    Raises:
        Unknown: the suspect does not exist.
        Invalid: the rule is unknown, the suspect has no parameter, or the rule matches good pages and the caller did not
        confirm it.
        Refused: the suspect is already decided, or the job loses another rule of it when the run ends.
        ControlledElsewhere: this is not the control partition.
    """
    if rule not in list(RuleKind):
        raise Invalid({"rule": [f"Write one of {', '.join(RuleKind)}."]})
    with transaction.atomic():
        job, suspect = _lock(suspect_id)
        _refuse_decided(suspect)
        known = elsewhere(job, suspect)
        if known is None:
            _refuse_rule_elsewhere(job, suspect, rule)
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
        if known is None:
            give_rule(job, suspect, rule=rule, made_by=made_by, now=now)
        else:
            give_rule_of(known, job, suspect, rule=rule, made_by=made_by, now=now)
        _decide(suspect, TrapDecision.ACCEPTED, made_by=made_by, now=now)
        when = ", from the end of the run on" if suspect.rule_state == RuleState.WAITS else ""
        message = f"the trap {suspect.template} at {suspect.host} was accepted as a rule ({rule}){when}"
        journal.record(job, kind="trap accepted", message=message, made_by=made_by, now=now)
    return suspect


def release(suspect_id: int, *, made_by: str, now: dt.datetime) -> Released:
    """
    Release a suspect: it is not a trap, and is not suspected again.

    All documents of the job that were held back are due. Workers hold back the documents of other suspects again.

    Raises:
        Unknown: the suspect does not exist.
        Refused: the suspect is already decided.
        TransitionRefused: the job is neither active nor inactive.
    """
    with transaction.atomic():
        job, suspect = _lock(suspect_id)
        _refuse_decided(suspect)
        if job.phase not in {Phase.ACTIVE, Phase.INACTIVE}:
            raise TransitionRefused(job, "send back")
        _decide(suspect, TrapDecision.RELEASED, made_by=made_by, now=now)
        message = f"the suspect {suspect.template} at {suspect.host} was released: it is not a trap"
        journal.record(job, kind="trap released", message=message, made_by=made_by, now=now)
        make_workers_read_again(job)
    sent = _send_back(job, now=now)
    return Released(suspect, sent or SentBack(0, has_more=True))


def permission_to_undo(suspect: TrapSuspect) -> str:
    """Return the permission that a user needs to undo the decision about a suspect."""
    return MAY_ACCEPT if suspect.decision == TrapDecision.ACCEPTED else MAY_RELEASE


def undo(suspect_id: int, *, may: May, made_by: str, now: dt.datetime) -> Undone:
    """
    Undo the decision about a suspect: it is open again.

    If the job still has the rule that the acceptance gave it, the job loses the rule. A job that runs loses the rule
    when the run ends. Documents that only the acceptance held back are due.

    Raises:
        Unknown: the suspect does not exist.
        NotAllowed: the user may not make the decision that is undone.
        Refused: the suspect is open.
        ControlledElsewhere: this is not the control partition.
    """
    with transaction.atomic():
        job, suspect = _lock(suspect_id)
        if not may(permission_to_undo(suspect)):
            raise NotAllowed("Your role does not permit this. Undoing an acceptance needs the role that accepts.")
        if suspect.is_open:
            raise Refused(f"No decision about {suspect.template} at {suspect.host} is left to undo.")
        decision, before = suspect.decision, suspect.rule_state
        effect = (
            Effect.SUSPECTED if decision == TrapDecision.RELEASED else _take(job, suspect, made_by=made_by, now=now)
        )
        suspect.decision, suspect.decided_by, suspect.decided_at = TrapDecision.OPEN, "", None
        suspect.save(update_fields=["decision", "decided_by", "decided_at", "accepted_as", "rule_state"])
        message = f"the decision about {suspect.template} at {suspect.host} was undone ({decision}): {effect}"
        journal.record(job, kind="trap decision undone", message=message, made_by=made_by, now=now)
        make_workers_read_again(job)
    if before == RuleState.WAITS and trap_rules.trap_guard_of(job) != TrapGuard.HOLD:
        sent = _send_back(job, now=now)
        return Undone(suspect, effect, sent.documents if sent else 0)
    return Undone(suspect, effect)


def _take(job: Job, suspect: TrapSuspect, *, made_by: str, now: dt.datetime) -> Effect:
    known = elsewhere(job, suspect)
    if known is None:
        return take_rule(job, suspect, made_by=made_by, now=now)
    return take_rule_of(known, job, suspect, made_by=made_by, now=now)


def _send_back(job: Job, *, now: dt.datetime) -> SentBack | None:
    connection.ensure_connection()
    return send_back(connection.connection, job_id=job.pk, codes=[TRAP], now=now)


def _lock(suspect_id: int) -> tuple[Job, TrapSuspect]:
    """
    Lock the job of a suspect, then the suspect. The end of a run locks them in the same order, so there is no deadlock.
    """
    job_id = TrapSuspect.objects.filter(pk=suspect_id, of_partition="").values_list("job_id", flat=True).first()
    if job_id is None:
        raise Unknown("suspect", suspect_id)
    job = lock_job(job_id)
    suspect = TrapSuspect.objects.select_for_update().filter(pk=suspect_id).first()
    if suspect is None:
        raise Unknown("suspect", suspect_id)
    return job, suspect


def _refuse_decided(suspect: TrapSuspect) -> None:
    if not suspect.is_open:
        raise Refused(f"{suspect.decided_by} has already {suspect.decision} {suspect.template} at {suspect.host}.")


def _refuse_rule_elsewhere(job: Job, suspect: TrapSuspect, rule: str) -> None:
    """
    Check that the job may get a rule in this partition.

    Raises:
        ControlledElsewhere: this is not the control partition.
    """
    try:
        refuse_job_elsewhere(job.node_scope)
    except ControlledElsewhere as refused:
        written = suspect.parameter if rule == RuleKind.DROP_PARAMETER else suspect.rule
        raise ControlledElsewhere(
            f"{refused} Give job {job.name} the rule there: {written}. It holds in all partitions. Then release this suspect."
        ) from None


def _decide(suspect: TrapSuspect, decision: TrapDecision, *, made_by: str, now: dt.datetime) -> None:
    suspect.decision, suspect.decided_by, suspect.decided_at = decision, made_by, now
    suspect.save(update_fields=["decision", "decided_by", "decided_at", "accepted_as", "rule_state"])
