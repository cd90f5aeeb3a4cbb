"""
The last answers of other partitions, for pages that are open.

An open page is read repeatedly, and must not wait for a silent partition.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import django.db
from django.utils import translation

from jobs.partitions import this_partition
from jobs.partitions.merged import Merged, changed_at, read_everywhere

T = TypeVar("T")

# Age (seconds) at which an open page requests new answers of other partitions, and age at which it waits for them.
_HELD: Final = 5.0
_OLD: Final = 15.0


@dataclass(frozen=True, slots=True)
class Held(Generic[T]):
    """The last answers of the other partitions, in one language."""

    found: Merged[T | None]

    def with_own(self, own: T) -> Merged[T]:
        """Return these answers together with `own`, the answer of this partition."""
        others = {name: answer for name, answer in self.found.others.items() if answer is not None}
        return Merged(own, others, self.found.silent)


@dataclass(slots=True)
class _Answers(Generic[T]):
    held: Held[T]
    began_at: float
    read_at: float

    def is_before_change(self) -> bool:
        """True if this process has changed another partition since these answers were requested."""
        return self.began_at <= changed_at()


class HeldAnswers(Generic[T]):
    """The last answers of other partitions in each language. A separate thread reads them again."""

    def __init__(self, read: Callable[[str], T]) -> None:
        self._read = read
        self._answers: dict[str, _Answers[T]] = {}
        self._lock = threading.Lock()
        self._reading: dict[str, threading.Thread] = {}

    def answers(self) -> Held[T] | None:
        """
        Return the last answers, and begin to read them again after some seconds.

        The caller waits for new answers if there are none yet, if the last ones are old because no page was open, or
        after a change: an operator must see the effect of a button.

        The result is None outside of the control partition.
        """
        if not this_partition.control_name():
            return None
        language = translation.get_language()
        last = self._answers.get(language)
        age = time.monotonic() - last.read_at if last is not None and not last.is_before_change() else _OLD
        if age > _HELD:
            reading = self._begin_reading(language)
            if age >= _OLD:
                reading.join()
                last = self._answers.get(language)
        if last is not None and last.is_before_change():
            # These answers were requested before the change, so read them once more.
            self._begin_reading(language).join()
            last = self._answers.get(language)
        return last.held if last is not None else None

    def keep(self, found: Merged[T | None]) -> None:
        """Keep answers that a page has just read, so that its next update does not show older ones."""
        if this_partition.control_name():
            now = time.monotonic()
            self._answers[translation.get_language()] = _Answers(Held(found), now, now)

    def renew(self) -> None:
        """Begin to read the answers again, because the last answers came before a change. The caller does not wait."""
        if this_partition.control_name():
            self._begin_reading(translation.get_language())

    def _begin_reading(self, language: str) -> threading.Thread:
        with self._lock:
            reading = self._reading.get(language)
            if reading is None or not reading.is_alive():
                reading = threading.Thread(target=self._read_in, args=[language], name="open pages", daemon=True)
                self._reading[language] = reading
                reading.start()
            return reading

    def _read_in(self, language: str) -> None:
        began_at = time.monotonic()
        try:
            with translation.override(language):
                found: Merged[T | None] = read_everywhere(lambda: None, self._read)
            kept = self._answers.get(language)
            # A page may have read newer answers meanwhile.
            if kept is None or kept.read_at <= began_at:
                self._answers[language] = _Answers(Held(found), began_at, time.monotonic())
        finally:
            django.db.connections.close_all()
