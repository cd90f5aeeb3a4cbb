"""
The attention list of all partitions, for people who look at the control partition.

Its links lead to pages of the control partition, which has other numbers of jobs and no pages of hosts of others.
"""

import datetime as dt
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qs, urlsplit

import django.db
from django.urls import resolve, reverse
from django.utils import translation
from django.utils.http import urlencode

from jobs.attention.lines import AttentionLine
from jobs.attention.partitions import line_of_silent
from jobs.attention.sources import in_order, read_attention, read_of_database
from jobs.partitions import here
from jobs.partitions.merged import Merged, numbers_of, read_everywhere
from nodes.database.clock import read_clock
from nodes.database.moment import Moment

_Lines = Sequence[AttentionLine]

# Age (seconds) at which answers of other partitions are read again for an open page.
_HELD: Final = 5.0
# Pages with a number of a job in their path.
_OF_JOBS: Final = frozenset({"job", "job-removals"})
_OF_HOSTS: Final = frozenset({"host", "hosts"})
# Pages that are the same in each partition.
_OF_ALL: Final = frozenset({"documentation"})


def read_attention_everywhere(*, now: dt.datetime) -> list[AttentionLine]:
    """Return the lines of all partitions, and a line for each one that does not answer."""
    found = read_everywhere(lambda: read_attention(now=now), _read_elsewhere)
    return _together(found.own, found)


def read_attention_for_open_page(*, now: dt.datetime) -> list[AttentionLine]:
    """
    Return the same, with lines of other partitions that are some seconds old.

    A page that is open is read again and again, and must not wait for a partition that is away.
    """
    own = read_attention(now=now)
    placement = here.placement()
    if placement is None or not placement.is_control:
        return own
    return _together(own, _held.answers())


def _together(own: _Lines, found: Merged[_Lines]) -> list[AttentionLine]:
    known = {line.key for line in own if line.kind == "partition_silent"}
    silent = [line_of_silent(one) for one in found.silent if one.name not in known]
    return in_order([*own, *silent, *(line for lines in found.others.values() for line in lines)])


def _read_elsewhere(name: str) -> _Lines:
    """Read the lines of the database of this thread, as they are shown in the control partition."""
    with Moment().present():
        lines = [_Linked(line) for line in read_of_database(now=read_clock())]
    numbers = numbers_of({one.job for one in lines if one.job is not None})
    return [one.seen_elsewhere(name, numbers) for one in lines]


class _Linked:
    """A line of another partition. `job` is the number there of the job that its link is about; None if there is none."""

    def __init__(self, line: AttentionLine) -> None:
        parts = urlsplit(line.link)
        page = resolve(parts.path)
        self._line, self._page, self._query = line, page, parse_qs(parts.query)
        found = page.kwargs.get("job_id") if page.url_name in _OF_JOBS else self._query.get("job", [None])[0]
        self.job = None if found is None else int(found)

    def seen_elsewhere(self, partition: str, numbers: Mapping[int, int]) -> AttentionLine:
        number = None if self.job is None else numbers.get(self.job)
        name = self._page.url_name or ""
        key = self._line.key
        link = reverse("partitions")
        if name in _OF_ALL:
            link = self._line.link
        elif name in _OF_HOSTS:
            link = f"{reverse('documents')}?{urlencode({'host': self._line.subject})}"
        elif number is not None and name in _OF_JOBS:
            link, key = reverse(name, args=[number]), str(number)
        elif number is not None and name == "documents":
            query = {**self._query, "job": [str(number)]}
            link, key = f"{reverse(name)}?{urlencode(query, doseq=True)}", str(number)
        return replace(self._line, partition=partition, key=key, link=link)


@dataclass(slots=True)
class _Answers:
    """Answers of other partitions in one language."""

    found: Merged[_Lines]
    read_at: float


class _Held:
    """The last answers of other partitions in each language, read again in a thread of their own."""

    def __init__(self) -> None:
        self._answers: dict[str, _Answers] = {}
        self._lock = threading.Lock()
        self._reading: dict[str, threading.Thread] = {}

    def answers(self) -> Merged[_Lines]:
        """Return the last answers, and begin to read them again if they are old. The first ones are waited for."""
        language = translation.get_language()
        last = self._answers.get(language)
        if last is None or time.monotonic() - last.read_at > _HELD:
            reading = self._begin_reading(language)
            if last is None:
                reading.join()
                last = self._answers.get(language)
        return last.found if last is not None else Merged([])

    def _begin_reading(self, language: str) -> threading.Thread:
        with self._lock:
            reading = self._reading.get(language)
            if reading is None or not reading.is_alive():
                reading = threading.Thread(target=self._read, args=[language], name="attention", daemon=True)
                self._reading[language] = reading
                reading.start()
            return reading

    def _read(self, language: str) -> None:
        try:
            with translation.override(language):
                found: Merged[_Lines] = read_everywhere(list, _read_elsewhere)
            self._answers[language] = _Answers(found, time.monotonic())
        finally:
            django.db.connections.close_all()


_held = _Held()
