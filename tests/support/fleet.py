"""
Applications with distributed jobs, and a ledger of their runs. Each application is a process with its own connection
to the store, which a test can cut.

The ledger is the evidence: it is written from the reports of the runs, and knows nothing of stores, locks or shares.
Moments are of the machine's clock, which all processes have in common.
"""

import contextlib
import datetime as dt
import logging
import math
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from nodes.distributed import Tuning, one_thread
from tests.support.behaviour import never
from tests.support.freezing import freeze

# Timeout of each node: longer than in tests of nodes alone, because many threads of a busy machine work here.
TIMEOUT = dt.timedelta(seconds=3)
OFTEN = dt.timedelta(seconds=0.1)
# Seconds after which a missing answer, or a missing end, is a failure.
PATIENCE = 60.0

_NOTHING = dt.timedelta()
_ROOT = Path(__file__).resolve().parents[2]


# --- Runs ----------------------------------------------------------------------------------------


@dataclass(eq=False)
class Run:
    """
    A run, by its own reports. A run that did not report its end ended with its process, at the latest when that was
    killed.
    """

    node: str
    job: str
    items: frozenset
    began_at: float
    ended_at: float | None = None
    has_died: bool = False
    # For a run that has not ended: the moment of the last report of its process.
    heard_at: float = -math.inf

    @property
    def until(self):
        """Return the last moment at which the run certainly held its items."""
        return self.heard_at if self.ended_at is None else self.ended_at


def conflicts_in(runs):
    """Return items that two runs held at the same time: (job, item, one run, the other run)."""
    found, last = [], {}
    for run in sorted((run for run in runs if run.until >= run.began_at), key=lambda run: run.began_at):
        for item in run.items:
            before = last.get((run.job, item))
            if before is not None and before.until > run.began_at:
                found.append((run.job, item, before, run))
            if before is None or before.until < run.until:
                last[run.job, item] = run
    return found


class Ledger:
    """The runs of all applications."""

    def __init__(self):
        self._lock = threading.Lock()
        self._runs = []

    def add(self, run):
        with self._lock:
            self._runs.append(run)

    def runs_of(self, job=None, *, node=None, since=0.0):
        """Return the runs that began since a moment."""
        with self._lock:
            return [
                run
                for run in self._runs
                if run.began_at >= since and job in (None, run.job) and node in (None, run.node)
            ]

    def shares(self, job, *, since):
        """Return by node the items of the runs that the node began since a moment."""
        found = defaultdict(set)
        for run in self.runs_of(job, since=since):
            found[run.node] |= run.items
        return dict(found)

    def items(self, job=None, *, since=0.0):
        return {(run.job, item) for run in self.runs_of(job, since=since) for item in run.items}


# --- Applications --------------------------------------------------------------------------------


class ApplicationForkServer:
    """The process that forks the applications. `log` has their output, which is empty unless they fail."""

    def __init__(self, directory):
        self.log = directory / "applications.log"
        self._line, theirs = socket.socketpair()
        number = theirs.fileno()
        with theirs, self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.application", str(number)],
                cwd=_ROOT,
                pass_fds=[number],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def start_application(self):
        """Start an application, and return our end of the connection to it."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._line, [b"+"], [theirs.fileno()])
        return Connection(ours.detach())

    def end(self):
        self._line.close()
        assert self._process.wait(PATIENCE) == 0, self.log.read_text()[-3000:]


class Job:
    """A job as a test defines it. A change takes effect immediately while the job runs."""

    def __init__(self, job_id, items=("singleton",), **answers):
        usual = {
            "every": OFTEN, "first": _NOTHING, "check": _NOTHING, "takes": _NOTHING, "lingers": _NOTHING,
            "running": one_thread, "fails": never, "obeys": True,
        }  # fmt: skip
        assert not answers.keys() - usual.keys()
        # Direct assignment would notify the process.
        vars(self).update(job_id=job_id, answers={**usual, "items": items, **answers}, told_to_stop_at=[], at=None)

    def __setattr__(self, name, value):
        assert name in self.answers
        self.answers[name] = value
        if self.at is not None:
            self.at.change(self.job_id, name, value)

    def goes_to(self, instance):
        vars(self)["at"] = instance


class _Part:
    """A part of an application. A test can set its attributes."""

    def __init__(self, instance, name):
        vars(self).update(instance=instance, name=name)

    def __setattr__(self, name, value):
        self.instance.change(self.name, name, value)


class Instance:
    """A process with a manager of distributed jobs. Its log records are logged here."""

    def __init__(self, name, ledger, fork_server):
        self.name = name
        self._ledger, self._fork_server = ledger, fork_server
        self._connection = fork_server.start_application()
        self._asking = threading.Lock()
        self._answers = queue.SimpleQueue()
        self._jobs = {}
        # Runs that have begun, by job and number.
        self._runs_in_progress = {}
        self._killed_at = None
        self.is_frozen = self._was_frozen = False
        self._ended = threading.Event()
        threading.Thread(target=self._listen, name=f"test's end of {name}", daemon=True).start()
        self.pid = self._answer()
        self._process = os.pidfd_open(self.pid)

    def start(self, manager_of, *jobs, counts=False, **facts):
        """
        Start a manager with these jobs, and return when it works. `manager_of` makes the manager from the name of the
        instance.
        """
        for job in jobs:
            job.goes_to(self)
        self._jobs = {job.job_id: job for job in jobs}
        self._ask("start", manager_of, self.name, [(job.job_id, job.answers) for job in jobs], counts, facts)

    @property
    def has_ended(self):
        return self._ended.is_set()

    # --- Requests to the manager -----------------------------------------------------------------

    def change(self, part, name, value):
        self._ask("change", part, name, value)

    def status(self):
        return self._ask("call", "status")

    def rebalance(self):
        self._ask("call", "rebalance")

    def close(self):
        """Close the manager. The process continues."""
        return self._ask("call", "close")

    def metrics(self):
        return self._ask("metrics")

    def confirm_reports(self):
        """Return after all its earlier reports are in the ledger."""
        self._ask("confirm_reports")

    @property
    def strategy(self):
        return _Part(self, "strategy")

    tuning = property(fset=lambda self, tuning: self.change("manager", "tuning", tuning))
    switches = property(fset=lambda self, switches: self.change("manager", "switches", switches))

    # --- The process -----------------------------------------------------------------------------

    def freeze(self):
        """Freeze the process."""
        self.is_frozen = self._was_frozen = True
        freeze(self.pid)

    def thaw(self):
        self.is_frozen = False
        signal.pidfd_send_signal(self._process, signal.SIGCONT)

    def kill(self):
        """Kill the process."""
        self._killed_at = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._process, signal.SIGKILL)
        self._see_end()

    def leave(self):
        """Let the process end by itself after its manager was closed."""
        self._ask("leave")
        self._see_end()

    def _see_end(self):
        readable, _, _ = select.select([self._process], [], [], PATIENCE)
        assert readable, f"the process of {self.name} does not end"
        assert self._ended.wait(PATIENCE)
        os.close(self._process)
        self._connection.close()

    # --- The connection --------------------------------------------------------------------------

    def _ask(self, *words):
        with self._asking:
            with contextlib.suppress(OSError):
                self._connection.send(words)
            return self._answer()

    def _answer(self):
        try:
            is_good, *content = self._answers.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(f"{self.name} does not answer") from None
        if is_good:
            return content[0]
        kind, sentence = content
        raise kind.__new__(kind, sentence)

    def _listen(self):
        with contextlib.suppress(EOFError, OSError):
            while True:
                at, what, *facts = self._connection.recv()
                for run in self._runs_in_progress.values():
                    run.heard_at = at
                getattr(self, f"_hears_of_{what}")(at, *facts)
        ended_at = time.monotonic() if self._killed_at is None else self._killed_at
        for run in self._runs_in_progress.values():
            run.ended_at, run.has_died = ended_at, True
        self._ended.set()
        log = self._fork_server.log.read_text()[-3000:]
        self._answers.put((False, AssertionError, f"the process of {self.name} is dead; logs of its processes: {log}"))

    def _hears_of_answered(self, _at, answer):
        self._answers.put((True, answer))

    def _hears_of_refused(self, _at, kind, sentence):
        self._answers.put((False, kind, sentence))

    def _hears_of_begun(self, at, job, run_no, items):
        run = Run(self.name, job, items, began_at=at, heard_at=at)
        self._runs_in_progress[job, run_no] = run
        self._ledger.add(run)

    def _hears_of_ended(self, at, job, run_no, certain_at):
        run = self._runs_in_progress.pop((job, run_no))
        # A frozen run may have woken when another node had its items. So a run checks its lease before it does
        # anything.
        run.ended_at = certain_at if self._was_frozen else at

    def _hears_of_should_stop(self, at, job):
        self._jobs[job].told_to_stop_at.append(at)

    def _hears_of_logged(self, _at, name, level, text):
        logging.getLogger(name).log(level, text)


class Fleet:
    """Applications of one cluster by name. Those in `instances` must be alive."""

    def __init__(self, bench, fork_server):
        self.bench = bench
        self.ledger = Ledger()
        self.instances = {}
        self._fork_server = fork_server

    def job(self, job_id, items=("singleton",), **answers):
        return Job(job_id, items, **answers)

    def start(self, name, *jobs, timeout=TIMEOUT, **facts):
        """Start an application with its own jobs, and wait until it works."""
        facts.setdefault("tuning", Tuning(stop_within=dt.timedelta(seconds=10)))
        instance = self.instances[name] = Instance(name, self.ledger, self._fork_server)
        instance.start(self.bench.manager_of(name), *jobs, timeout=timeout, **facts)
        return instance

    def close(self, name):
        """Close a manager, and let its process end."""
        instance = self.instances.pop(name)
        try:
            assert instance.close()
            instance.leave()
        except BaseException:
            instance.kill()
            raise

    def kill(self, name):
        self.instances.pop(name).kill()

    def conflicts(self):
        """Return items that two runs held at the same time, by the reports that have arrived."""
        for instance in self.instances.values():
            if not instance.is_frozen:
                instance.confirm_reports()
        return conflicts_in(self.ledger.runs_of())

    def proxy_of(self, name):
        """Return the proxy between an application and the store."""
        return self.bench.proxy_of(name)

    def later(self, seconds, what):
        """Call a function after a delay, and return the thread that will call it."""
        timer = threading.Timer(seconds, what)
        timer.start()
        return timer

    def watcher(self):
        """Return a node's connection to the store of the cluster. It belongs to no instance."""
        return self.bench.node("watcher", timeout=TIMEOUT)

    def end(self):
        """Kill all processes. Assert that none of them ended before by itself."""
        dead = [name for name, instance in self.instances.items() if instance.has_ended]
        for instance in self.instances.values():
            instance.kill()
        assert not dead, (
            f"processes ended by themselves: {', '.join(dead)}; {self._fork_server.log.read_text()[-3000:]}"
        )
