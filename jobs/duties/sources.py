"""
Questions that a manager asks a source, such as the documents of a seed. Slow answers do not delay the other groups of
the manager.

Only this process knows its open questions. If it dies, nothing is lost, because the next owner of the group asks again.
"""

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

_T = TypeVar("_T")

# Seconds for which the caller waits for an answer. Most sources answer in this time, because they need no request.
_AT_ONCE: Final = 0.05
# Largest number of open questions of one manager, including questions whose answers are no longer needed.
_MOST: Final = 32
# Seconds after which an answer that no duty has read is out of date.
_GOOD_FOR: Final = 30.0


class Sources(Protocol):
    """The interface through which a duty asks sources: `AskAndWait` waits for the answer, and `AskInThreads` does not."""

    def ask(self, about: Hashable, question: Callable[[], _T]) -> _T | None:
        """
        Return the answer, or None while the question is open; then call it again later with the same question.

        Raises:
            the exception that the question raised.
        """


class AskAndWait:
    """Asks in the calling thread, and waits for each answer."""

    def ask(self, about: Hashable, question: Callable[[], _T]) -> _T | None:
        return question()


@dataclass(slots=True)
class _Open:
    answer: "Future[Any]" = field(default_factory=Future)
    answered_at: float = 0.0

    @property
    def is_old(self) -> bool:
        return self.answer.done() and time.monotonic() - self.answered_at > _GOOD_FOR


class AskInThreads:
    """Asks in daemon threads, which do not delay the end of the process. Only one thread may call its methods."""

    def __init__(self) -> None:
        self._open: dict[Hashable, _Open] = {}
        self._threads: list[threading.Thread] = []
        self._forgot_at = time.monotonic()

    def ask(self, about: Hashable, question: Callable[[], _T]) -> _T | None:
        self._forget_old()
        asked = self._open.get(about)
        if asked is None or asked.is_old:
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            if len(self._threads) >= _MOST:
                return None
            asked = self._open[about] = self._begin(question)
            wait([asked.answer], timeout=_AT_ONCE)
        if not asked.answer.done():
            return None
        del self._open[about]
        answer: _T = asked.answer.result()
        return answer

    def _forget_old(self) -> None:
        """Drop answers that are out of date. They were never read, because their seed changed or was removed."""
        if time.monotonic() - self._forgot_at > _GOOD_FOR:
            self._forgot_at = time.monotonic()
            self._open = {about: asked for about, asked in self._open.items() if not asked.is_old}

    def _begin(self, question: Callable[[], object]) -> _Open:
        asked = _Open()

        def find_out() -> None:
            try:
                found = question()
            except Exception as error:  # noqa: BLE001 (raised where it was asked)
                asked.answered_at = time.monotonic()
                asked.answer.set_exception(error)
            else:
                asked.answered_at = time.monotonic()
                asked.answer.set_result(found)

        thread = threading.Thread(target=find_out, name="asks a source", daemon=True)
        self._threads.append(thread)
        thread.start()
        return asked
