"""
The processes of a demo or a drill: the synthetic site, managers, workers and the web server, under one supervisor.

Workers and the web server stop first, while the site still answers open requests. The site stops last.
"""

import json
import socket
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from django.conf import settings

from crawlctl.demo.plan import SitePlan
from crawlctl.processes import services
from crawlctl.processes.supervisor import Service, Supervisor
from jobs.settings.table import DRAIN_TIMEOUT
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.settings.running import current

_SEED: Final = 1
_SITE: Final = "synthetic-site"
_SITE_STARTS_WITHIN: Final = 30.0
# Time that a worker gets for draining, beyond its own limit (seconds).
_STOPS_WITHIN: Final = 2.0

# The site is on this machine: the proxies of the environment are not used.
_direct: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class DemoCluster:
    """The processes of one demo or drill. `directory` holds their logs and the site's log, and nothing else uses it."""

    supervisor: Supervisor
    directory: Path

    @property
    def site_log(self) -> Path:
        return self.directory / "site.log"

    def start_site(self, *, pages: int, hosts: int) -> SitePlan:
        """
        Start the site on free ports, and return its plan.

        Raises:
            ServiceEnded: the site cannot start.
            OSError: the directory cannot be written.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        for old in self.directory.glob("*.log"):
            old.unlink()
        arguments = {"pages": pages, "hosts": hosts, "seed": _SEED, "port": 0, "log": self.site_log}
        self.supervisor.start(
            Service(
                name=_SITE,
                command=(
                    *(sys.executable, "-m", "crawlctl.demo.site", "--attached"),
                    *(f"--{name}={value}" for name, value in arguments.items()),
                ),
                directory=Path(settings.BASE_DIR),
                log=self._log_of(_SITE),
                announces=True,
                # A restarted site would forget which pages it had failed, and would start its log again.
                restarts=False,
            )
        )
        started = json.loads(self.supervisor.announcement(_SITE, within=_SITE_STARTS_WITHIN))
        return SitePlan(seed=_SEED, pages=pages, origins=tuple(started["origins"]))

    def start_nodes(
        self,
        *,
        managers: int,
        workers: int,
        scope: str = CLUSTER_SCOPE,
        partition: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """
        Start nodes in a separate scope or in the scope of the cluster, or in the environment of another partition.
        """
        suffix = f"-{partition}" if partition else ""
        for kind, start, number_of_them in (
            ("manager", services.manager, managers),
            ("worker", services.worker, workers),
        ):
            self.supervisor.start(
                *(
                    replace(
                        start(number, scope=scope, log=self._log_of(f"{kind}{suffix}-{number}")),
                        environment=environment,
                    )
                    for number in range(1, number_of_them + 1)
                )
            )

    def start_task_worker(self, *, partition: str = "", environment: Mapping[str, str] | None = None) -> None:
        """Start a worker of background tasks, or one in another partition's environment."""
        suffix = f"-{partition}" if partition else ""
        worker = services.task_worker(1, log=self._log_of(f"task-worker{suffix}-1"))
        self.supervisor.start(replace(worker, environment=environment))

    def start_web_server(self, listener: socket.socket) -> None:
        """Start the web server behind the socket."""
        self.supervisor.start(services.web_server(listener, log=self._log_of("web-server")))

    def complete_log(self, plan: SitePlan) -> None:
        """Flush all answers so far into the site's log."""
        with _direct.open(f"{plan.origins[0]}/-/flush", timeout=_SITE_STARTS_WITHIN) as answer:
            answer.read()

    def stop(self) -> None:
        self.supervisor.stop(within=current()[DRAIN_TIMEOUT].total_seconds() + _STOPS_WITHIN)

    def _log_of(self, name: str) -> Path:
        return self.directory / f"{name}.log"
