"""
The rules that accepted suspects give to their job.

Rules change only while a job does not run. The rule of a suspect that was accepted during a run waits: workers hold the
group back until the end of the run, and the transaction that ends the run adds the rule. If the acceptance is undone,
the rule is removed in the same way.
"""

import datetime as dt
from collections.abc import Iterable
from typing import Any

from jobs.connectors.repository import registry
from jobs.models import Job, RuleKind, RuleState, TrapSuspect
from jobs.partitions.this_partition import is_controlled_elsewhere
from jobs.state import journal, versions

Specification = dict[str, Any]


def has_rule(job: Job, suspect: TrapSuspect) -> bool:
    """True if the job has the rule of a suspect."""
    name, value = _rule_of(suspect)
    return value in _listed(job, name)


def with_rules(job: Job, suspects: Iterable[TrapSuspect]) -> Specification:
    """Return the specification of the job with these rules. A list of the job replaces the list of the connection."""
    changed: Specification = dict(job.specification)
    for suspect in suspects:
        name, value = _rule_of(suspect)
        listed = changed[name] if name in changed else _listed(job, name)
        changed[name] = listed if value in listed else [*listed, value]
    return changed


def without_rule(job: Job, suspect: TrapSuspect) -> Specification:
    """
    Return the specification of the job without a rule. If only the rules of the connection are left, the job has no
    list, and the list of the connection applies.
    """
    name, value = _rule_of(suspect)
    left = [one for one in _listed(job, name) if one != value]
    changed = {field: one for field, one in job.specification.items() if field != name}
    return changed if left == _inherited(job).get(name, []) else {**changed, name: left}


def trap_guard_of(job: Job) -> str:
    """Return the mode of the trap guard of a job."""
    return str(job.specification.get("trap_guard") or _inherited(job).get("trap_guard") or "off")


def waiting_rules(job: Job) -> list[TrapSuspect]:
    """Return the suspects whose rules change when the run of the job ends."""
    return list(TrapSuspect.objects.filter(job=job, rule_state__in=[RuleState.WAITS, RuleState.LEAVES]).order_by("pk"))


def apply_waiting_rules(job: Job, *, now: dt.datetime) -> None:
    """
    Add waiting rules to a job that does not run, and remove rules whose removal waited. The caller holds the lock of
    the job.

    A job of the control partition gets its rules there, so another partition only notes the new state.
    """
    # Without its connector, rules cannot be added. They wait for the end of the next run.
    suspects = waiting_rules(job)
    if not suspects or not registry.is_installed(job.repository.connector):
        return
    if is_controlled_elsewhere(job.node_scope):
        for suspect in suspects:
            suspect.rule_state = RuleState.ADDED if suspect.rule_state == RuleState.WAITS else RuleState.NONE
            suspect.save(update_fields=["rule_state"])
        return
    versions.keep_first(job, now=now)
    for suspect in suspects:
        is_new = suspect.rule_state == RuleState.WAITS
        if is_new:
            state = RuleState.PRESENT if has_rule(job, suspect) else RuleState.ADDED
            job.specification = with_rules(job, [suspect])
        else:
            state = RuleState.NONE
            job.specification = without_rule(job, suspect) if has_rule(job, suspect) else job.specification
        suspect.rule_state = state
        suspect.save(update_fields=["rule_state"])
        said = "got" if is_new else "lost"
        message = (
            f"{said} the rule of the trap {suspect.template} at {suspect.host}, which waited for the end of the run"
        )
        journal.record(job, kind="trap rule", message=message, made_by=suspect.decided_by or "manager", now=now)
    job.specification_version += 1
    job.from_the_beginning = True
    job.save(update_fields=["specification", "specification_version", "from_the_beginning"])
    versions.keep(job, made_by=suspects[-1].decided_by or "manager", now=now)


def _rule_of(suspect: TrapSuspect) -> tuple[str, str]:
    """Return the field of the specification that has the rule, and the value of the rule."""
    if suspect.accepted_as == RuleKind.DROP_PARAMETER:
        return "drop_parameters", suspect.parameter
    return "exclude", suspect.rule


def _listed(job: Job, name: str) -> list[str]:
    return list(job.specification.get(name, _inherited(job).get(name, ())))


def _inherited(job: Job) -> dict[str, Any]:
    kind = registry.find(job.repository.connector)
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in kind.configuration.read(job.repository.configuration).items()
    }
