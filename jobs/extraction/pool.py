"""
The pool of child processes of one worker. Children start when they are needed, and are replaced when a file has ended
them.

Each child reads one file at a time. The worker waits for it without a thread, and kills it when its time is over.
"""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jobs.extraction import protocol
from jobs.extraction.result import Extraction, ExtractionFailed, Reason, storable
from jobs.extraction.work import extraction_of

_MIB: Final = 1024 * 1024
# The directory of crawlctl's packages, for the import path of a child.
_ROOT: Final = Path(__file__).resolve().parents[2]
_PROGRAM: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from jobs.extraction.child import main; main(sys.argv[2])"
)
# The environment of a child. It has no variables of the worker, which may contain a database address or a secret.
_ENVIRONMENT: Final = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
# Limit of the elapsed time for a file, as a multiple of its computing time. On a busy machine, computing takes longer.
_ELAPSED_FACTOR: Final = 4
# Longest time for the start of a child (seconds).
_START: Final = 60.0
# Number of files after which a child is replaced, because libraries may leak memory.
_FILES: Final = 500
_LONGEST_DETAIL: Final = 200


class ChildrenBroken(Exception):
    """A child could not start: a fault of the installation or of the machine, not of a file."""


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """
    `processes` is the number of children, `seconds` the computing time for one file, `memory` the address space of a
    child, and `output` its longest answer (both in MiB).
    """

    processes: int = 2
    seconds: int = 30
    memory: int = 512
    output: int = 64


class ChildPool:
    """The child processes of one worker. The pool is made and used inside one event loop."""

    def __init__(
        self,
        limits: PoolLimits,
        *,
        work: str = "jobs.extraction.work:EXTRACTION",
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """
        `work` names an object as `module:NAME` (jobs.extraction.work.Work), and `arguments` are for its `prepare`.
        """
        self._limits = limits
        self._work, self._arguments = work, arguments or {}
        self._free = asyncio.Semaphore(limits.processes)
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()

    @property
    def processes(self) -> list[int]:
        """Return the process ids of the children."""
        return [child.process.pid for child in self._all]

    async def extract(
        self, body: bytes, *, content_type: str = "", name: str = "", parts: bool = True, language: bool = True
    ) -> Extraction:
        """
        Return the text of a file. If `parts` is true, the result has the parts of the file. If `language` is true, it
        has the language.

        Raises:
            ExtractionFailed: the file has no text, for a reason.
            ChildrenBroken: no child can start.
        """
        facts = {"content_type": content_type, "name": name, "parts": parts, "language": language}
        answer = await self.ask(facts, body)
        try:
            return extraction_of(answer)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ExtractionFailed(Reason.CRASH, "invalid answer") from error

    async def ask(self, facts: Mapping[str, Any], body: bytes) -> Mapping[str, Any]:
        """
        Return the answer of a child.

        Raises:
            ExtractionFailed: the child gave a reason, ended, hung, or answered too much.
            ChildrenBroken: no child can start.
        """
        async with self._free:
            child = self._idle.pop() if self._idle else await self._start()
            try:
                result = await child.ask(protocol.request(facts, body), self._limits)
            except ExtractionFailed as failure:
                if failure.reason.ends_child:
                    await self._end(child)
                else:
                    self._idle.append(child)
                raise
            except BaseException:
                # The request was cancelled before the child answered. End the child, because a later request to it
                # would get this answer.
                await self._end(child)
                raise
            if child.files >= _FILES:
                await self._end(child)
            else:
                self._idle.append(child)
        return result

    async def close(self) -> None:
        """End all children."""
        self._idle.clear()
        await asyncio.gather(*(self._end(child) for child in list(self._all)))

    async def _start(self) -> "_Child":
        given = {
            "parent": os.getpid(),
            "memory": self._limits.memory,
            "seconds": self._limits.seconds,
            "work": self._work,
            "arguments": self._arguments,
        }
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-c", _PROGRAM, str(_ROOT), json.dumps(given)),
                stdin=PIPE,
                stdout=PIPE,
                env=_ENVIRONMENT,
                cwd="/",
                # A child has its own session, because Ctrl-C in a terminal is for the worker, which then ends its
                # children.
                start_new_session=True,
            )
        except OSError as error:
            raise ChildrenBroken(f"a child process for texts of files cannot start: {error}") from error
        child = _Child(process)
        self._all.add(child)
        try:
            async with asyncio.timeout(_START):
                is_ready = await child.answers.readline() == protocol.READY
        except TimeoutError:
            is_ready = False
        except BaseException:
            await self._end(child)
            raise
        if not is_ready:
            await self._end(child)
            raise ChildrenBroken("a child process for texts of files ended at its start; the log has its error")
        return child

    async def _end(self, child: "_Child") -> None:
        child.kill()
        if child in self._all:
            self._all.remove(child)
            await asyncio.shield(child.wait())


class _Child:
    """
    One child process and the pipes to it. It answers one request at a time, and is killed when an answer takes too
    long.
    """

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        self.process = process
        self.answers = process.stdout
        self.files = 0

    async def ask(self, message: bytes, limits: PoolLimits) -> Mapping[str, Any]:
        """
        Send one request to the child, and return its result.

        Raises:
            ExtractionFailed: the child gave a reason, ended, hung, or answered too much.
        """
        self.files += 1
        try:
            async with asyncio.timeout(_ELAPSED_FACTOR * limits.seconds):
                return _result_of(await self._exchange(message, limits))
        except TimeoutError as error:
            raise ExtractionFailed(Reason.TIME, f"no result within {_ELAPSED_FACTOR * limits.seconds} s") from error
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError) as error:
            # The child closed its pipe, which means that it is dead, or its output is no answer.
            self.kill()
            raise _ending_of(await self.wait(), limits) from error

    async def _exchange(self, message: bytes, limits: PoolLimits) -> Any:  # noqa: ANN401 (JSON of a child)
        assert self.process.stdin is not None
        self.process.stdin.write(message)
        await self.process.stdin.drain()
        length = int(await self.answers.readuntil(b"\n"))
        if not 0 <= length <= limits.output * _MIB:
            raise ExtractionFailed(Reason.OUTPUT, f"more than {limits.output} MiB")
        try:
            return json.loads(await self.answers.readexactly(length))
        except RecursionError as error:
            raise ValueError("nested too deeply") from error

    def kill(self) -> None:
        # Process.kill() collects the exit code of a child that has just ended, and asyncio then reports 255.
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)

    async def wait(self) -> int:
        """Wait for the end of a child that was killed, and return its status."""
        # asyncio reports the end only when all output is read, and it pauses reading while too much waits. So the rest
        # is read here.
        with suppress(ConnectionError):
            while await self.answers.read(_MIB):
                pass
        return await self.process.wait()


def _result_of(answer: Any) -> Mapping[str, Any]:  # noqa: ANN401
    """
    Return the result in an answer.

    Raises:
        ValueError: the value is not an answer.
        ExtractionFailed: the child gave a reason.
    """
    if not isinstance(answer, dict):
        raise ValueError("not an object")  # noqa: TRY004 (it is invalid as a JSON of another form is)
    if (reason := answer.get(protocol.FAILED)) is not None:
        raise ExtractionFailed(Reason(reason), storable(str(answer.get(protocol.DETAIL, "")))[:_LONGEST_DETAIL])
    if not isinstance(result := answer.get(protocol.RESULT), dict):
        raise ValueError("no result")  # noqa: TRY004
    return result


def _ending_of(status: int, limits: PoolLimits) -> ExtractionFailed:
    if status == -signal.SIGXCPU:
        return ExtractionFailed(Reason.TIME, f"more than {limits.seconds} s of computing")
    name = signal.Signals(-status).name if status < 0 else f"exit code {status}"
    return ExtractionFailed(Reason.CRASH, name)
