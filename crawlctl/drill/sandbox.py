"""
A sandbox for drills: two managers and two workers in a separate scope, which crawl a synthetic site at a set pace.

Everything is as on the cluster: the same database, the same settings, processes of the same commands. Nodes of the
cluster do not see the sandbox, because they read their own scope only.
"""

import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
from django.conf import settings

from crawlctl.demo.cluster import DemoCluster
from crawlctl.demo.job import create_job_of_site
from crawlctl.demo.log import read_log
from crawlctl.demo.plan import SitePlan
from crawlctl.drill.observation import Request
from crawlctl.processes.supervisor import Supervisor
from jobs.duties.housekeep import forget_scope
from jobs.models import Job
from jobs.state.transitions import TransitionRefused
from jobs.verbs import control
from nodes.database.clock import read_clock
from nodes.errors import Unknown
from nodes.lifecycle import CLUSTER_SCOPE, NodeKind, NodeStatus
from nodes.models import Node

_MADE_BY: Final = "drill"
_PAGES: Final = 20_000
_HOSTS: Final = 4
# Seconds between two requests to a host: a drill measures its pace against this gap.
GAP: Final = 0.1
_OPEN_REQUESTS: Final = 4
_NODES: Final = 2
_READY_WITHIN: Final = 60.0
# Number of requests after which the crawl has reached its full pace.
_IN_SWING: Final = 60
_ENDS_WITHIN: Final = 30.0
_TICK: Final = 0.1


class SandboxFailed(Exception):
    """The sandbox did not become ready. The message names the missing event, and the logs to read."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    scope: str
    cluster: DemoCluster
    plan: SitePlan

    def requests(self) -> Iterator[Request]:
        """Yield the requests that the site saw so far."""
        self.cluster.complete_log(self.plan)
        for line in read_log(self.cluster.site_log):
            is_page = line.status == 200 and not line.path.endswith("/robots.txt")
            yield Request(at=line.time / 1e9, host=line.host, address=line.url, is_page=is_page)


@contextmanager
def sandbox(connection: psycopg.Connection[Any], *, write_line: Callable[[str], None]) -> Iterator[Sandbox]:
    """
    Provide a sandbox whose crawl runs at full pace. Remove it at the end, except for the history of its nodes.

    Raises:
        SandboxFailed
    """
    name = uuid.uuid4()
    scope = f"drill:{name}"
    supervisor = Supervisor(write_line=write_line)
    cluster = DemoCluster(supervisor, Path(settings.VAR_DIR).absolute() / "drills" / str(name))
    try:
        plan = cluster.start_site(pages=_PAGES, hosts=_HOSTS)
        cluster.start_nodes(managers=_NODES, workers=_NODES, scope=scope)
        now = read_clock()
        job = create_job_of_site(
            plan,
            name=f"drill {now:%Y-%m-%d %H:%M:%S.%f}",
            output="null",
            open_requests=_OPEN_REQUESTS,
            gap=GAP,
            scope=scope,
            made_by=_MADE_BY,
            now=now,
        )
        box = Sandbox(scope, cluster, plan)
        _wait(lambda: _have_started(scope), saying="its nodes work", cluster=cluster)
        control.start(job.pk, made_by=_MADE_BY, now=read_clock())
        _wait(lambda: sum(1 for _ in box.requests()) > _IN_SWING, saying="its crawl goes on", cluster=cluster)
        yield box
    finally:
        _delete_jobs(scope)
        cluster.stop()
        # The nodes of the cluster complete the work that the nodes of the sandbox left.
        Job.objects.filter(node_scope=scope).update(node_scope=CLUSTER_SCOPE)
        forget_scope(connection, scope=scope)
    # After an exception the logs of the sandbox's processes are kept.
    shutil.rmtree(cluster.directory)


def _have_started(scope: str) -> bool:
    running = Node.objects.filter(scope=scope, status=NodeStatus.RUNNING).values_list("kind", flat=True)
    return sorted(running) == sorted([NodeKind.MANAGER, NodeKind.WORKER] * _NODES)


def _delete_jobs(scope: str) -> None:
    """Abort and delete the sandbox's jobs, through its remaining nodes. Give up when the time is over."""
    ends_at = time.monotonic() + _ENDS_WITHIN
    while time.monotonic() < ends_at and (job := Job.objects.filter(node_scope=scope).first()):
        for verb in (control.delete, control.abort):
            with suppress(TransitionRefused, Unknown):
                verb(job.pk, made_by=_MADE_BY, now=read_clock())
                break
        time.sleep(_TICK)


def _wait(holds: Callable[[], bool], *, saying: str, cluster: DemoCluster) -> None:
    ends_at = time.monotonic() + _READY_WITHIN
    while not holds():
        if time.monotonic() > ends_at:
            raise SandboxFailed(f"This has not happened after {_READY_WITHIN:g} s: {saying}. See {cluster.directory}.")
        time.sleep(_TICK)
