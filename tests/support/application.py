"""
An application with distributed jobs in its own process, which obeys a test and reports its runs.

`python -m tests.support.application NUMBER` is the fork server, which has imported everything. It forks an application
for each line that it receives on the socket of that number, so an application costs little more than its fork. Each
report carries its moment by the machine's clock, and reports arrive in the order of these moments.
"""

import datetime as dt
import itertools
import logging
import math
import os
import signal
import socket
import sys
import threading
import time
from multiprocessing.connection import Connection
from types import SimpleNamespace

from nodes.distributed import DistributedJob, Schedule
from nodes.distributed.engine.counting import CountingObserver, show_standing
from nodes.distributed.engine.metrics import METRICS, metrics_of_jobs
from nodes.metrics.prometheus import registry_of, render
from tests.support import behaviour

__all__ = ["Application", "behaviour"]

# Seconds between the checks of a long run that its items are still its own.
_CHECK_INTERVAL = 0.05


class Recorded(DistributedJob):
    """
    A job that reports its runs. A test can change its `answers`.

    A run lasts `takes`. If it must stop earlier, it goes on for `lingers`. If `obeys` is False, it ignores the request
    to stop.
    """

    def __init__(self, job_id, answers, tell):
        self._job_id, self._tell = job_id, tell
        self.answers = SimpleNamespace(**answers)
        self._numbers = itertools.count(1)

    @property
    def job_id(self):
        return self._job_id

    def schedule(self):
        every = self.answers.every
        return every if isinstance(every, Schedule) else Schedule.by_delay(every)

    def initial_delay(self):
        return self.answers.first

    def work_pool(self):
        if isinstance(self.answers.items, Exception):
            raise self.answers.items
        return self.answers.items

    def pool_check_period(self):
        return self.answers.check

    def running_strategy(self):
        return self.answers.running

    def run(self, context):
        run_no = next(self._numbers)
        self._tell("begun", self._job_id, run_no, context.work_share)
        certain_at = time.monotonic() if context.remaining() else -math.inf
        try:
            if self.answers.takes:
                context.add_shutdown_listener(lambda: self._tell("should_stop", self._job_id))
                certain_at = self._pass_time(context, certain_at)
            if self.answers.fails(run_no):
                raise RuntimeError("the mails are not there")
        finally:
            self._tell("ended", self._job_id, run_no, certain_at)

    def _pass_time(self, context, certain_at):
        """
        Simulate work. Return the last moment at which the lease certainly kept all other nodes from running the items.
        """
        until = time.monotonic() + self.answers.takes.total_seconds()
        while (now := time.monotonic()) < until:
            if context.remaining():
                certain_at = now
            pause = min(_CHECK_INTERVAL, until - now)
            if not self.answers.obeys:
                time.sleep(pause)
            elif context.wait(dt.timedelta(seconds=pause)):
                time.sleep(self.answers.lingers.total_seconds())
                break
        return certain_at


class Application:
    """The commands of a test to its application. Each gets exactly one answer."""

    def __init__(self, connection):
        self._connection = connection
        self._lock = threading.Lock()
        self._node = ""
        # By name: parts that a test can change while the application works.
        self._parts = {}

    def tell(self, what, *facts):
        with self._lock:
            self._connection.send((time.monotonic(), what, *facts))

    def live(self):
        """Obey commands until `leave`."""
        _let_log(self.tell)
        self.tell("answered", os.getpid())
        while True:
            verb, *facts = self._connection.recv()
            try:
                self.tell("answered", getattr(self, verb)(*facts))
            except Exception as error:  # noqa: BLE001  # reported to the test
                # As type and text, because some exceptions cannot be created again from a pickle.
                self.tell("refused", type(error), str(error))
            if verb == "leave":
                return

    def start(self, manager_of, node, jobs, counts, facts):
        """Start a manager as users do. Each of `jobs` is an id with its answers."""
        recorded = [Recorded(job_id, answers, self.tell) for job_id, answers in jobs]
        observers = [CountingObserver(node)] if counts else []
        self._parts = {job.job_id: job.answers for job in recorded}
        self._parts["strategy"] = facts.get("strategy")
        self._parts["manager"] = manager = manager_of(node, recorded, observers=observers, **facts)
        if counts:
            show_standing(manager)
        manager.start()

    def change(self, part, name, value):
        setattr(self._parts[part], name, value)

    def call(self, name):
        return getattr(self._parts["manager"], name)()

    def metrics(self):
        return render(registry_of(METRICS, more=metrics_of_jobs))[0].decode()

    def confirm_reports(self):
        """Do nothing. The test waits for the answer, which arrives after all earlier reports."""

    def leave(self):
        """Let the process end in Python's usual way, without a kill."""


class _Telling(logging.Handler):
    def __init__(self, tell):
        super().__init__(logging.INFO)
        self._tell = tell

    def emit(self, record):
        self._tell("logged", record.name, record.levelno, self.format(record))


def _let_log(tell):
    root = logging.getLogger()
    root.addHandler(_Telling(tell))
    root.setLevel(logging.INFO)


def _live(connection):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        Application(connection).live()
    except (EOFError, OSError):
        # The test no longer exists, so a report has no reader.
        os._exit(1)


def _serve(line):
    # The kernel removes children that ended; this process does not wait for them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        asked, (*handed,), _flags, _address = socket.recv_fds(line, 1, 1)
        if not asked:
            return
        if os.fork() == 0:
            line.close()
            _live(Connection(*handed))
            return
        os.close(*handed)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
