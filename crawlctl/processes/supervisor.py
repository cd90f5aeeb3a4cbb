"""
A supervisor: it starts processes as its children, watches them, and ends them.

Each child has the reading end of a pipe as its standard input. Only this process has the writing end. So a child
notices the end of this process, whatever ended it, and stops by itself. Supervised programs must watch for that (our
commands do with `--attached`). Children have separate sessions. A Ctrl-C in the terminal reaches the supervisor
only, which ends them in order.

Services that are started together stop together. The group that was started last stops first.
"""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Final

# Shortest life of a service that is restarted immediately (seconds). After a shorter one the wait doubles each time, up
# to a limit.
_LONG_LIFE: Final = 10.0
_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 30.0

_NULL: Final = Path(os.devnull)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """
    A program to run, with its options.

    Its output is appended to `log`, or goes to our standard error. If it `announces`, `Supervisor.announcement` reads
    its standard output instead. `keeps` are descriptors that it inherits. Without a `directory` or an `environment`, it
    has those of this process.
    """

    name: str
    command: tuple[str, ...]
    directory: Path | None = None
    log: Path | None = None
    announces: bool = False
    restarts: bool = True
    keeps: tuple[int, ...] = ()
    environment: Mapping[str, str] | None = None


class ServiceEnded(Exception):
    """A service that is not restarted has ended."""

    def __init__(self, service: Service, ending: str) -> None:
        self.service = service
        super().__init__(f"{service.name} {ending}{_see(service)}")


@dataclass(slots=True)
class _Child:
    """A service and its current process. `due_at` is when it is to be started again (monotonic)."""

    service: Service
    process: "subprocess.Popen[bytes]"
    started_at: float
    wait: float = 0.0
    due_at: float | None = None

    def end_within(self, seconds: float) -> None:
        try:
            self.process.wait(timeout=max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@dataclass(slots=True)
class Supervisor:
    """`write_line` gets a sentence for people when a service ends unexpectedly. Use a supervisor from one thread only."""

    write_line: Callable[[str], None]
    _ranks: list[list[_Child]] = field(default_factory=list)

    def start(self, *services: Service) -> None:
        """Start services. They stop together, before all services that were started earlier."""
        rank: list[_Child] = []
        self._ranks.append(rank)
        for service in services:
            rank.append(_Child(service, _start(service), time.monotonic()))  # noqa: PERF401 - to end them if one cannot start

    def announcement(self, name: str, *, within: float) -> str:
        """
        Return the first line that an announcing service prints.

        Raises:
            ServiceEnded: the service ended, or printed nothing in time.
        """
        child = next(child for child in self._children() if child.service.name == name)
        pipe = child.process.stdout
        assert pipe is not None
        line = _read_line(pipe, within=within)
        if not line:
            code = child.process.poll()
            raise ServiceEnded(child.service, "did not become ready in time" if code is None else _ending(code))
        return line

    def tend(self) -> None:
        """
        Notice ended services, and start services that are due again. Call this several times a second.

        Raises:
            ServiceEnded: a service that does not restart has ended by itself.
        """
        now = time.monotonic()
        for child in self._children():
            if child.due_at is not None:
                if now >= child.due_at:
                    child.process, child.started_at, child.due_at = _start(child.service), now, None
            elif (code := child.process.poll()) is not None:
                self._see_end(child, code, now=now)

    def stop(self, *, within: float) -> None:
        """
        End all services, group by group. Kill the services of a group that have not ended within this number of
        seconds.
        """
        while self._ranks:
            rank = self._ranks[-1]
            for child in rank:
                # The pid of a child that was waited for may be reused. Popen knows this, and then sends no signal.
                child.process.terminate()
            deadline = time.monotonic() + within
            for child in rank:
                child.end_within(deadline - time.monotonic())
            self._ranks.pop()

    def kill(self) -> None:
        """Kill all services immediately. May be called at any moment, even from a signal handler."""
        for child in self._children():
            child.process.kill()

    def _children(self) -> list[_Child]:
        return [child for rank in self._ranks for child in rank]

    def _see_end(self, child: _Child, code: int, *, now: float) -> None:
        if not child.service.restarts:
            raise ServiceEnded(child.service, _ending(code))
        child.end_within(0)
        lived_long = now - child.started_at >= _LONG_LIFE
        child.wait = 0.0 if lived_long else min(max(child.wait * 2, _FIRST_WAIT), _LONGEST_WAIT)
        child.due_at = now + child.wait
        when = f"in {child.wait:.0f} s" if child.wait else "immediately"
        self.write_line(f"{child.service.name} {_ending(code)}{_see(child.service)}; it is started again {when}.")


class StopRequest:
    """
    The request of SIGTERM or SIGINT to a supervising process. `number` is the first signal that came, None before.

    A second signal ends the process and all services immediately. The request is a flag to be polled, neither an
    exception nor an event: a signal handler runs between any two instructions, so its thread may hold the very lock
    that an event would take.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self.number: signal.Signals | None = None
        self._supervisor = supervisor
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked)

    @property
    def was_made(self) -> bool:
        return self.number is not None

    @property
    def exit_code(self) -> int:
        """Return 0 after SIGTERM, 130 after SIGINT."""
        return 128 + signal.SIGINT if self.number == signal.SIGINT else 0

    def _asked(self, number: int, _frame: FrameType | None) -> None:
        if self.number is not None:
            self._supervisor.kill()
            os._exit(128 + number)
        self.number = signal.Signals(number)


def _start(service: Service) -> "subprocess.Popen[bytes]":
    with (service.log or _NULL).open("ab") as log:
        output = log.fileno() if service.log else 2
        return subprocess.Popen(
            service.command,
            cwd=service.directory,
            env=service.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if service.announces else output,
            stderr=output,
            pass_fds=service.keeps,
            start_new_session=True,
        )


def _read_line(pipe: IO[bytes], *, within: float) -> str:
    """Return the first line of a pipe; '' if it was not complete in time."""
    deadline = time.monotonic() + within
    line = b""
    while not line.endswith(b"\n"):
        # One byte at a time: the bytes after the line belong to other readers.
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        byte = os.read(pipe.fileno(), 1) if ready else b""
        if not byte:
            return ""
        line += byte
    return line.decode().rstrip("\n")


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was ended by {signal.Signals(-code).name}"


def _see(service: Service) -> str:
    return f" (see {service.log})" if service.log else ""
