"""
Questions to one connection. Their number at the same time is limited, so that a silent connection does not delay the
others.

A question waits for a free place of its connection, then for one of the pool of the process, all within the time limit
of the connection. After `UNANSWERED` questions without an answer in a row, the connection is *silent*. A silent
connection gets one question at a time, outside of the pool. Further questions fail immediately. A question that waits
longer than `POOL_SECONDS` leaves the pool. So a connection that hangs takes places of the pool only for a moment, and
even many of them do not delay other connections.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar

from jobs.authorities.service.plan import AuthorityFacts, Facts
from jobs.connectors.authority import registry
from jobs.connectors.authority.kind import Checked, Opened, Unreachable
from jobs.connectors.schema import BadSpecification
from jobs.metrics import authority as metrics

_T = TypeVar("_T")
# Unanswered questions in a row that make a connection silent.
UNANSWERED: Final = 3
# Longest time for which a question occupies a place in the pool (seconds).
POOL_SECONDS: Final = 0.5
# A function that is called with a connection and a text: "" after each answer, the last error when the connection
# becomes silent.
OnResult = Callable[[Facts, str], None]


class LimitedConnection:
    """A connection with a limit of simultaneous questions. The first question opens it, and one event loop uses it."""

    def __init__(self, facts: Facts, *, pool: asyncio.Semaphore, on_result: OnResult) -> None:
        self._facts, self._pool, self._on_result = facts, pool, on_result
        self._places = asyncio.Semaphore(facts.limits.at_once)
        self._probe = asyncio.Lock()
        self._opened: Any = None
        self._unanswered = UNANSWERED if facts.is_silent else 0

    @property
    def is_silent(self) -> bool:
        return self._unanswered >= UNANSWERED

    async def ask(self, question: Callable[[Any], Awaitable[_T]]) -> _T:
        """
        Return the answer of the connection within its time limit.

        Raises:
            Unreachable: the connection gave no usable answer in time, or is silent and busy with another question.
        """
        if self.is_silent and self._probe.locked():
            raise Unreachable("It did not answer its last questions, and another question is trying it.")
        try:
            async with asyncio.timeout(self._facts.limits.seconds):
                if self.is_silent:
                    async with self._probe, self._places:
                        return self._answered(await question(self._open()))
                async with self._places, self._place_of_the_pool():
                    return self._answered(await question(self._open()))
        except TimeoutError:
            raise self._failed(f"No answer within {self._facts.limits.seconds:g} s.") from None
        except Unreachable as error:
            raise self._failed(str(error)) from None
        except Exception as error:
            raise self._failed(f"The connector failed: {type(error).__name__}.") from error

    async def check(self) -> Checked:
        """Check the system behind the connection. Return the result, with a reason or a remark."""
        try:
            async with asyncio.timeout(self._facts.limits.seconds):
                opened: Opened = self._open()
                remark = await opened.check()
        except TimeoutError:
            return Checked(works=False, said=f"No answer within {self._facts.limits.seconds:g} s.")
        except Unreachable as error:
            return Checked(works=False, said=_storable(str(error)))
        except Exception as error:  # noqa: BLE001 (a plugin may raise anything)
            return Checked(works=False, said=f"The connector failed: {type(error).__name__}.")
        self._answered(None)
        return Checked(works=True, said=_storable(remark or ""))

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    def _open(self) -> Any:  # noqa: ANN401 (an authority or a mapper)
        if self._opened is None:
            self._opened = open_connection(self._facts)
        return self._opened

    @contextlib.asynccontextmanager
    async def _place_of_the_pool(self) -> AsyncIterator[None]:
        await self._pool.acquire()
        with contextlib.ExitStack() as place:
            place.callback(self._pool.release)
            # A second close does nothing, so the place is released once.
            early = asyncio.get_running_loop().call_later(POOL_SECONDS, place.close)
            try:
                yield
            finally:
                early.cancel()

    def _answered(self, answer: _T) -> _T:
        self._unanswered = 0
        self._on_result(self._facts, "")
        return answer

    def _failed(self, why: str) -> Unreachable:
        why = _storable(why)
        self._unanswered += 1
        metrics.UNREACHABLE.add(1, self._facts.name)
        if self._unanswered == UNANSWERED:
            self._on_result(self._facts, why)
        return Unreachable(why)


def _storable(why: str) -> str:
    """Return a reason without characters that a database refuses: a server may put any bytes into its message."""
    return why.replace("\0", "?").encode(errors="replace").decode()


def open_connection(facts: Facts) -> Opened:
    """
    Return the authority or the mapper of a connection.

    Raises:
        Unreachable: its kind is not installed, or its configuration cannot be used.
    """
    kinds: Any = registry.authorities() if isinstance(facts, AuthorityFacts) else registry.mappers()
    kind = kinds.get(facts.kind)
    if kind is None:
        raise Unreachable(f"The kind {facts.kind} is not installed.")
    try:
        values = kind.configuration.read(facts.configuration)
        opened: Opened = kind.open(values, facts.limits)
    except BadSpecification as error:
        raise Unreachable(f"Its configuration cannot be used: {error}.") from None
    return opened
