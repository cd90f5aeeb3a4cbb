"""
Two jobs of two policies on one host, and on a host that requests a delay, with two managers, four workers and faults.

All judgements come from the sites' logs and from `limits`, the limits in force at each time. The jobs are lists of
pages, too long to end meanwhile.
"""

import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

from django.utils import timezone

from crawlctl.demo.log import read_log
from jobs.models import Job
from jobs.verbs import control
from jobs.verbs.cluster import move_group
from nodes.errors import NotDone
from tests.chaos.checkers import fetches
from tests.support.factories import make_job, make_policy
from tests.support.pace.rules import DENIAL_GRACE, EDIT_GRACE, LeastGap, Limits, Silence, broken, over_time
from tests.support.processes import serve_site, wait_for

# Crawl-delay in robots.txt of one of the sites (seconds).
DELAY = 0.4
_PAGES = 1200
_PERIODS = {1.0: "second", 60.0: "minute", 3600.0: "hour"}


@dataclass
class ServedSite:
    """A site of one host, with logs of the arrivals and the ends of requests."""

    site: object
    starts: object
    ends: object

    @property
    def host(self):
        return self.site.plan.origins[0].removeprefix("http://")

    @property
    def pages(self):
        return [self.site.plan.url(page) for page in range(_PAGES)]

    def fetches(self):
        """Return the requests until now. The query makes the site flush its logs."""
        assert self.site.lines
        return fetches(read_log(self.starts), read_log(self.ends))


@dataclass
class Scenario:
    """
    A scenario, used as a context. The strict policy's job starts first, so its limits hold from the first request on.

    `cluster` is a cluster of the chaos test that crawls nothing by itself. `changes` are (moment, limits of the strict
    policy).
    """

    cluster: object
    # Additions to CRAWLCTL_CHAOS for each node.
    orders: dict = field(default_factory=dict)
    strict: Limits = field(default_factory=lambda: Limits(gap=0.2, open_requests=1))
    eager: Limits = field(default_factory=lambda: Limits(gap=0.02, open_requests=4))
    # Limits of the cluster for all hosts together.
    cap: Limits | None = None
    latency_ms: int = 30
    changes: list = field(default_factory=list)
    denied_from: float = float("inf")
    _opened: ExitStack = field(default_factory=ExitStack)

    def __enter__(self):
        self.plain = self._serve("plain")
        self.delaying = self._serve("delaying", crawl_delay=DELAY)
        self.cluster.at_once = 0
        self.cluster.add("manager", 2)
        self.cluster.add("worker", 4)
        for node in self.cluster.nodes:
            node.orders.update(self.orders)
            node.start()
        self.supervise_until(self.cluster.is_whole, saying="the cluster is whole")
        pages = [page for both in zip(self.plain.pages, self.delaying.pages, strict=True) for page in both]
        self.policies = [
            make_policy(name, **_facts(limits)) for name, limits in (("strict", self.strict), ("eager", self.eager))
        ]
        if self.cap is not None:
            make_policy("of administrators", open_requests=1000, applies_everywhere=True, **_totals(self.cap))
        self.changes.append((time.monotonic(), self.strict))
        for policy, of_job in zip(self.policies, (pages[: len(pages) // 2], pages[len(pages) // 2 :]), strict=True):
            job = make_job(urls=of_job, policy=policy, specification={"max_depth": 0})
            control.start(job.pk, made_by="a test", now=timezone.now())
            self.supervise_until(lambda job=job: Job.objects.get(pk=job.pk).phase == "active", saying="the job runs")
        self.go_on(10)
        return self

    def __exit__(self, *_):
        self._opened.close()

    def _serve(self, name, **options):
        starts, ends = (self.cluster.directory / f"{name}.{kind}" for kind in ("log", "ends"))
        site = self._opened.enter_context(
            serve_site(starts, pages=_PAGES, traps=0, ends=ends, latency_ms=self.latency_ms, **options)
        )
        return ServedSite(site, starts, ends)

    # --- Faults and changes ----------------------------------------------------------------------

    def go_on(self, requests=25):
        """Wait until the plain site has received this many more requests for pages."""
        seen = self.plain.site.count_requests()
        self.supervise_until(lambda: self.plain.site.count_requests() >= seen + requests, saying="the crawl goes on")

    def supervise_until(self, condition, *, saying):
        """Wait for the condition. Restart processes that end meanwhile."""

        def check():
            for node in self.cluster.nodes:
                node.restart_if_ended()
            return condition()

        return wait_for(check, saying=saying)

    def edit(self, limits, *, judged_for=5.0):
        """Edit the strict policy, and crawl on for `judged_for` seconds after all nodes must have applied it."""
        for name, value in _facts(limits).items():
            setattr(self.policies[0], name, value)
        self.policies[0].save()
        self.changes.append((time.monotonic(), limits))
        self._go_on_for(EDIT_GRACE + judged_for)

    def deny(self):
        """Let an administrator deny the plain site, and crawl on for a while without requests to it."""
        everywhere = make_policy("that denies", open_requests=1000, applies_everywhere=True)
        everywhere.rules.create(position=1, pattern=self.plain.host, days=[1, 2, 3, 4, 5, 6, 7], denies=True)
        self.denied_from = time.monotonic() + DENIAL_GRACE
        self._go_on_for(DENIAL_GRACE + 3)

    def _go_on_for(self, seconds):
        over = time.monotonic() + seconds
        self.supervise_until(lambda: time.monotonic() > over, saying="time passes")

    def node_of(self, name):
        return next(node for node in self.cluster.nodes if node.name == name)

    def owner(self, policy):
        """Return the manager that owns the group of a policy."""
        query = """
            SELECT node.name FROM jobs_throttlegroup AS held JOIN nodes_node AS node ON node.id = held.owner_id
             WHERE held.policy_id = %s AND held.state = 'owned'
        """
        return self.node_of(
            self.supervise_until(lambda: self.cluster.rows(query, policy.pk), saying="somebody owns it")[0].name
        )

    def asker(self):
        """Return the worker that sent the last request to the plain site."""
        return self.node_of(self.plain.site.requests()[-1].agent)

    def move_groups(self):
        """Request the move of each group to the other manager. A refused request is ignored."""
        query = """
            SELECT held.id, other.id AS other
              FROM jobs_throttlegroup AS held
              JOIN nodes_node AS other ON other.kind = 'manager' AND other.status = 'running' AND other.id <> held.owner_id
        """
        for group in self.cluster.rows(query):
            with suppress(NotDone):
                move_group(group.id, to=group.other, made_by="a test", now=timezone.now())

    # --- Results ---------------------------------------------------------------------------------

    def broken(self):
        """Return every breach of the sites' limits."""
        plain, delaying = self.plain.fetches(), self.delaying.fetches()
        told_at = next(fetch.end for fetch in delaying if fetch.url.endswith("/robots.txt"))
        hosts = (self.plain.host, self.delaying.host)
        rules = [rule for host in hosts for rule in over_time(self.changes, host)]
        rules.append(LeastGap(seconds=DELAY, hosts=frozenset({self.delaying.host}), since=told_at))
        if self.cap is not None:
            rules += self.cap.rules(*hosts)
        rules.append(Silence(hosts=frozenset({self.plain.host}), since=self.denied_from))
        return broken([*plain, *delaying], rules, freezes=self.cluster.freezes)

    def agents(self):
        """Return the User-Agents of the requests that the plain site received."""
        return {fetch.agent for fetch in self.plain.fetches()}


def _facts(limits):
    """Return limits as the columns of a policy."""
    most, within = limits.starts or (None, None)
    return {
        "open_requests": limits.open_requests,
        "min_gap": limits.gap,
        "starts": most,
        "period": _PERIODS.get(within, ""),
        "bytes_per_second": limits.bytes_per_second,
    }


def _totals(limits):
    """Return limits as the columns of a policy for all its bins together. Such columns have a rate instead of a gap."""
    most, within = limits.starts or (None, None)
    facts = {
        "open_requests": limits.open_requests,
        "starts": most,
        "period": _PERIODS.get(within, ""),
        "bytes_per_second": limits.bytes_per_second,
    }
    return {f"total_{name}": value for name, value in facts.items()}
