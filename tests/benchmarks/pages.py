"""
Measures the cost of 50 open live pages during a crawl: `python -m tests.benchmarks.pages`.

A manager, a worker and the web server, as daemons, crawl a synthetic site as fast as they can. Meanwhile web sockets
follow live pages of each kind, and read what they are sent. The report shows the web server's share of the CPU of the
run, which is the CPU of daemons and PostgreSQL without that of the site. It also shows the server's time for the
overview, the page of a job, the page of hosts, and lists of the set-up pages. The job of these pages has 100,000 hosts
with 10,000,000 documents. (Tests prove that no page reads more documents or counts than it shows.) The exit code is
non-zero above the limits.
"""

import argparse
import asyncio
import contextlib
import http.client
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import aiohttp
import django
import psutil
import psycopg

from tests.benchmarks import databases
from tests.benchmarks.daemons import running_daemons
from tests.benchmarks.databases import ROOT
from tests.benchmarks.meter import cpu_seconds_of_tree
from tests.benchmarks.runs import Site, running_site
from tests.support.waiting import wait_until

_MOST_SHARE: Final = 0.02
_MOST_SECONDS: Final = 0.1
_BINS: Final = 100_000
_PORT: Final = 8391
# Statements that remove the data of the previous crawl.
_EMPTY: Final = """
TRUNCATE jobs_job, jobs_bin, jobs_queueitem, jobs_outlinks, jobs_indexeddocument, jobs_batch, jobs_turn, jobs_counter, jobs_counterdelta,
         jobs_jobcounter, jobs_throttlepolicy, jobs_repositoryconnection, jobs_outputconnection, nodes_node CASCADE
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pages", description="Measure what live pages cost beside a crawl.")
    parser.add_argument("--pages", type=int, default=20_000, help="pages of the site (%(default)s)")
    parser.add_argument("--open", type=int, default=50, help="live pages that are open (%(default)s)")
    parser.add_argument("--documents", type=int, default=10_000_000, help="in 100,000 hosts of one job (%(default)s)")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="pages-", dir=home) as name,
        databases.embedded(Path(name)) as database,
    ):
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        with (
            running_site(pages=options.pages, directory=Path(name)) as site,
            running_daemons(database.environment, "runmanager", "runworker") as daemons,
            _web_server(database.environment) as web,
        ):
            crawling = [*(psutil.Process(daemon.pid) for daemon in daemons), database.server]
            share = _measure_share(site, web, crawling, count=options.open)
        # No daemons run, because they would start to crawl the data that follows.
        seconds = _measure_pages(database.address, documents=options.documents)
    return 0 if share <= _MOST_SHARE and seconds <= _MOST_SECONDS else 1


@contextlib.contextmanager
def _web_server(environment: Mapping[str, str]) -> Iterator[psutil.Process]:
    """Run the web server, and yield it once it answers."""
    command = [sys.executable, "manage.py", "serve", "--port", str(_PORT)]
    environment = {"CRAWLCTL_LOG_LEVEL": "ERROR", **environment}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as server:
        try:
            wait_until(_answers)
            yield psutil.Process(server.pid)
        finally:
            server.terminate()


def _answers() -> bool:
    asked = http.client.HTTPConnection("127.0.0.1", _PORT, timeout=5)
    try:
        asked.request("GET", "/login/")
        return asked.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        asked.close()


def _measure_share(site: Site, web: psutil.Process, crawling: Sequence[psutil.Process], *, count: int) -> float:
    from django.db import connection
    from django.utils import timezone

    from jobs.models import Job
    from jobs.verbs import control
    from tests.support.factories import make_job, make_policy

    job = make_job("a site", urls=[site.start_url], policy=make_policy(open_requests=8), specification={"scope": "any"})
    sessions = _log_in(count)
    topics = ["overview", f"job-{job.pk}", "hosts", "nodes", "cluster"]
    try:
        before = [cpu_seconds_of_tree(process) for process in (web, *crawling)]
        control.start(job.pk, made_by="a benchmark", now=timezone.now())
        frames = asyncio.run(_follow(sessions, topics, until=lambda: Job.objects.get(pk=job.pk).phase == "inactive"))
        spent = [cpu_seconds_of_tree(process) - was for process, was in zip((web, *crawling), before, strict=True)]
    finally:
        connection.close()
    share = spent[0] / sum(spent)
    sys.stdout.write(
        f"web process with {count} open live pages: {100 * share:.1f} % of all CPU of a run (at most {100 * _MOST_SHARE:g} %); "
        f"{spent[0]:.1f} of {sum(spent):.1f} CPU seconds, {frames} frames\n"
    )
    return share


def _log_in(count: int) -> list[str]:
    """Return the sessions of `count` users, one of each."""
    from django.test import Client

    from tests.support.api import make_user

    sessions = []
    for number in range(count):
        client = Client()
        client.force_login(make_user("viewer", name=f"viewer {number}"))
        sessions.append(client.cookies["sessionid"].value)
    return sessions


async def _follow(sessions: Sequence[str], topics: Sequence[str], *, until: Callable[[], bool]) -> int:
    """
    Hold a page of these topics open for each session, in turns, until the condition holds. Return the number of frames.
    """
    reading: list[asyncio.Task[int]] = []
    async with aiohttp.ClientSession() as session:
        try:
            for number, key in enumerate(sessions):
                topic = topics[number % len(topics)]
                reading.append(asyncio.create_task(_read(session, key, topic)))
            while not await asyncio.to_thread(until):
                ended = [task for task in reading if task.done()]
                if ended:
                    raise RuntimeError(f"a live page was closed: {ended[0].exception()}")
                await asyncio.sleep(0.25)
        finally:
            for task in reading:
                task.cancel()
        return sum(await asyncio.gather(*reading))


async def _read(session: aiohttp.ClientSession, key: str, topic: str) -> int:
    """Read a page's frames until the task is cancelled, and return their number."""
    frames = 0
    address = f"http://127.0.0.1:{_PORT}"
    headers = {"Cookie": f"sessionid={key}", "Origin": address}
    async with session.ws_connect(f"{address}/live/", headers=headers) as socket:
        await socket.send_json({"type": "follow", "topic": topic, "visible": True})
        with contextlib.suppress(asyncio.CancelledError):
            async for _message in socket:
                frames += 1
            raise RuntimeError(f"{topic}: {socket.close_code}")
    return frames


def _measure_pages(database: str, *, documents: int) -> float:
    """Return the longest of the median times that the server takes for a page, with very many hosts of a job."""
    from django.db import connection
    from django.test import Client

    from jobs.models import Job
    from tests.support.api import make_user
    from tests.support.filled_queue import FilledQueue, Shape

    try:
        with psycopg.connect(database, autocommit=True) as filling:
            filling.execute(_EMPTY)
            FilledQueue(filling, documents=documents, shape=Shape(bins=_BINS, jobs=1))
        client = Client(HTTP_HOST="127.0.0.1")
        client.force_login(make_user("administrator"))
        job = Job.objects.get()
        of_job = f"/jobs/{job.pk}/"
        addresses = ["/", of_job, "/hosts/", "/hosts/?name=h77", "/hosts/?state=all", "/hosts/?state=all&after=70000"]
        lists = ("queueitem", "seed", "throttlegroup", "jobevent")
        addresses += [f"/admin/jobs/{name}/" for name in lists]
        addresses += [f"/admin/jobs/queueitem/?q={text}" for text in ("http://h77.example/*", "nothing")]
        taken: dict[str, list[float]] = {address: [] for address in addresses}
        for address in addresses * 7:
            began = time.monotonic()
            assert client.get(address).status_code == http.HTTPStatus.OK
            taken[address].append(time.monotonic() - began)
    finally:
        connection.close()
    # The first read of each page also loads its templates.
    medians = {address: statistics.median(seconds[1:]) for address, seconds in taken.items()}
    for address, seconds in medians.items():
        sys.stdout.write(
            f"{address.replace(of_job, '/jobs/N/')} with {documents:,} documents in {_BINS:,} hosts: {1000 * seconds:.0f} ms of server time"
            f" (at most {1000 * _MOST_SECONDS:.0f} ms)\n"
        )
    return max(medians.values())


if __name__ == "__main__":
    sys.exit(main())
