"""
Real processes for acceptance tests: the synthetic site, crawls and daemons, on a separate database.

Results are read from the site's own log, from the output files and from the database. The site's plan gives the
expected results. No helper waits for a fixed time: `wait_for` polls.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit
from uuid import uuid4

import psutil
import psycopg
from django.db import connection as django_connection
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import namedtuple_row

from crawlctl.demo.expectation import compare, expect_first_crawl
from crawlctl.demo.log import read_log
from crawlctl.demo.plan import Revision, SitePlan, Trap
from nodes.database.address import database_dsn
from tests.support import forking, waiting
from tests.support.forking import ROOT
from tests.support.lifetimes import ENDS_WITH_PYTEST

# Longest wait for a condition (seconds). Generous for busy machines: a condition that holds ends the wait immediately.
PATIENCE = 60.0
# Settings of processes whose connections may name any file.
ANYWHERE = {"CRAWLCTL_OUTPUT_ROOT": "/", "CRAWLCTL_FILE_ROOTS": "/"}
# Settings of processes with a short node timeout, so that a test of a silent node need not wait long.
QUICK_HEARTBEATS = {"CRAWLCTL_HEARTBEAT_INTERVAL": "0.5", "CRAWLCTL_NODE_TIMEOUT": "2"}


def skewed_by(hours):
    """Return the environment of a process whose wall clock is wrong by this many hours."""
    return {"PYTHONPATH": str(ROOT / "tests" / "support" / "skewed_clock"), "CLOCK_SKEW": str(hours * 3600)}


wait_for = waiting.wait_for


# --- Databases -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Database:
    """One database of the test server, for the processes of one test."""

    dsn: str

    @property
    def name(self):
        return conninfo_to_dict(self.dsn)["dbname"]

    @property
    def url(self):
        """Return the address in the form of DATABASE_URL."""
        facts = conninfo_to_dict(self.dsn)
        user, name = quote(facts.pop("user", ""), safe=""), quote(facts.pop("dbname"), safe="")
        return f"postgresql://{user}{'@' if user else ''}/{name}?{urlencode(facts)}"

    @property
    def environment(self):
        return {**ANYWHERE, **os.environ, "DATABASE_URL": self.url}

    def rows(self, query, *values):
        try:
            return _connection_to(self.dsn).execute(query, values).fetchall()
        except psycopg.OperationalError:
            # The server has ended the kept connection.
            forget_connection()
            return _connection_to(self.dsn).execute(query, values).fetchall()

    def value(self, query, *values):
        """Return the first column of the first row, or None without a row."""
        found = self.rows(query, *values)
        return found[0][0] if found else None

    def documents(self):
        """Return the number of documents by (stage, result code)."""
        rows = self.rows("SELECT stage, result_code, count(*) FROM jobs_queueitem GROUP BY 1, 2")
        return {(row.stage, row.result_code): row.count for row in rows}

    @contextmanager
    def as_django(self):
        """Let the ORM and the verbs of this process use this database."""
        before = django_connection.settings_dict["NAME"]
        django_connection.close()
        django_connection.settings_dict["NAME"] = self.name
        try:
            yield
        finally:
            django_connection.close()
            django_connection.settings_dict["NAME"] = before


# The connection to the database that `Database.rows` has read last. Conditions are polled fifty times a second, and a
# new connection costs ten times as much as its query.
_kept = {}


def _connection_to(dsn):
    if dsn not in _kept:
        forget_connection()
        _kept[dsn] = psycopg.connect(dsn, autocommit=True, row_factory=namedtuple_row, prepare_threshold=None)
    return _kept[dsn]


@atexit.register
def forget_connection():
    while _kept:
        _kept.popitem()[1].close()


def make_template():
    """
    Make a migrated database, which replaces the one of an earlier session. A copy of it takes a tenth of a second.
    """
    template = template_database()
    with psycopg.connect(template.dsn, dbname="postgres", autocommit=True) as connection:
        name = sql.Identifier(template.name)
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
        cwd=ROOT,
        env=template.environment,
        check=True,
        timeout=5 * PATIENCE,
    )


def template_database():
    return Database(make_conninfo(database_dsn(), dbname="test_template"))


@contextmanager
def copy_of(template):
    with new_database(template=template.name) as database:
        yield database


@contextmanager
def new_database(*, template="template1"):
    """Make a database of the test server, and drop it afterwards. It is empty without a template."""
    server = make_conninfo(database_dsn(), dbname="postgres")
    name = f"acceptance_{uuid4().hex[:12]}"
    forget_connection()
    # Copied files cost half as much as a copy by way of the log, because nothing here is written to the disk.
    copy = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(copy.format(sql.Identifier(name), sql.Identifier(template)))
        try:
            yield Database(make_conninfo(server, dbname=name))
        finally:
            forget_connection()
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


# --- The synthetic site --------------------------------------------------------------------------


class RunningSite:
    """A process of the synthetic site. `plan` is its present content."""

    def __init__(self, process, *, log, pages, seed, traps):
        self._process, self.log = process, log
        facts = json.loads(process.stdout.readline())
        self.plan = SitePlan(seed=seed, pages=pages, origins=tuple(facts["origins"]), traps=traps)

    @property
    def pid(self):
        return self._process.pid

    @property
    def start_url(self):
        return self.plan.start_url

    @property
    def documents(self):
        """Return the addresses that an up-to-date index of the site holds."""
        return self.plan.urls(self.plan.documents())

    @property
    def lines(self):
        """Return the present number of lines in the log: a mark for a later `requests(since=...)`."""
        return self._control("flush")["log_lines"]

    def requests(self, *, since=0):
        """Return the requests except those for robots.txt, in order, without the first `since` lines of the log."""
        self._control("flush")
        return [request for request in read_log(self.log, skip=since) if request.path != "/robots.txt"]

    def answers(self, *, since=0):
        """Return the number of answers by (status, URL)."""
        return Counter((request.status, request.url) for request in self.requests(since=since))

    def count_requests(self):
        """
        Return the number of lines in the log file, without a request to the site. For polling in the middle of a crawl.
        """
        with self.log.open("rb") as lines:
            return sum(1 for _ in lines)

    def revise(self, *, change=0, gone=0, broken=None):
        """Change the site, and return the changes."""
        number = len(self.plan.revisions) + 1
        plan = self.plan.at_revision(number, Revision(change=change, gone=gone, broken=broken))
        wanted = {"revision": number, "change": change, "gone": gone}
        self._control("set?" + urlencode(wanted | ({} if broken is None else {"broken": broken})))
        self.plan = plan
        return plan.changes[-1]

    def compare_first_crawl(self, indexed):
        self._control("flush")
        return compare(log=self.log, expectation=expect_first_crawl(self.plan), indexed_urls=indexed)

    @contextmanager
    def silent(self):
        """Freeze the site within the block, so that no request ends."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def stop(self):
        self._process.terminate()
        self._process.wait(PATIENCE)
        self._process.stdout.close()

    def _control(self, command):
        with urllib.request.urlopen(f"{self.plan.origins[0]}/-/{command}", timeout=PATIENCE) as response:
            return json.load(response)


@contextmanager
def serve_site(log, *, pages, hosts=1, seed=1, traps=2.0, **options):
    """Run the synthetic site. Further options are those of its command, such as `latency_ms=20`."""
    facts = {"pages": pages, "hosts": hosts, "seed": seed, "traps": traps, "log": log, **options}
    arguments = [word for name, value in facts.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    process = forking.start([sys.executable, "-m", "crawlctl.demo.site", *arguments], stdout=subprocess.PIPE)
    site = RunningSite(process, log=log, pages=pages, seed=seed, traps=traps)
    give_precedence(process.pid)
    try:
        yield site
    finally:
        site.stop()


def give_precedence(pid):
    """
    Give a site priority over all other processes, where that is permitted: its log measures the pace.

    Without it, a busy machine may read and log two well-spaced requests at one moment.
    """
    with suppress(PermissionError):
        os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))


def reachable(plan, *, start=0, most_links=None, allows=lambda _url: True):
    """
    Return the URLs that a crawl from a page requests if it follows allowed links.

    `most_links` is the length of the longest path. The target of a redirect is as far as the redirect.
    """
    seen, found, ring = {start}, {plan.url(start)}, {start}
    links = 0
    while ring and (most_links is None or links < most_links):
        links += 1
        following = set()
        for page in ring:
            outline = plan.outline(page)
            following |= {*plan.linked_children(page, outline), *outline.popular}
            for trap in outline.traps:
                url = plan.trap_url(page, trap)
                if allows(url) and trap is not Trap.PRIVATE:
                    found.add(url)
                    following |= {outline.redirect_target} if trap is Trap.REDIRECT else set()
        ring = {page for page in following - seen if allows(plan.url(page))}
        seen |= ring
        found |= plan.urls(ring)
    return found


# --- Processes -----------------------------------------------------------------------------------


class Command:
    """One `manage.py` process, with its output in files."""

    def __init__(self, database, directory, *arguments, is_forked=True, **environment):
        self.name = f"{arguments[0]}-{uuid4().hex[:6]}"
        self._out, self._err = directory / f"{self.name}.out", directory / f"{self.name}.err"
        words = [sys.executable, "manage.py", *arguments]
        facts = {"env": {**database.environment, **environment}, "start_new_session": True}
        with self._out.open("wb") as out, self._err.open("wb") as err:
            if not is_forked:
                facts |= {"cwd": ROOT, "stdin": subprocess.DEVNULL}
                self.process = subprocess.Popen([*ENDS_WITH_PYTEST, *words], stdout=out, stderr=err, **facts)
            else:
                self.process = forking.start(words, stdout=out, stderr=err, **facts)

    @property
    def pid(self):
        return self.process.pid

    @property
    def out(self):
        return self._out.read_text()

    @property
    def err(self):
        return self._err.read_text()

    @property
    def has_ended(self):
        return self.process.poll() is not None

    def send(self, number):
        self.process.send_signal(number)

    def wait(self, within=PATIENCE):
        """Wait for the end, and return the exit code."""
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self.name} has not ended within {within} s; its errors:\n{self.err[-3000:]}"
            ) from None

    def kill(self):
        """Kill the process with SIGKILL."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def children(self):
        """Return its worker processes."""
        with suppress(psutil.NoSuchProcess):
            found = psutil.Process(self.pid).children(recursive=True)
            return [child for child in found if "runworker" in child.cmdline()]
        return []

    def kill_with_children(self):
        """Kill the process and its children at the same time, like a crash of the machine."""
        everything = []
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            everything = [process]
            everything = [*process.children(recursive=True), process]
        # Some of these processes may end by themselves meanwhile.
        for process in everything:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        for process in everything:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait(PATIENCE)
        psutil.wait_procs(everything, timeout=PATIENCE)

    def clean_up(self):
        if not self.has_ended:
            self.send(signal.SIGCONT)
            self.kill_with_children()


@dataclass(frozen=True)
class Crawl:
    """The result of a `manage.py crawl`. `facts` is its last line, parsed as JSON."""

    code: int
    out: str
    err: str

    @cached_property
    def facts(self):
        return json.loads(self.out.splitlines()[-1])

    @property
    def counts(self):
        return self.facts["counts"]

    @property
    def codes(self):
        return self.facts["result_codes"]


@dataclass
class Machine:
    """The place of one test's processes: a directory, a database, and all started processes."""

    database: Database
    directory: Path
    _started: list[Command] = field(default_factory=list)

    def start(self, *arguments, **environment):
        """Start `manage.py` with these arguments. `is_forked=False` starts a new Python, for tests of the start."""
        command = Command(self.database, self.directory, *map(str, arguments), **environment)
        self._started.append(command)
        return command

    def start_crawl(self, *arguments, output=None, **environment):
        """Start a crawl of a loopback site, at full speed, into a file of JSON lines."""
        target = f"jsonl:{output}" if output else "null"
        usual = ("--allow-private-networks", "--connections-per-host", 8, "--output", target, "--json")
        return self.start("crawl", *usual, *arguments, **environment)

    def crawl(self, *arguments, output=None, **environment):
        """Crawl to the end."""
        return ended(self.start_crawl(*arguments, output=output, **environment))

    def clean_up(self):
        for command in self._started:
            command.clean_up()


def ended(crawl):
    """Wait for a crawl's end, and return its result."""
    code = crawl.wait()
    assert "Traceback" not in crawl.err, crawl.err
    return Crawl(code, crawl.out, crawl.err)


# --- Outputs -------------------------------------------------------------------------------------


def read_lines(path, *, since=0):
    """Return the JSON lines of an output file without the first `since`. Each must be complete."""
    text = path.read_text() if path.exists() else ""
    assert not text or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()[since:]]


def held_by(path):
    """Return the URLs that an output file holds. The last line of a URL decides."""
    last = {line["url"]: line["action"] for line in read_lines(path)}
    return {url for url, action in last.items() if action == "add"}


def assert_exact(report):
    assert report.is_exact, f"missing: {report.missing[:20]}, extra: {report.extra[:20]}"


def host_of(url):
    return urlsplit(url).netloc
