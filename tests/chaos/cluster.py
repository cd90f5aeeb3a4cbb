"""
The cluster for the chaos test: real managers and workers on their own PostgreSQL, and sites to crawl.

Each node stands for a machine. It has its own boot id, a clock that can be set, and its own connections to the database
and to ZooKeeper, if there is one. Each connection leads through a proxy that can be cut. A process that ended is restarted, as a supervisor
would do. When a job has ended, the next one begins with a new site, until `is_closing`.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg
from django.db import InterfaceError, OperationalError
from django.db import connection as django_connection
from django.utils import timezone
from psycopg.rows import namedtuple_row

from jobs.state.transitions import TransitionRefused
from jobs.verbs import control
from jobs.verbs.cluster import move_group, rebalance
from nodes.errors import NotDone
from tests.chaos.checkers import Freeze
from tests.chaos.zones import search_path
from tests.support import forking
from tests.support.factories import make_job, make_output, make_policy
from tests.support.lifetimes import ENDS_WITH_PYTEST
from tests.support.processes import ROOT, Database, serve_site
from tests.support.proxy import Proxy

BEAT, TIMEOUT = 0.5, 2.0

_INSIDE = Path(__file__).parent / "inside"
_FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
# Option of the site: some pages take longer than a node's timeout, so that they are open when their worker is marked as
# failed.
_SLOW_PAGES = f"37:{1.3 * TIMEOUT}"


def has_faketime():
    return _FAKETIME is not None


def sets_clocks(cluster):
    """
    True if clocks of nodes can be set.

    libfaketime 0.9.10 delays threads that wait for each other by up to half a second. Such threads keep the sessions
    with ZooKeeper, and a process ends after two thirds of its short timeout. So clusters with ZooKeeper run without
    libfaketime.
    """
    return has_faketime() and cluster.zookeeper is None


class Node:
    """One manager or worker, through all its starts. Its present name contains the number of the start."""

    def __init__(self, cluster, kind, number):
        self._cluster, self.kind, self.place = cluster, kind, f"{kind}-{number}"
        self.proxy = Proxy.of_database(cluster.database.dsn)
        # Proxy to ZooKeeper, if the cluster has a ZooKeeper.
        self.zookeeper_proxy = None if cluster.zookeeper is None else Proxy(("127.0.0.1", cluster.zookeeper.port))
        self.starts = 0
        self.process = None
        # Moment of the next restart (monotonic). None restarts an ended process immediately.
        self.restart_at = None
        # Functions at which the node freezes on request (see tests/chaos/inside), each with the file that requests it.
        self.stops = {point: cluster.directory / f"{self.place}.{point}.stop" for point in cluster.stops.get(kind, ())}
        self.orders = {"stops": {point: str(file) for point, file in self.stops.items()}}
        self.environment = {}
        self.user = None
        # True while a fault affects the node, so that no other fault picks the node.
        self.is_affected = False
        self._clock = cluster.directory / f"{self.place}.clock"
        self._frozen_since = None

    @property
    def name(self):
        return f"{self.place}.{self.starts}"

    @property
    def is_up(self):
        return self.process is not None and self.process.poll() is None

    def start(self):
        self.starts += 1
        self.restart_at = None
        dsn = psycopg.conninfo.make_conninfo(self.proxy.dsn(self._cluster.database.dsn), application_name=self.name)
        if self.user:
            dsn = psycopg.conninfo.make_conninfo(dsn, user=self.user)
        log_path = self._cluster.directory / f"{self.place}.log"
        words = [sys.executable, "manage.py", f"run{self.kind}", "--name", self.name]
        environment = {**os.environ, **self._environment(), "DATABASE_URL": Database(dsn).url}
        with log_path.open("ab") as log:
            facts = {"env": environment, "stdout": log, "stderr": log, "start_new_session": True}
            if self._cluster.is_forked:
                self.process = forking.start(words, **facts)
            else:
                words = [*ENDS_WITH_PYTEST, *words]
                self.process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.DEVNULL, **facts)

    def _environment(self):
        facts = {
            "CRAWLCTL_HEARTBEAT_INTERVAL": str(BEAT),
            "CRAWLCTL_NODE_TIMEOUT": str(TIMEOUT),
            "CRAWLCTL_USER_AGENT": self.name,
            "CRAWLCTL_CHAOS": json.dumps({"machine": self.place, **self.orders}),
        }
        if self.zookeeper_proxy is not None:
            facts |= {
                "CRAWLCTL_COORDINATION": "ZOOKEEPER",
                "CRAWLCTL_ZOOKEEPER": f"127.0.0.1:{self.zookeeper_proxy.port}",
            }
        if self._cluster.is_forked:
            return facts | self.environment
        facts |= {"PYTHONPATH": str(_INSIDE), "PYTHONTZPATH": search_path(self._cluster.zones)}
        if sets_clocks(self._cluster):
            self._clock.write_text("+0s")
            facts |= {
                "LD_PRELOAD": str(_FAKETIME),
                "FAKETIME_TIMESTAMP_FILE": str(self._clock),
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "FAKETIME_CACHE_DURATION": "1",
            }
        return facts | self.environment

    def set_clock(self, offset):
        """Shift the node's wall clock by an offset such as "+2h", from the next second on."""
        self._clock.write_text(offset)

    def kill(self, *, back_in=0.0):
        self.process.kill()
        self.process.wait()
        self.restart_at = time.monotonic() + back_in

    def stop(self):
        """Ask the process for an orderly end, after which it is restarted."""
        self.restart_at = time.monotonic()
        self.process.send_signal(signal.SIGTERM)

    def freeze(self):
        self.note_frozen()
        self.process.send_signal(signal.SIGSTOP)

    def note_frozen(self):
        """Note the present moment as the beginning of a freeze."""
        self._frozen_since = time.monotonic()

    def thaw(self):
        if self.is_up:
            self.process.send_signal(signal.SIGCONT)
        self._cluster.freezes.append(Freeze(self.name, self._frozen_since, time.monotonic()))

    def is_frozen(self):
        """True if the process is frozen, as at a requested stop."""
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED
        return False

    @property
    def proxies(self):
        """Return the proxies of the node. A network partition of its machine cuts all of them."""
        return [proxy for proxy in (self.proxy, self.zookeeper_proxy) if proxy is not None]

    def restart_if_ended(self):
        """Restart the process if it has ended."""
        if self.process is None or self.is_up:
            return
        if self.restart_at is None:
            self._cluster.write_line(f"{self.name} ended with {self.process.returncode}, and is started again")
            self.restart_at = time.monotonic()
        if self.restart_at <= time.monotonic():
            self.start()

    def end(self):
        if self.is_up:
            self.process.kill()
            self.process.wait()
        for proxy in self.proxies:
            proxy.__exit__(None, None, None)


@dataclass
class Crawl:
    """A site, its job and its output. The limits are those of the site's hosts."""

    number: int
    site: object
    starts: Path
    ends: Path
    output: Path
    job_id: int
    gap: float
    open_requests: int
    stop_site: ExitStack
    # Scheduled starts (wall clock, in seconds), and the moment until which the job may still start (monotonic).
    openings: Sequence[float] = ()
    runs_until: float = 0.0
    has_ended: bool = False


@dataclass
class Cluster:
    """The whole cluster. Use it from one thread, and call `supervise` some times a second."""

    server: object
    database: Database
    directory: Path
    rng: random.Random
    write_line: object
    # Number of documents of a site, and number of sites crawled at the same time.
    pages: int = 400
    at_once: int = 4
    # Functions ("module:name") at which each kind of node can be frozen.
    stops: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # The ZooKeeper that the cluster uses in addition to the database, if there is one.
    zookeeper: object = None
    # True if nodes are forked, which saves most of the time of a start. A forked node has no separate clock or time
    # zone, no stops and no mutant.
    is_forked: bool = False
    nodes: list[Node] = field(default_factory=list)
    crawls: list[Crawl] = field(default_factory=list)
    freezes: list[Freeze] = field(default_factory=list)
    manual_steps: list[str] = field(default_factory=list)
    # Function that is called again and again while a query waits for the database.
    meanwhile: Callable[[], object] = lambda: None
    # True once no new site may begin.
    is_closing: bool = False
    # Jobs that an operator paused on purpose.
    paused: set[int] = field(default_factory=set)
    _checked_at: float = 0.0
    _administrators: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2))

    @property
    def zones(self):
        """Return the directory of time zones that exist only in tests."""
        return self.directory / "zones"

    def add(self, kind, count):
        for _ in range(count):
            number = 1 + sum(node.kind == kind for node in self.nodes)
            self.nodes.append(Node(self, kind, number))

    def of_kind(self, kind):
        return [node for node in self.nodes if node.kind == kind]

    def start_nodes(self):
        for node in self.nodes:
            node.start()

    # --- Queries ---------------------------------------------------------------------------------

    def rows(self, query, *values):
        """Return the rows of a query, or no rows while the database does not answer."""
        with (
            suppress(psycopg.OperationalError),
            psycopg.connect(
                self.database.dsn, autocommit=True, row_factory=namedtuple_row, connect_timeout=2
            ) as connection,
        ):
            return connection.execute(query, values).fetchall()
        return []

    def main(self):
        """Return (main manager's node, its id), or (None, None) if there is none or the database does not answer."""
        found = self.rows(
            """
            SELECT node.id, node.name FROM nodes_mainterm AS term JOIN nodes_node AS node ON node.id = term.main_id
             WHERE term.scope = 'cluster' AND NOT term.resigned AND node.status = 'running'
            """
        )
        for row in found:
            for node in self.nodes:
                if node.name == row.name and node.is_up:
                    return node, str(row.id)
        return None, None

    def next_main(self):
        """Return the node that succeeds the main manager: the oldest other manager. None while it is unknown."""
        found = self.rows(
            """
            SELECT node.name FROM nodes_mainterm AS term
              JOIN nodes_node AS node ON node.scope = term.scope AND node.id <> term.main_id
             WHERE term.scope = 'cluster' AND NOT term.resigned AND node.kind = 'manager' AND node.status = 'running'
             ORDER BY node.started_at, node.id LIMIT 1
            """
        )
        return next((node for row in found for node in self.nodes if node.name == row.name and node.is_up), None)

    def is_whole(self):
        """True if all nodes are members and there is a main manager."""
        running = {row.name for row in self.rows("SELECT name FROM nodes_node WHERE status = 'running'")}
        return all(node.name in running for node in self.nodes) and self.main()[0] is not None

    # --- Crawling --------------------------------------------------------------------------------

    def begin_crawl(
        self, *, hosts=3, gap=None, open_requests=None, pages=None, slow=_SLOW_PAGES, starts=True, **options
    ):
        """Start a new site, a policy with limits, an output, and a job, which `starts` immediately."""
        number = len(self.crawls) + 1
        gap = self.rng.choice([0.15, 0.2, 0.25]) if gap is None else gap
        open_requests = open_requests or self.rng.choice([1, 2, 3])
        arrivals, ends = (self.directory / f"site-{number}.{name}" for name in ("log", "ends"))
        stack = ExitStack()
        site = stack.enter_context(
            serve_site(
                arrivals, pages=pages or self.pages, hosts=hosts, seed=self.rng.randrange(10**6), ends=ends,
                latency_ms=40, slow=slow, **options,
            )
        )  # fmt: skip
        output = self.directory / f"pages-{number}.jsonl"

        def make():
            return make_job(
                f"site {number}",
                urls=[site.start_url],
                policy=make_policy(f"of site {number}", open_requests=open_requests, min_gap=gap),
                output=make_output(output),
                specification={"scope": "any"},
            ).pk

        crawl = Crawl(number, site, arrivals, ends, output, self.in_database(make), gap, open_requests, stack)
        self.crawls.append(crawl)
        if starts:
            self.ask("start", crawl.job_id)
        return crawl

    def ask(self, verb, job_id):
        """Send an operator's request. Ignore a refusal."""
        with suppress(TransitionRefused):
            self.in_database(lambda: getattr(control, verb)(job_id, made_by="chaos", now=timezone.now()))

    def request_moves(self, rng):
        """Request the move of a group and a rebalance, as two administrators would. Ignore the results."""
        groups = self.rows("SELECT id FROM jobs_throttlegroup ORDER BY id")
        managers = self.rows(
            "SELECT id FROM nodes_node WHERE kind = 'manager' AND status = 'running' ORDER BY started_at"
        )
        if groups and managers:
            group, manager = rng.choice(groups).id, rng.choice(managers).id
            self._request_in_thread(lambda now: move_group(group, to=manager, made_by="chaos", now=now))
        self._request_in_thread(lambda now: rebalance(made_by="chaos", now=now))

    def _request_in_thread(self, ask):
        """Send a request in a thread, because its answer may take long."""

        def work():
            with suppress(NotDone, OperationalError, InterfaceError):
                ask(timezone.now())
            django_connection.close()

        self._administrators.submit(work)

    def in_database(self, work):
        """Do work through Django's connection, and repeat it until the database answers and no lock blocks it."""
        while True:
            try:
                return work()
            except (OperationalError, InterfaceError):
                django_connection.close()
                time.sleep(0.1)
                # The holder of the lock may be frozen, and must be allowed to continue.
                self.meanwhile()

    def supervise(self):
        """Act as supervisor and operator: restart ended processes, and check the state of the jobs."""
        for node in self.nodes:
            node.restart_if_ended()
        if time.monotonic() - self._checked_at > 1:
            self._checked_at = time.monotonic()
            self._check_jobs()

    def _check_jobs(self):
        states = {row.id: row for row in self.rows("SELECT id, phase, pause, reason, run_no FROM jobs_job")}
        for crawl in self.crawls:
            state = states.get(crawl.job_id)
            if crawl.has_ended or state is None:
                continue
            # A scheduled job may start late, and needs its site until then.
            if state.phase == "inactive" and state.run_no and time.monotonic() > crawl.runs_until:
                self.end_crawl(crawl)
            elif state.pause == "paused" and crawl.job_id not in self.paused:
                self.manual_steps.append(f"resume job {crawl.job_id}, which was paused: {state.reason}")
                self.write_line(self.manual_steps[-1])
                self.ask("resume", crawl.job_id)
        if not self.is_closing:
            for _ in range(self.at_once - sum(not (crawl.has_ended or crawl.openings) for crawl in self.crawls)):
                self.begin_crawl()

    def end_crawl(self, crawl):
        crawl.has_ended = True
        crawl.stop_site.close()
        self.write_line(f"job {crawl.job_id} has ended")

    def has_finished(self):
        return all(crawl.has_ended for crawl in self.crawls)

    def end(self):
        self._administrators.shutdown(cancel_futures=True)
        for node in self.nodes:
            node.end()
        for crawl in self.crawls:
            if not crawl.has_ended:
                crawl.stop_site.close()
        django_connection.close()
