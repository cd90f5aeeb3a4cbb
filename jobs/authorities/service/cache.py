"""A cache of answers with a lifetime, which also combines equal questions in progress."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")

# Largest number of answers in a cache. A further answer replaces the oldest one.
MOST: Final = 50_000


class Cache(Generic[_T]):
    """
    Answers by their questions. `keeps` returns True for an answer that may be stored.

    Only one event loop uses it. While a question waits for its answer, a second equal question waits for the same
    answer. The question continues if all callers that wait are cancelled.
    """

    def __init__(
        self, *, lifetime: float, keeps: Callable[[_T], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lifetime, self._keeps, self._clock = lifetime, keeps, clock
        self._stored: OrderedDict[Hashable, tuple[float, _T]] = OrderedDict()
        self._asked: dict[Hashable, asyncio.Task[_T]] = {}

    def find(self, question: Hashable) -> _T | None:
        """Return the stored answer; None if there is none, or it is too old."""
        stored = self._stored.get(question)
        if stored is None:
            return None
        if stored[0] <= self._clock():
            del self._stored[question]
            return None
        return stored[1]

    async def ask(self, question: Hashable, asking: Callable[[], Awaitable[_T]]) -> _T:
        """Return the stored answer. If there is none, wait for an equal question in progress, or ask a new question."""
        found = self.find(question)
        if found is not None:
            return found
        task = self._asked.get(question)
        if task is None:
            task = self._asked[question] = asyncio.ensure_future(self._ask(question, asking))
            task.add_done_callback(lambda done: self._forget(question, done))
        return await asyncio.shield(task)

    async def _ask(self, question: Hashable, asking: Callable[[], Awaitable[_T]]) -> _T:
        answer = await asking()
        if self._lifetime > 0 and self._keeps(answer):
            self._stored[question] = (self._clock() + self._lifetime, answer)
            self._stored.move_to_end(question)
            while len(self._stored) > MOST:
                self._stored.popitem(last=False)
        return answer

    def _forget(self, question: Hashable, done: asyncio.Task[_T]) -> None:
        self._asked.pop(question, None)
        if not done.cancelled():
            # If all callers stopped waiting, nothing else reads the exception, and asyncio would log a warning.
            done.exception()

    def __len__(self) -> int:
        return len(self._stored)
