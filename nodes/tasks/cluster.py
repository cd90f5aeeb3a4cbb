"""
One worker of the roster: the processes of a django-q2 cluster with one process that executes.

django-q2 provides three processes and the queues between them: one executes, one feeds it, and one collects results.
The sentinel of django-q2 wakes up twice a second and restarts single processes. This sentinel sleeps until a process
ends or a signal comes. It then replaces all three processes with their queues, because a killed process may hold the
lock of a queue forever.
"""

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from queue import Full
from types import FrameType
from typing import Any, Final
from uuid import UUID

from django.db import connections
from django_q.cluster import Sentinel
from django_q.conf import Conf
from django_q.queues import Queue

from nodes.tasks import execution, roster
from nodes.tasks.broker import RETIRED, TaskBroker
from nodes.tasks.session import Session

logger = logging.getLogger(__name__)

_FORK: Final = multiprocessing.get_context("fork")
# Longest waits (seconds) for room in the queue of tasks, and for the end of a killed process.
_SHORT_WAIT: Final = 1.0
# First and longest pause (seconds) before ended processes are replaced. After processes that lived for less than
# `_LONG_LIFE` seconds, the pause doubles.
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 10.0
_LONG_LIFE: Final = 10.0
# Times (seconds) for which a worker waits for a database that is down: to report a lost attempt, and its own end.
_RETRY_FOR: Final = 300.0
_RETRY_AT_END_FOR: Final = 3.0


class WorkerRetired(Exception):
    """The recruiter retired this worker. Its process has to end."""


class TaskCluster(Sentinel):  # type: ignore[misc]  # django-q2 has no types
    """The processes of one worker. `run` lasts until a signal stops it."""

    def __init__(
        self,
        session: Callable[[str], Session],
        *,
        worker: UUID,
        beat: float,
        stop_within: float,
        memory_limit: int | None = None,
        attached: bool = False,
    ) -> None:
        """
        `session` opens a session for a purpose. `beat` is the time between two signs of life, `stop_within` the time
        that a stopping worker waits for its task (seconds). A process above `memory_limit` (KiB) ends after its task.
        An `attached` worker stops when its standard input closes.
        """
        self._session = session("roster")
        self._worker, self._stop_within, self._attached = worker, stop_within, attached
        self._ends_by_signal, self._wakes_by_signal = os.pipe()
        self._is_stopping = False
        # The children read this pipe, and end when this process has ended, even after a kill.
        self._alive_here, self._alive_there = os.pipe()
        Conf.MAX_RSS = memory_limit
        execution.use(execution.Executor(session, worker=worker, beat=beat))
        super().__init__(
            _FORK.Event(),
            _FORK.Event(),
            worker,
            broker=TaskBroker(session, worker=worker, beat=beat),
            # django-q2 gets no time limit for tasks, because it would run a task again after the limit.
            timeout=-1,
            start=False,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def run(self) -> None:
        """
        Execute tasks until a signal.

        Raises:
            WorkerRetired: the recruiter retired the worker.
            psycopg.OperationalError: the database stayed down.
        """
        pause = _FIRST_PAUSE
        try:
            while not self._is_stopping:
                began_at = time.monotonic()
                self._spawn()
                ended = self._wait()
                if ended is None:
                    break
                self._end_children()
                if ended.exitcode == RETIRED or not self._report_lost_attempt(ended):
                    raise WorkerRetired("It was silent for too long, so its tasks went to other workers.")
                pause = _FIRST_PAUSE if time.monotonic() - began_at > _LONG_LIFE else min(2 * pause, _LONGEST_PAUSE)
                if not self._is_recycled(ended):
                    wait([self._ends_by_signal], timeout=pause)
            self._leave()
        finally:
            self._end_children()
            self._session.close()

    def spawn_process(self, target: Callable[..., object], *args: Any) -> BaseProcess:
        """Start a child for a part of django-q2. Children end with this process."""
        process = _FORK.Process(target=self._run_child, args=(target, args), name=f"{target.__name__} of {os.getpid()}")
        process.daemon = True
        if target.__name__ == "worker":
            # A task may start further processes.
            process.daemon = False
            self.pool.append(process)
        process.start()
        return process

    def _run_child(self, target: Callable[..., object], args: tuple[Any, ...]) -> None:
        os.close(self._alive_there)
        # The parent tells its children to end. A signal of the terminal goes to all of them. The handler is an empty
        # function, because an ignored signal would also be ignored in the programs that a task starts.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: None)
        threading.Thread(target=self._end_with_parent, name="attachment", daemon=True).start()
        if target.__name__ == "worker":
            # Deliver the events of an attempt that an earlier process left behind.
            execution.deliver_events()
        target(*args)

    def _end_with_parent(self) -> None:
        while os.read(self._alive_here, 1):
            pass
        os._exit(1)

    def _spawn(self) -> None:
        self.event_out = _FORK.Event()
        self.task_queue, self.result_queue = Queue(maxsize=1), Queue()
        for queue in (self.task_queue, self.result_queue):
            # A killed process may leave a lock of the queue behind. This process must not wait for that lock at its
            # end.
            queue.cancel_join_thread()
        self.pool: list[BaseProcess] = []
        self._session.close()
        connections.close_all()
        self.spawn_worker()
        self.monitor, self.pusher = self.spawn_monitor(), self.spawn_pusher()

    def _wait(self) -> BaseProcess | None:
        """Return the first child that ends; None if the worker was told to stop."""
        children = {child.sentinel: child for child in self._children()}
        inputs = [self._ends_by_signal, *([0] if self._attached else [])]
        while True:
            ready = wait([*children, *inputs])
            if self._attached and 0 in ready and not os.read(0, 4096):
                self._stop(0, None)
            if self._is_stopping:
                return None
            ended = [children[sentinel] for sentinel in ready if sentinel in children]
            if ended:
                return next((child for child in ended if child.exitcode == RETIRED), ended[0])

    def _is_recycled(self, ended: BaseProcess) -> bool:
        return ended in self.pool and ended.exitcode == 0

    def _report_lost_attempt(self, ended: BaseProcess) -> bool:
        """End the attempt that an ended child left behind. Return False if the worker was retired."""
        reason = "its process ended" if ended.exitcode is None else _reason_of_end(ended.exitcode)
        return self._session.run(
            lambda connection: roster.lose_attempt(connection, worker=self._worker, reason=reason),
            wait_at_most=_RETRY_FOR,
        )

    def _leave(self) -> None:
        """Let the running task end within its limit, and take the worker off the roster."""
        self._session.run(
            lambda connection: roster.begin_leaving(connection, worker=self._worker), wait_at_most=_RETRY_AT_END_FOR
        )
        # A signal during the start comes before the first process.
        reason = self._await_task(self.pool[0]) if self.pool else "it stopped before its first task"
        self._end_children()
        self._session.run(
            lambda connection: roster.leave(connection, worker=self._worker, reason=reason),
            wait_at_most=_RETRY_AT_END_FOR,
        )

    def _await_task(self, executing: BaseProcess) -> str:
        """Wait until the process has ended its task, for the time limit of a stop. Return the reason of its end."""
        self.event_out.set()
        with suppress(Full):
            self.task_queue.put("STOP", timeout=_SHORT_WAIT)
        # A second signal ends the wait.
        os.read(self._ends_by_signal, 4096)
        wait([executing.sentinel, self._ends_by_signal], timeout=self._stop_within)
        executing.join(0)
        return "it stopped, and the task did not end in time" if executing.is_alive() else "its process ended"

    def _end_children(self) -> None:
        for child in self._children():
            if child.is_alive():
                child.kill()
        for child in self._children():
            child.join(_SHORT_WAIT)

    def _children(self) -> list[BaseProcess]:
        return [child for child in (*self.pool, self.monitor, self.pusher) if child is not None]

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._is_stopping = True
        os.write(self._wakes_by_signal, b".")


def _reason_of_end(exitcode: int) -> str:
    if exitcode < 0:
        return f"signal {-exitcode} ended its process"
    return f"its process ended with exit code {exitcode}"
