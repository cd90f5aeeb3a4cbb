"""The gates of a document, or of an address that a job does not know, from its facts. No I/O."""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from jobs.connectors.repository.web.robots import RobotsKind
from jobs.connectors.repository.web.robots_rules import RobotsRules, decisive_line
from jobs.explain.facts import Address, RulesOfJob
from jobs.explain.gates import GATE_OF, MOVING, Gate, Judgement, Reason, Status, blocked, closed_by, in_order, passed
from jobs.explain.link_paths import Way
from jobs.lifecycle.document import CLAIMED, Action, Stage
from jobs.lifecycle.job import Phase
from jobs.models import Job, Outcome, QueueItem, Robots, TrapSuspect
from jobs.queries.documents.outputs import HeldBy
from jobs.queries.hosts.lines import HostStatus
from jobs.verdicts.causes import Verdict

# Causes by which the host gets no request at all. The verdict on the host names them before any other cause.
_DENIALS: Final = frozenset(cause for cause, gate in GATE_OF.items() if gate == Gate.DENY_LIST)
# Gates that the scheduling of a document decides, in their order.
_OF_SCHEDULING: Final = (Gate.JOB, Gate.WINDOW, Gate.LOGIN, Gate.POLICY, Gate.HOST, Gate.LINE, Gate.CLAIM)
_INDEXED: Final = frozenset({Outcome.INDEXED, Outcome.UNCHANGED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """
    The facts about one address in one job. `item` is None for an address that the job does not know.

    `hold` is the cause that holds the whole job. `verdict` is the cause of the document, None if the document is not to
    be read. `before` counts the due documents before it in its lane. `way` leads from a seed to the document, and
    `target` is the address to which it redirects.
    """

    address: Address
    job: Job
    host: HostStatus | None
    rules: RulesOfJob
    robots: Robots | None = None
    hold: Verdict | None = None
    verdict: Verdict | None = None
    item: QueueItem | None = None
    before: int | None = None
    way: Way = field(default_factory=Way)
    held_by: Sequence[HeldBy] = ()
    target: str = ""
    # The suspect that holds back new documents with this address.
    suspect: TrapSuspect | None = None
    now: dt.datetime


def judge(facts: Facts) -> list[Judgement]:
    """Return the gates of an address in one job, in their order."""
    found = [
        passed(Gate.FORM, Reason.NORMAL, identifier=facts.address.identifier),
        _known(facts),
        _trap(facts),
        *_admission(facts),
        *_scheduling(facts),
        *_results(facts),
    ]
    return in_order(found, is_forecast=facts.item is None)


def judge_trap(address: Address) -> list[Judgement]:
    """Return the gates of an address that the crawler refuses for any job."""
    return in_order(
        [passed(Gate.FORM, Reason.NORMAL, identifier=address.typed), _form_of_trap(address)], is_forecast=True
    )


def _known(facts: Facts) -> Judgement:
    if facts.item is None:
        return blocked(Gate.KNOWN, Reason.UNKNOWN, identifier=facts.address.identifier)
    way = facts.way
    if len(way.steps) > 1:
        reason = Reason.FOUND if way.is_complete else Reason.FOUND_LATER
        return passed(Gate.KNOWN, reason, page=way.steps[-2].identifier, steps=str(len(way.steps) - 1))
    if way.is_complete or facts.rules.is_seed:
        return passed(Gate.KNOWN, Reason.SEED)
    return passed(Gate.KNOWN, Reason.FOUND_BEFORE)


def _trap(facts: Facts) -> Judgement:
    item, suspect = facts.item, facts.suspect
    is_held = item is None or not (item.indexed_before or item.version)
    if suspect is None or not is_held or facts.address.trap:
        return _form_of_trap(facts.address)
    known = {"suspect": suspect.pk, "template": suspect.template, "new": suspect.new, "fetched": suspect.fetched}
    held = blocked(Gate.TRAP, Reason.TRAP_HELD, **{name: str(value) for name, value in known.items()})
    return replace(held, since=suspect.suspected_at)


def _form_of_trap(address: Address) -> Judgement:
    return (
        blocked(Gate.TRAP, Reason.OVER_LIMIT, why=address.trap) if address.trap else passed(Gate.TRAP, Reason.NO_TRAP)
    )


# --- The rules of the job and of the site --------------------------------------------------------


def _admission(facts: Facts) -> Iterator[Judgement]:
    yield _deny_list(facts.host)
    yield _scope(facts.rules)
    yield _depth(facts)
    yield _robots(facts)


def _deny_list(host: HostStatus | None) -> Judgement:
    # If the host is denied, the verdict on it names the denial before any other cause.
    if host is None or host.verdict.cause not in _DENIALS:
        return passed(Gate.DENY_LIST, Reason.NOT_DENIED)
    return replace(closed_by(host.verdict), since=host.limited_since)


def _scope(rules: RulesOfJob) -> Judgement:
    if rules.problem:
        return blocked(Gate.SCOPE, Reason.RULES_INVALID, why=rules.problem)
    if rules.judged is None:
        return passed(Gate.SCOPE, Reason.SCOPE_AT_READING)
    if rules.judged.refusal:
        return blocked(Gate.SCOPE, Reason.OUT_OF_SCOPE, rule=rules.judged.refusal)
    return passed(Gate.SCOPE, Reason.IN_SCOPE, rule=rules.judged.rule)


def _depth(facts: Facts) -> Judgement:
    most = facts.rules.judged.max_depth if facts.rules.judged else None
    item = facts.item
    if item is not None and item.stage == Stage.HOPCOUNT_REMOVED:
        limits = ", ".join(f"{name}: {hops}" for name, hops in sorted(facts.job.hop_limits.items()))
        return blocked(Gate.DEPTH, Reason.TOO_FAR, limits=limits)
    if most is None:
        return passed(Gate.DEPTH, Reason.NO_DEPTH)
    if item is None and not facts.rules.is_seed:
        return passed(Gate.DEPTH, Reason.DEPTH_OF_REFERRER, most=str(most))
    depth = item.depth if item is not None else 0
    reason = Reason.WITHIN_DEPTH if depth < most else Reason.LAST_DEPTH
    return passed(Gate.DEPTH, reason, depth=str(depth), most=str(most))


def _robots(facts: Facts) -> Judgement:
    judged = facts.rules.judged
    if judged is None or not judged.robots_origin:
        return passed(Gate.ROBOTS, Reason.NO_ROBOTS)
    if _ended_with(facts.item, facts.job) == "ROBOTS_UNREACHABLE":
        return blocked(Gate.ROBOTS, Reason.ROBOTS_UNREACHABLE, origin=judged.robots_origin)
    stored = facts.robots
    if stored is None:
        return passed(Gate.ROBOTS, Reason.ROBOTS_NOT_READ, origin=judged.robots_origin)
    return replace(
        _by_rules(stored, facts.address.identifier, judged.robots_name),
        since=stored.fetched_at,
        until=stored.expires_at,
    )


def _by_rules(stored: Robots, url: str, name: str) -> Judgement:
    """Return the judgement of a stored robots.txt, by the rules that a worker reads from it."""
    text = str(stored.answer.get("text", ""))
    is_of_rules = stored.answer.get("kind") == RobotsKind.RULES
    line = decisive_line(text, name=name, url=url) if is_of_rules else None
    facts = {"name": name, "origin": stored.origin, "line": "", "rule": ""}
    if line is not None:
        facts |= {"line": str(line.number), "rule": line.rule}
    if is_of_rules and not RobotsRules(text, name=name).allows(url):
        return blocked(Gate.ROBOTS, Reason.ROBOTS_FORBIDS, **facts)
    return passed(Gate.ROBOTS, Reason.ROBOTS_ALLOWS, **facts)


def _ended_with(item: QueueItem | None, job: Job) -> str:
    """Return the result code of a document that has ended in the present run; "" for another document."""
    return item.result_code if item is not None and item.stage == Stage.DONE and item.run_no == job.run_no else ""


# --- Scheduling ----------------------------------------------------------------------------------


def _scheduling(facts: Facts) -> Iterator[Judgement]:
    """Yield the gates of scheduling: the cause of the verdict closes one of them, or none of them."""
    verdict = facts.verdict or facts.hold
    closed = None if verdict is None or verdict.cause in MOVING else closed_by(verdict)
    is_past = facts.item is not None and (facts.verdict is None or (closed and closed.gate == Gate.RESULT))
    for gate in _OF_SCHEDULING:
        if closed is not None and closed.gate == gate:
            yield closed
        elif is_past and gate in {Gate.LINE, Gate.CLAIM} and not _is_claimed(facts.item):
            yield passed(gate, Reason.PASSED_BEFORE)
        else:
            yield _open_gate(gate, facts)


def _policies_in_run(facts: Facts) -> list[str]:
    """
    Return the names of the policies that will apply when the job runs; none for a running job, whose policies apply
    already.
    """
    if facts.job.phase != Phase.INACTIVE:
        return []
    if facts.item is not None:
        policy = facts.item.lane.seed.policy
        return [policy.name] if policy is not None else []
    return sorted(facts.rules.policies.values())


def _open_gate(gate: Gate, facts: Facts) -> Judgement:
    match gate:
        case Gate.JOB:
            return replace(passed(gate, Reason.RUNS, run=str(facts.job.run_no)), since=facts.job.started_at)
        case Gate.WINDOW:
            return replace(passed(gate, Reason.IN_WINDOW), until=facts.job.window_ends_at)
        case Gate.LOGIN:
            return passed(gate, Reason.NO_LOGIN)
        case Gate.POLICY if policies := _policies_in_run(facts):
            return passed(gate, Reason.LIMITED_IN_RUN, policies=", ".join(policies))
        case Gate.POLICY:
            return passed(gate, Reason.LIMITED)
        case Gate.HOST:
            is_new = facts.host is None or not facts.host.known.is_known
            return passed(gate, Reason.HOST_NEW if is_new else Reason.HOST_READY)
        case Gate.LINE:
            return passed(gate, Reason.IN_LINE, **({} if facts.before is None else {"before": str(facts.before)}))
        case _:
            return _claim(facts.item)


def _is_claimed(item: QueueItem | None) -> bool:
    return item is not None and item.stage in CLAIMED


def _claim(item: QueueItem | None) -> Judgement:
    if item is None or item.stage not in CLAIMED or item.batch is None:
        return passed(Gate.CLAIM, Reason.NOT_CLAIMED)
    batch = item.batch
    names = {"batch": str(batch.pk), "worker": batch.worker.name if batch.worker else ""}
    if item.stage != Stage.ACTIVE:
        return replace(passed(Gate.CLAIM, Reason.REMOVED_NOW, **names), since=batch.sent_at or batch.created_at)
    if batch.sent_at is None:
        return replace(passed(Gate.CLAIM, Reason.OFFERED, **names), since=batch.created_at)
    return replace(passed(Gate.CLAIM, Reason.TAKEN, **names), since=batch.sent_at)


# --- Results -------------------------------------------------------------------------------------


def _results(facts: Facts) -> Iterator[Judgement]:
    yield _result(facts)
    yield _next_look(facts)
    yield _canonical(facts)
    if facts.item is None:
        yield Judgement(Gate.OUTPUT, Status.NOT_REACHED, Reason.NOT_HELD)
    elif not facts.held_by:
        yield passed(Gate.OUTPUT, Reason.NO_OUTPUT)
    for held in facts.held_by:
        yield _output(held, facts)


def _result(facts: Facts) -> Judgement:
    if facts.verdict is not None and GATE_OF[facts.verdict.cause] == Gate.RESULT:
        retry = closed_by(facts.verdict)
        item = facts.item
        if item is None:
            return retry
        return replace(retry, since=item.failing_since, facts={"attempts": str(item.failures)})
    item = facts.item
    if item is None or item.stage != Stage.DONE or (facts.verdict is not None and item.run_no < facts.job.run_no):
        return passed(Gate.RESULT, Reason.NO_RESULT)
    known = {"code": item.result_code}
    is_good = item.outcome in _INDEXED or item.result_code == "REDIRECT"
    if is_good or item.outcome == Outcome.NONE:
        return replace(passed(Gate.RESULT, Reason.GOOD_RESULT, **known), since=item.fetched_at)
    return replace(blocked(Gate.RESULT, Reason.BAD_RESULT, **known), since=item.fetched_at)


def _next_look(facts: Facts) -> Judgement:
    item, job = facts.item, facts.job
    if item is None or facts.verdict is not None or item.stage in CLAIMED or item.stage == Stage.HOPCOUNT_REMOVED:
        return passed(Gate.NEXT_LOOK, Reason.DUE)
    run = {"run": str(job.run_no), "document_run": str(item.run_no)}
    if item.run_no < job.run_no:
        return blocked(Gate.NEXT_LOOK, Reason.NOT_REACHED_IN_RUN, **run)
    if item.check_time is not None:
        reason = Reason.READ_LATER if item.action == Action.PROCESS else Reason.EXPIRES
        return replace(blocked(Gate.NEXT_LOOK, reason, **run), since=item.fetched_at, until=item.check_time)
    read = replace(blocked(Gate.NEXT_LOOK, Reason.READ_IN_RUN, **run), since=item.fetched_at)
    # A redirect decides at its own gate.
    return replace(read, status=Status.PASSED) if facts.target else read


def _canonical(facts: Facts) -> Judgement:
    if facts.target:
        return blocked(Gate.CANONICAL, Reason.REDIRECTS, target=facts.target)
    return passed(Gate.CANONICAL, Reason.OWN_ADDRESS)


def _output(held: HeldBy, facts: Facts) -> Judgement:
    if held.connector == "null":
        found = passed(Gate.OUTPUT, Reason.KEEPS_NOTHING)
    elif held.version:
        found = replace(passed(Gate.OUTPUT, Reason.HELD, version=held.version), since=held.indexed_at)
    else:
        item = facts.item
        is_lost = item is not None and item.stage == Stage.DONE and item.outcome in _INDEXED
        found = Judgement(Gate.OUTPUT, Status.BLOCKED if is_lost else Status.NOT_REACHED, Reason.NOT_HELD)
    return replace(found, subject=held.output)
