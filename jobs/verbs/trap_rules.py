"""
Gives a job the rule of an accepted suspect, and takes the rule away if the decision is undone.

A job gets its rules in the control partition, and the other partitions take them from there. If another partition has
the suspect, the control partition keeps a copy of its row. The rule of the copy waits for the end of the run like any
other rule. No list shows the copy.
"""

import datetime as dt
import enum
from dataclasses import dataclass

from django.db import connection, transaction
from django.db.models import F

from jobs.connectors.repository.registry import check_specification
from jobs.lifecycle.job import Phase
from jobs.models import Job, RuleState, TrapDecision, TrapSuspect
from jobs.partitions import this_partition
from jobs.partitions.merged import change_in_own_partition, numbers_of
from jobs.partitions.this_partition import refuse_job_elsewhere
from jobs.state import channels, journal, trap_rules
from jobs.state.transitions import lock_job
from jobs.verbs import editing
from nodes.errors import Invalid, Refused


class Effect(enum.StrEnum):
    """The effect of an undone decision."""

    # The group was released, and is a suspect again.
    SUSPECTED = "suspected"
    # The job did not have the rule yet.
    WITHDRAWN = "withdrawn"
    REMOVED = "removed"
    # The job runs, and loses the rule when the run ends.
    LEAVES = "leaves"
    # The job had the rule before, and keeps it.
    KEPT = "kept"
    # The job no longer has the rule.
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class SuspectElsewhere:
    """A suspect of another partition. `job` is the id of its job in the control partition."""

    partition: str
    job: int
    host: str
    template: str
    rule: str
    parameter: str
    run_no: int


def elsewhere(job: Job, suspect: TrapSuspect) -> SuspectElsewhere | None:
    """
    Return the facts about a suspect for the control partition, if this thread works in the database of another
    partition; otherwise None.
    """
    partition = this_partition.foreign_name()
    number = numbers_of({job.pk}).get(job.pk) if partition else None
    if number is None:
        return None
    return SuspectElsewhere(
        partition, number, suspect.host, suspect.template, suspect.rule, suspect.parameter, suspect.run_no
    )


def give_rule(job: Job, suspect: TrapSuspect, *, rule: str, made_by: str, now: dt.datetime) -> None:
    """
    Give a job the rule of a suspect, now or when its run ends. The caller has locked both rows, and stores the suspect.

    Raises:
        Refused: the job loses another rule of the suspect when the run ends.
        Invalid: with the rule, the specification of the job would be invalid.
        ControlledElsewhere: this is not the control partition.
    """
    leaves = suspect.rule_state == RuleState.LEAVES
    if leaves and rule != suspect.accepted_as:
        raise Refused(
            f"{job.name} loses the earlier rule of this suspect when the run ends. Accept another rule afterwards."
        )
    suspect.accepted_as = rule
    if leaves:
        suspect.rule_state = RuleState.ADDED
    elif job.phase == Phase.INACTIVE:
        suspect.rule_state = RuleState.PRESENT if trap_rules.has_rule(job, suspect) else RuleState.ADDED
        changed = trap_rules.with_rules(job, [suspect])
        editing.change_job(job.pk, specification=changed, made_by=made_by, now=now)
    else:
        _let_rule_wait(job, suspect)


def give_rule_of(
    known: SuspectElsewhere, job: Job, suspect: TrapSuspect, *, rule: str, made_by: str, now: dt.datetime
) -> None:
    """
    Give the rule of a suspect of another partition to its job in the control partition. The caller has locked the rows
    in that other partition.

    A repetition has no further effect. The suspect gets the state that the rule has for its own partition.

    Raises:
        Refused, Invalid: as `give_rule`.
    """

    @transaction.atomic
    def give() -> str:
        controlled = lock_job(known.job)
        found = _own_row(known, controlled, now=now)
        if not (found.pk and found.decision == TrapDecision.ACCEPTED and found.accepted_as == rule):
            give_rule(controlled, found, rule=rule, made_by=made_by, now=now)
            found.decision, found.decided_by, found.decided_at = TrapDecision.ACCEPTED, made_by, now
            found.save()
            message = f"the trap {known.template} at {known.host} was accepted as a rule ({rule}, partition {known.partition})"
            journal.record(controlled, kind="trap accepted", message=message, made_by=made_by, now=now)
        return found.rule_state

    state = change_in_own_partition(give)
    waits = state == RuleState.WAITS and job.phase != Phase.INACTIVE
    suspect.accepted_as = rule
    suspect.rule_state = state if waits or state != RuleState.WAITS else RuleState.ADDED
    if waits:
        make_workers_read_again(job)


def take_rule(job: Job, suspect: TrapSuspect, *, made_by: str, now: dt.datetime) -> Effect:
    """Take the rule of an accepted suspect away from its job, now or when its run ends; return the effect."""
    state, suspect.rule_state = suspect.rule_state, RuleState.NONE
    if state == RuleState.WAITS:
        return Effect.WITHDRAWN
    if state == RuleState.PRESENT:
        return Effect.KEPT
    if not trap_rules.has_rule(job, suspect):
        return Effect.MISSING
    if job.phase != Phase.INACTIVE:
        refuse_job_elsewhere(job.node_scope)
        suspect.rule_state = RuleState.LEAVES
        return Effect.LEAVES
    editing.change_job(job.pk, specification=trap_rules.without_rule(job, suspect), made_by=made_by, now=now)
    return Effect.REMOVED


def take_rule_of(known: SuspectElsewhere, job: Job, suspect: TrapSuspect, *, made_by: str, now: dt.datetime) -> Effect:
    """Take the rule of a suspect of another partition away from its job in the control partition; return the effect."""

    @transaction.atomic
    def take() -> Effect:
        controlled = lock_job(known.job)
        found = _own_row(known, controlled, now=now)
        if not found.pk or found.decision != TrapDecision.ACCEPTED:
            return Effect.MISSING
        waited = found.rule_state == RuleState.WAITS
        effect = take_rule(controlled, found, made_by=made_by, now=now)
        if found.of_partition and effect != Effect.LEAVES:
            found.delete()
        else:
            # A copy of another partition's suspect must not be open here, because decisions are made in that partition.
            found.decision = TrapDecision.RELEASED if found.of_partition else TrapDecision.OPEN
            found.save(update_fields=["decision", "rule_state"])
        message = (
            f"the decision about {known.template} at {known.host} was undone (partition {known.partition}): {effect}"
        )
        journal.record(controlled, kind="trap decision undone", message=message, made_by=made_by, now=now)
        if waited:
            make_workers_read_again(controlled)
        return effect

    effect = change_in_own_partition(take)
    leaves = effect == Effect.LEAVES and job.phase != Phase.INACTIVE
    suspect.rule_state = RuleState.LEAVES if leaves else RuleState.NONE
    return effect


def make_workers_read_again(job: Job) -> None:
    """
    Let workers read the job again, so that they know its present suspects for all documents that they take from now on.
    """
    Job.objects.filter(pk=job.pk).update(revision=F("revision") + 1)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", (channels.CONTROL, str(job.pk)))


def _own_row(known: SuspectElsewhere, job: Job, *, now: dt.datetime) -> TrapSuspect:
    """
    Return the control partition's row of a suspect, locked, or a new row. A row may exist if the control partition had
    the host before.
    """
    group = {"job": job, "host": known.host, "template": known.template}
    found = TrapSuspect.objects.select_for_update().filter(**group).first()
    lists: dict[str, list[str]] = {"samples": [], "new_samples": [], "proven": []}
    return found or TrapSuspect(
        **group,
        **lists,
        of_partition=known.partition,
        rule=known.rule,
        parameter=known.parameter,
        run_no=known.run_no,
        suspected_at=now,
    )


def _let_rule_wait(job: Job, suspect: TrapSuspect) -> None:
    """
    Let the rule of a suspect wait for the end of the run, while workers hold the group back.

    Raises:
        Invalid: with all waiting rules, the specification of the job would be invalid.
        ControlledElsewhere: this is not the control partition.
    """
    refuse_job_elsewhere(job.node_scope)
    waiting = [one for one in trap_rules.waiting_rules(job) if one.rule_state == RuleState.WAITS]
    urls = [url for seed in job.seeds.filter(removed_at=None) for url in seed.urls]
    changed = trap_rules.with_rules(job, [*waiting, suspect])
    problems = check_specification(job.repository, specification=changed, seeds=urls).problems
    if problems:
        raise Invalid({f"specification.{name}": said for name, said in problems.items()})
    suspect.rule_state = RuleState.WAITS
    make_workers_read_again(job)
