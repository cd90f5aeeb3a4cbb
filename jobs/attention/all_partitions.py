"""
The attention list of all partitions, for users of the control partition.

Links lead to pages of the control partition, where a job has another id. The pages of hosts there also show hosts of
other partitions.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qs, urlsplit

from django.urls import resolve, reverse
from django.utils.http import urlencode

from jobs.attention.lines import AttentionLine
from jobs.attention.partitions import line_of_silent
from jobs.attention.sources import in_order, read_attention, read_of_database
from jobs.partitions.last_answers import HeldAnswers
from jobs.partitions.merged import Merged, numbers_of, read_everywhere
from jobs.partitions.this_partition import address_in
from nodes.database.clock import read_clock
from nodes.database.shared_results import Moment

_Lines = Sequence[AttentionLine]

# Names of pages that have the id of a job in their path.
_OF_JOBS: Final = frozenset({"job", "job-removals"})
_OF_HOSTS: Final = frozenset({"host", "hosts", "trap", "traps", "nodes", "tasks", "task"})
# Pages that are the same in each partition.
_OF_ALL: Final = frozenset({"documentation"})


def read_attention_everywhere(*, now: dt.datetime) -> list[AttentionLine]:
    """Return the lines of all partitions, and a line for each one that does not answer."""
    found = read_everywhere(lambda: read_attention(now=now), _read_elsewhere)
    return _together(found.own, found)


def read_attention_for_open_page(*, now: dt.datetime) -> list[AttentionLine]:
    """
    Return the same lines as `read_attention_everywhere`, but those of other partitions may be some seconds old.

    An open page is read repeatedly, and must not wait for a silent partition.
    """
    own, cached = read_attention(now=now), _cached.answers()
    return own if cached is None else _together(own, cached.with_own(own))


def _together(own: _Lines, found: Merged[_Lines]) -> list[AttentionLine]:
    known = {line.key for line in own if line.kind == "partition_silent"}
    silent = [line_of_silent(one) for one in found.silent if one.name not in known]
    return in_order([*own, *silent, *(line for lines in found.others.values() for line in lines)])


def _read_elsewhere(name: str) -> _Lines:
    """Return the lines of the partition whose database this thread uses, with links for the control partition."""
    with Moment().present():
        lines = [_Linked(line) for line in read_of_database(now=read_clock())]
    numbers = numbers_of({one.job for one in lines if one.job is not None})
    return [one.seen_elsewhere(name, numbers) for one in lines]


class _Linked:
    """
    A line of another partition. `job` is the id, in that partition, of the job to which its link leads; None without a
    job.
    """

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
            link = address_in(partition, self._line.link)
        elif number is not None and name in _OF_JOBS:
            link, key = reverse(name, args=[number]), str(number)
        elif number is not None and name == "documents":
            query = {**self._query, "job": [str(number)]}
            link, key = f"{reverse(name)}?{urlencode(query, doseq=True)}", str(number)
        return replace(self._line, partition=partition, key=key, link=link)


_cached: Final = HeldAnswers(_read_elsewhere)
