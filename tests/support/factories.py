"""
Rows for tests, made as the program makes them: jobs through `jobs.verbs.editing`, the rest by the ORM.

Everything has a default, so a test names only its subject.
"""

import itertools
import uuid
from dataclasses import dataclass
from functools import cached_property

from django.db import transaction
from django.db.models import F

from jobs.connectors.repository.base import Content, Ending, Outcome, Reference
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Phase
from jobs.models import (
    Bin,
    BinLimit,
    BinState,
    Budget,
    Counter,
    Job,
    JobCounter,
    Lane,
    LaneState,
    OutputConnection,
    QueueItem,
    RepositoryConnection,
    Seed,
    ThrottleGroup,
    ThrottlePolicy,
    ThrottleRule,
)
from jobs.queue.flushing.outcomes import JobFacts, Result
from jobs.queue.offering.hold import GroupHeld
from jobs.queue.sql.order import FIRST_FRESH
from jobs.throttling.windows import EVERY_DAY
from jobs.verbs import editing
from jobs.verbs.seeds import SeedWanted
from nodes.life.identity import NodeIdentity
from nodes.lifecycle import CLUSTER_SCOPE
from tests.support.cluster import NOON

_numbers = itertools.count(1)


# --- Configuration -------------------------------------------------------------------------------


def make_policy(name=None, **facts):
    """Return a policy without delays: 8 open requests, no gap."""
    usual = {"open_requests": 8, "min_gap": 0.0}
    return ThrottlePolicy.objects.create(name=name or f"policy {next(_numbers)}", **(usual | facts))


def make_rule(policy, pattern="", *, position=None, **facts):
    """Return a rule for every day, after the other rules of the policy or at `position`."""
    place = policy.rules.count() if position is None else position
    return ThrottleRule.objects.create(policy=policy, pattern=pattern, position=place, **({"days": EVERY_DAY} | facts))


def make_output(path=None):
    """Return an output into a file of JSON lines, or one that keeps nothing."""
    name, connector, configuration = (
        (f"jsonl:{path}", "jsonl", {"path": str(path)}) if path is not None else ("null", "null", {})
    )
    facts = {"connector": connector, "configuration": configuration}
    return OutputConnection.objects.get_or_create(name=name, defaults=facts)[0]


def make_job(name=None, *, urls=("http://a.example/",), policy=None, output=None, specification=None, **facts):
    """Return a stopped job with one seed. Without an `output` connection the job keeps nothing."""
    return editing.create_job(
        name=name or f"job {next(_numbers)}",
        repository=RepositoryConnection.objects.get_or_create(name="web", defaults={"connector": "web"})[0],
        outputs=[output or make_output()],
        seeds=[SeedWanted(tuple(urls), policy)],
        specification={"allow_private_networks": True} | (specification or {}),
        made_by="a test",
        now=NOON,
        **facts,
    ).job


# --- The queue -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunningJob:
    """A job in the middle of a run, and the group of its seed, owned by a manager."""

    job: Job
    seed: Seed
    group: GroupHeld
    manager: NodeIdentity

    @cached_property
    def facts(self):
        """Return the facts of the job for a worker's flush."""
        return facts_of(self.job)


def make_running_job(manager, *, policy=None, run_no=1, **facts):
    """Return a job whose run is active, in the scope of the manager that owns its group."""
    job = make_job(policy=policy, node_scope=manager.scope, **facts)
    Job.objects.filter(pk=job.pk).update(phase=Phase.ACTIVE, run_no=run_no, started_at=NOON)
    job.refresh_from_db()
    if job.max_documents is not None:
        Budget.objects.create(job=job, run_no=run_no, most=job.max_documents)
    seed = job.seeds.get()
    group = make_group(seed, owner=manager, scope=manager.scope)
    return RunningJob(job, seed, group, manager)


def make_group(seed, *, owner, scope=CLUSTER_SCOPE):
    """Return the group of the seed, owned by a manager. Seeds of one policy share it."""
    belongs_to = {"policy": seed.policy} if seed.policy else {"seed": seed}
    group, _ = ThrottleGroup.objects.get_or_create(
        **belongs_to, node_scope=scope, defaults={"owner_id": owner.id, "epoch": 1, "state": "owned"}
    )
    seed.group = group
    seed.save()
    return GroupHeld(group.pk, group.epoch)


def make_bin(name="a.example", *, namespace="web", is_known=True, state=None, **facts):
    """Return the bin of this name, with these fields of its state."""
    usual = {"is_known": is_known, **facts}
    with transaction.atomic():
        bin_, is_new = Bin.objects.get_or_create(namespace=namespace, name=name, defaults=usual)
        if is_new:
            BinState.objects.create(bin=bin_, **state or {})
    return bin_


def make_lane(seed, host="a.example", *, ready_at=NOON, **state):
    """Return the lane of a seed in a host's bin, ready since noon, with the limits of its policy."""
    bin_ = make_bin(host)
    if seed.policy:
        BinLimit.objects.get_or_create(bin=bin_, policy=seed.policy, job=seed.job)
    with transaction.atomic():
        lane, is_new = Lane.objects.get_or_create(seed=seed, bin=bin_)
        if is_new:
            LaneState.objects.create(lane=lane, seed=seed, bin=bin_, ready_at=ready_at, **state)
    return lane


def state_of(row):
    """Return the present state of a lane or a bin."""
    return row.states.get()


def hash_of(name):
    """Return the hash of a document's name. Hashes are spread as those of real documents are."""
    return uuid.uuid5(uuid.NAMESPACE_URL, str(name))


def make_documents(lane, names, **facts):
    """Create due documents of a lane in this order, one for each name. A number n stands for the names 0 to n-1."""
    names = range(names) if isinstance(names, int) else names
    return QueueItem.objects.bulk_create(_document(lane, name, **facts) for name in names)


def _document(lane, name, **facts):
    job = lane.seed.job
    usual = {"stage": Stage.PENDING, "run_no": job.run_no}
    due = facts.get("stage", Stage.PENDING) == Stage.PENDING and "check_time" not in facts
    return QueueItem(
        hash=hash_of(name),
        job=job,
        lane=lane,
        identifier=f"http://{lane.bin.name}/{name}",
        **({"seq": FIRST_FRESH + next(_numbers)} if due else {}),
        **(usual | facts),
    )


def make_hosts(seed, hosts, *, is_known=True, ready_at=NOON):
    """Create many new hosts with one due document each, in the lanes of a seed with a policy."""
    with transaction.atomic():
        bins = Bin.objects.bulk_create(Bin(namespace="web", name=host, is_known=is_known) for host in hosts)
        BinState.objects.bulk_create(BinState(bin=bin_) for bin_ in bins)
        BinLimit.objects.bulk_create(BinLimit(bin=bin_, policy=seed.policy, job=seed.job) for bin_ in bins)
        lanes = Lane.objects.bulk_create(Lane(seed=seed, bin=bin_) for bin_ in bins)
        LaneState.objects.bulk_create(
            LaneState(lane=lane, seed=seed, bin=lane.bin, ready_at=ready_at) for lane in lanes
        )
    QueueItem.objects.bulk_create(_document(lane, lane.bin.name) for lane in lanes)


def count_folded(*, lane_id, **facts):
    """Set the counters of a lane and its job, as if deltas had been folded."""
    Counter.objects.create(lane_id=lane_id, **facts)
    of_job, _ = JobCounter.objects.get_or_create(
        **{name: value for name, value in facts.items() if name != "amount"}, defaults={"amount": 0}
    )
    JobCounter.objects.filter(pk=of_job.pk).update(amount=F("amount") + facts["amount"])


def facts_of(job, **facts):
    """Return the facts of a job for a worker's flush."""
    usual = {
        "id": job.pk,
        "run_no": job.run_no,
        "repository": job.repository_id,
        "tracks_depth": False,
        "max_depth": None,
        "has_budget": job.max_documents is not None,
        "outputs": tuple(job.outputs.exclude(connector="null").order_by("pk").values_list("pk", flat=True)),
    }
    return JobFacts(**(usual | facts))


# --- Outcomes ------------------------------------------------------------------------------------


def make_reference(name, *, host="a.example", **facts):
    return Reference(
        hash=hash_of(name).hex,
        identifier=f"http://{host}/{name}",
        bin=host,
        **facts,
    )


def make_outcome(claimed, *, names=(), ending=Ending.INDEXED, code="200", text="text", **facts):
    """Return the outcome of a fetched page that links to these documents, given by name or as references."""
    document = claimed.document
    content = Content(document.identifier, "title", "", text, "text/html", "en") if ending == Ending.INDEXED else None
    references = [name if isinstance(name, Reference) else make_reference(name) for name in names]
    usual = {
        "requested": True,
        "version": f"1:{text}" if content else "",
        "content": content,
        "references": references,
        "carries": any(named.carry for named in references),
    }
    return Outcome(document, ending, code, **(usual | facts))


def make_result(claimed, facts, *, lanes=(), **outcome):
    """Return an outcome with its claim. `lanes` are the lanes of the documents that it links to."""
    by_bin = {(lane.seed_id, lane.bin.name): lane.pk for lane in lanes}
    return Result(claimed, facts, make_outcome(claimed, **outcome), by_bin)
