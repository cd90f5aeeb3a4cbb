"""
The explanation of one address: a section for each job that knows it, or a forecast for jobs that may come to know it.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from jobs.connectors.repository.web.kind import WEB
from jobs.explain import facts as reading
from jobs.explain.facts import Address, RulesOfJob, find, find_bin, read_address, read_robots, read_rules
from jobs.explain.gates import Judgement, first_blocked
from jobs.explain.judging import Facts, judge, judge_trap
from jobs.explain.link_paths import Step, read_ways
from jobs.lifecycle.document import Stage
from jobs.models import IndexedDocument, Job, OutLinks, OutputConnection, QueueItem, Robots, TrapSuspect
from jobs.queries.documents.outputs import HeldBy
from jobs.queries.documents.verdict import judge_item, read_job_facts
from jobs.queries.hosts.lines import HostStatus, read_host_statuses
from jobs.queries.hosts.new_hosts import read_new_host
from jobs.queries.jobs.facts import read_cluster
from jobs.queries.traps import read_holding
from jobs.traps.quarantine import TrapGuard
from jobs.verdicts.causes import Verdict
from jobs.verdicts.jobs import DocumentSeen, hold_of, judge_document
from nodes.database.shared_results import Moment


@dataclass(frozen=True, slots=True)
class Section:
    """
    One job with the gates that the address passes in this job. `item` is the document, None in a forecast.

    `way` leads from a seed to the document, and `referrers` are some of the documents that link to it. `partition` is
    the other partition that has the document, or "" for this one.
    """

    job: Job
    item: QueueItem | None
    host: HostStatus | None
    gates: Sequence[Judgement]
    held_by: Sequence[HeldBy] = ()
    way: Sequence[Step] = ()
    referrers: Sequence[Step] = ()
    partition: str = ""

    @property
    def is_forecast(self) -> bool:
        return self.item is None

    @property
    def deciding(self) -> Judgement | None:
        """Return the first blocked gate; None if no gate blocks the document."""
        return first_blocked(self.gates, is_forecast=self.is_forecast)


@dataclass(frozen=True, slots=True)
class Explained:
    """
    The explanation of an address. `gates` are set if the crawler refuses the address for any job.

    `more` has the names of further jobs that know the address, by id.
    """

    address: Address
    sections: Sequence[Section] = ()
    gates: Sequence[Judgement] = ()
    more: Mapping[int, str] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        return any(section.item is not None for section in self.sections)


def explain(typed: str, *, job_id: int | None = None, now: dt.datetime) -> Explained:
    """
    Explain an address in the jobs that know it, or in one job.

    Raises:
        Invalid: the text is not an address.
        Unknown: the job does not exist.
    """
    # All sections read each fact about nodes and hosts only once.
    with Moment().present():
        return _explain(read_address(typed), job_id=job_id, now=now)


def _explain(address: Address, *, job_id: int | None, now: dt.datetime) -> Explained:
    found = find(address, job_id=job_id)
    if address.trap and not found.items:
        return Explained(address, gates=judge_trap(address), more=found.more)
    if found.items:
        address = replace(address, identifier=found.items[0].identifier)
        return Explained(address, _sections(found.items, address, now=now), more=found.more)
    return Explained(address, _forecasts(found.jobs, address, now=now), more=found.more)


def _sections(items: Sequence[QueueItem], address: Address, *, now: dt.datetime) -> list[Section]:
    jobs = [item.job for item in items]
    hosts = {line.id: line for line in read_host_statuses([item.lane.bin_id for item in items], now=now)}
    rules = read_rules(jobs, address)
    robots, held, targets = _robots_of(rules), _read_holders(items), _read_targets(items)
    ways, suspects = read_ways(items), _read_suspects(rules, address)
    sections = []
    for item in items:
        host = hosts[item.lane.bin_id]
        verdict = judge_item(item, host, now=now)
        way = ways[item.job_id]
        facts = Facts(
            address=address,
            job=item.job,
            host=host,
            rules=rules[item.job_id],
            robots=_robots_for(rules[item.job_id], robots),
            hold=_hold(item.job, now=now) if verdict is None else None,
            verdict=verdict,
            item=item,
            before=reading.count_before(item) if item.stage == Stage.PENDING and item.seq is not None else None,
            way=way,
            held_by=held[item.job_id],
            target=targets.get(item.job_id, ""),
            suspect=suspects.get(item.job_id),
            now=now,
        )
        # The last step is left out, because it is the document itself.
        sections.append(Section(item.job, item, host, judge(facts), held[item.job_id], way.steps[:-1], way.referrers))
    return sections


def _forecasts(jobs: Sequence[Job], address: Address, *, now: dt.datetime) -> list[Section]:
    """Return a forecast for an address that no job knows. Jobs that would read it come first."""
    rules = read_rules(jobs, address)
    robots, suspects = _robots_of(rules), _read_suspects(rules, address)
    bin_id = find_bin(address.host) if address.host else None
    known = next(iter(read_host_statuses([bin_id], now=now)), None) if bin_id is not None else None
    new: dict[tuple[int, ...], HostStatus] = {}
    sections = []
    for job in jobs:
        host = known
        if host is None and address.host:
            policies = tuple(sorted(rules[job.pk].policies))
            if policies not in new:
                new[policies] = read_new_host(address.host, bins=WEB.bins, policies=policies, now=now)
            host = new[policies]
        verdict = _verdict_if_known(job, host, now=now)
        facts = Facts(
            address=address,
            job=job,
            host=host,
            rules=rules[job.pk],
            robots=_robots_for(rules[job.pk], robots),
            verdict=verdict,
            suspect=suspects.get(job.pk),
            now=now,
        )
        sections.append(Section(job, None, host, judge(facts)))
    return sorted(sections, key=lambda section: _place_of(section.deciding))


def _place_of(deciding: Judgement | None) -> int:
    """
    Return the sort key of a job in an explanation: the job in which the address passes the most gates comes first.
    """
    gates = list(type(deciding.gate)) if deciding is not None else []
    return -gates.index(deciding.gate) if deciding is not None else -1_000


def _verdict_if_known(job: Job, host: HostStatus | None, *, now: dt.datetime) -> Verdict | None:
    """
    Return the verdict that a document would have if the job discovered it now. Without a host, only the job can hold
    it; None if the job does not.
    """
    seen, cluster = read_job_facts(job, now=now), read_cluster(job.node_scope, now=now)
    if host is None:
        return hold_of(seen, cluster)
    # Assumptions about an unknown document: its lane would be ready, and the owner of the seed would hand the document
    # out.
    known = replace(
        host.known,
        ready_at=now,
        is_owned=True,
        is_served=True,
        missing_tag="",
        group_failing_since=None,
        waiting=1,
        held=0,
    )
    return judge_document(DocumentSeen(), seen, cluster, known, now=now)


def _hold(job: Job, *, now: dt.datetime) -> Verdict | None:
    return hold_of(read_job_facts(job, now=now), read_cluster(job.node_scope, now=now))


def _robots_of(rules: Mapping[int, RulesOfJob]) -> dict[str, Robots]:
    return read_robots([one.judged.robots_origin for one in rules.values() if one.judged is not None])


def _robots_for(rules: RulesOfJob, stored: Mapping[str, Robots]) -> Robots | None:
    return stored.get(rules.judged.robots_origin) if rules.judged is not None else None


def _read_suspects(rules: Mapping[int, RulesOfJob], address: Address) -> dict[int, TrapSuspect]:
    """Return the suspect that holds back new documents with an address, by job."""
    judged = {job_id: one.judged for job_id, one in rules.items() if one.judged is not None}
    holding = [job_id for job_id, one in judged.items() if one.trap_guard == TrapGuard.HOLD]
    return (
        read_holding(dict.fromkeys(judged, address.host), address.identifier, guarded=holding) if address.host else {}
    )


def _read_holders(items: Sequence[QueueItem]) -> dict[int, list[HeldBy]]:
    """Return the versions that each output of each job holds, by job."""
    linked = Job.outputs.through.objects.filter(job__in=[item.job_id for item in items])
    outputs: dict[int, list[OutputConnection]] = {item.job_id: [] for item in items}
    for link in linked.select_related("outputconnection").order_by("outputconnection"):
        outputs[link.job_id].append(link.outputconnection)
    ids = {output.pk for each in outputs.values() for output in each}
    held = {row.output_id: row for row in IndexedDocument.objects.filter(output__in=ids, hash=items[0].hash)}
    return {job_id: [_held_by(output, held.get(output.pk)) for output in each] for job_id, each in outputs.items()}


def _held_by(output: OutputConnection, row: IndexedDocument | None) -> HeldBy:
    version, since = (row.version, row.indexed_at) if row is not None else ("", None)
    return HeldBy(output.name, output.connector, version, since)


def _read_targets(items: Sequence[QueueItem]) -> dict[int, str]:
    """Return the addresses to which documents redirect, by job."""
    redirected = [item.job_id for item in items if item.result_code == "REDIRECT"]
    if not redirected:
        return {}
    links = OutLinks.objects.filter(hash=items[0].hash, job__in=redirected, is_redirect=True)
    targets = {link.job_id: link.targets[0] for link in links if link.targets}
    known = QueueItem.objects.filter(hash__in=set(targets.values()), job__in=targets)
    names = {(item.job_id, item.hash): item.identifier for item in known}
    return {job_id: names.get((job_id, target), "") for job_id, target in targets.items()}
