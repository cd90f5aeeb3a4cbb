"""
The texts of the page about the clusters of all partitions: a line for each partition, then the nodes of all partitions.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.partitions import this_partition
from jobs.partitions.merged import Merged, Placed, Silent, merge_lines
from jobs.partitions.this_partition import addresses_in, key_in
from jobs.queries.cluster.all_partitions import checks_of_all, sum_of_totals
from jobs.queries.cluster.nodes import NodeLine
from jobs.queries.cluster.page import (
    EVENTS_SHOWN,
    NODES_SHOWN,
    REQUESTS_SHOWN,
    TERMS_SHOWN,
    ClusterPage,
    EventLine,
    RequestLine,
)
from jobs.ui.cluster_screen import (
    check_row,
    cluster_screen,
    event_row,
    more_nodes,
    request_row,
    term_row,
    verdict_of,
)
from nodes.web import formats
from nodes.web.screens import Record

# Key of the line with the sums. No partition has such a name.
_SUM: Final = "+"
# Largest number of names of silent nodes in one line.
_NAMES_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class _Part:
    """The cluster of a partition. `foreign` is the name of another partition; "" for this one."""

    foreign: str
    name: str
    page: ClusterPage
    screen: Record

    @property
    def main(self) -> NodeLine | None:
        """Return its main manager; None if it has none."""
        return next((node for node in self.page.managers if node.id == self.page.term.main), None)

    @property
    def silent_nodes(self) -> list[str]:
        """Return the names of those shown nodes that have been silent for too long."""
        return [node.name for node in (*self.page.managers, *self.page.workers) if self.is_silent(node)]

    def is_silent(self, node: NodeLine) -> bool:
        return node.is_silent(now=self.page.read_at)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a list of the screen, each with the name of the partition."""
        rows: Any = self.screen[name]
        return [{**row, "partition": partition_in_words(self.name)} for row in rows]


def clusters_screen(found: Merged[ClusterPage]) -> Record:
    """Return the screen of the only cluster, or of the clusters of all partitions."""
    if not this_partition.control_name():
        return {**cluster_screen(found.own, now=found.own.read_at), "partitions": []}
    parts = [_part(name, page) for name, page in {"": found.own, **dict(sorted(found.others.items()))}.items()]
    checks = checks_of_all({part.name: part.page.checks for part in parts})
    verdict = verdict_of(checks)
    if found.silent and verdict["verdict_tone"] == "indexed":
        verdict = {"verdict": _("Not all known"), "verdict_tone": "waiting"}
    now = found.own.read_at
    totals = sum_of_totals([part.page.totals for part in parts])
    managers, workers = _cards(parts, "managers"), _cards(parts, "workers")
    return {
        **_main_managers(parts, found.silent),
        **_sums(parts, is_partial=bool(found.silent)),
        "partitions": [
            *map(_line, parts),
            *(_line_of_silent(one, now=now) for one in found.silent),
            _line_of_sums(parts, verdict, is_partial=bool(found.silent)),
        ],
        "troubles": [
            {**_keyed(part, row), "says": f"{part.name}: {row['says']}"}
            for part in parts
            for row in part.rows("troubles")
        ],
        "managers": managers,
        "more_managers": more_nodes(totals.managers - len(managers)),
        "free": [
            {**_keyed(part, row), "name": f"{part.name}: {row['name']}"} for part in parts for row in part.rows("free")
        ],
        "workers": workers,
        "more_workers": more_nodes(totals.workers - len(workers)),
        "terms": _merged(found, parts, lambda page: page.terms, term_row, most=TERMS_SHOWN),
        "events": _merged(found, parts, lambda page: page.events, event_row, most=EVENTS_SHOWN),
        "requests": _merged(
            found, parts, lambda page: page.requests, request_row, most=REQUESTS_SHOWN, key=lambda one: one.asked_at
        ),
        "checks": [check_row(check, now=now) for check in checks],
        **verdict,
    }


def partition_in_words(name: str) -> str:
    return _("Partition %(name)s") % {"name": name}


def _part(foreign: str, page: ClusterPage) -> _Part:
    with addresses_in(foreign):
        screen = cluster_screen(page, now=page.read_at)
    return _Part(foreign, foreign or this_partition.control_name(), page, screen)


def _main_managers(parts: Sequence[_Part], silent: Sequence[Silent]) -> Record:
    """Return the warnings about the main managers of all partitions."""
    without = [part for part in parts if part.main is None]
    late = [part for part in parts if part.main is not None and part.is_silent(part.main)]
    if without:
        said, remedy = _("None in partition %(names)s"), str(without[0].screen["term"])
        return _alarm(said, (part.name for part in without), remedy)
    if silent:
        remedy = _("Check its database. Its nodes are missing here, so the true counts may be higher.")
        return _alarm(_("No answer from partition %(names)s"), (one.name for one in silent), remedy)
    if late:
        remedy = _("Its heartbeat is late. Another manager becomes the main manager after its timeout.")
        return _alarm(_("Silent in partition %(names)s"), (part.name for part in late), remedy)
    said = _("One in each of %(n)s partitions") % {"n": formats.number(len(parts))}
    return {"main_name": said, "main_tone": "working", "term": ""}


def _alarm(said: str, names: Iterable[str], remedy: str) -> Record:
    return {"main_name": said % {"names": ", ".join(names)}, "main_tone": "failed", "term": remedy}


def _sums(parts: Sequence[_Part], *, is_partial: bool) -> dict[str, str]:
    totals = sum_of_totals([part.page.totals for part in parts])
    return {
        "managers_count": count_in_words(totals.managers, is_partial=is_partial),
        "workers_count": count_in_words(totals.workers, is_partial=is_partial),
        "groups_count": count_in_words(totals.groups, is_partial=is_partial),
        "batches_count": count_in_words(totals.batches, is_partial=is_partial),
        "in_flight_count": count_in_words(totals.in_flight, is_partial=is_partial),
    }


def count_in_words(number: int, *, is_partial: bool) -> str:
    """
    Return a sum over partitions in words. If it `is_partial`, some partitions did not answer, so the words say "at
    least".
    """
    said = formats.number(number)
    return _("at least %(n)s") % {"n": said} if is_partial else said


def _line(part: _Part) -> dict[str, Any]:
    silent = part.silent_nodes
    with addresses_in(part.foreign):
        address, rebalance = reverse("cluster"), reverse("cluster-rebalance")
    return {
        **{name: part.screen[name] for name in ("main_name", "main_tone", "term", "verdict", "verdict_tone")},
        **_sums([part], is_partial=False),
        "key": part.name,
        "name": part.name,
        "link": _("Page of the partition") if part.foreign else "",
        "address": address,
        "free_count": formats.number(part.page.free.in_all),
        "free_tone": "failed" if part.page.free.in_all else "quiet",
        "silent_count": formats.number(len(silent)),
        "silent_names": ", ".join(silent[:_NAMES_SHOWN]) + (" …" if len(silent) > _NAMES_SHOWN else ""),
        "silent_tone": "failed" if silent else "quiet",
        "acts": [{"key": "rebalance", "address": rebalance, "label": _("Rebalance …"), "tone": "plain"}],
    }


def _line_of_silent(silent: Silent, *, now: dt.datetime) -> dict[str, Any]:
    counts = ("managers", "workers", "groups", "batches", "in_flight", "free", "silent")
    said = (
        _("Its last figures came %(age)s.") % {"age": formats.age(silent.heard_at, now=now)}
        if silent.heard_at is not None
        else _("It has sent no figures yet.")
    )
    return {
        **{f"{name}_count": formats.UNKNOWN for name in counts},
        "key": silent.name,
        "name": silent.name,
        "link": "",
        "address": reverse("partitions"),
        "main_name": _("No answer"),
        "main_tone": "failed",
        "term": said,
        "verdict": _("unknown"),
        "verdict_tone": "failed",
        "free_tone": "quiet",
        "silent_names": "",
        "silent_tone": "quiet",
        "acts": [],
    }


def _line_of_sums(parts: Sequence[_Part], verdict: Record, *, is_partial: bool) -> dict[str, Any]:
    free = sum(part.page.free.in_all for part in parts)
    silent = sum(len(part.silent_nodes) for part in parts)
    mains = sum(part.main is not None for part in parts)
    return {
        **_sums(parts, is_partial=is_partial),
        **verdict,
        "key": _SUM,
        "name": _("All"),
        "link": "",
        "address": reverse("cluster"),
        "main_name": count_in_words(mains, is_partial=is_partial),
        "main_tone": "quiet" if mains == len(parts) and not is_partial else "failed",
        "term": "",
        "free_count": count_in_words(free, is_partial=is_partial),
        "free_tone": "failed" if free else "quiet",
        "silent_count": count_in_words(silent, is_partial=is_partial),
        "silent_names": "",
        "silent_tone": "failed" if silent else "quiet",
        "acts": [],
    }


def _cards(parts: Sequence[_Part], kind: str) -> list[dict[str, Any]]:
    """
    Return the nodes of all partitions, one partition after the other. If there are too many nodes for the page, the
    important ones come first, and the rest is left out.
    """
    found: list[tuple[bool, dict[str, Any]]] = []
    for part in parts:
        nodes: Sequence[NodeLine] = part.page.managers if kind == "managers" else part.page.workers
        for node, row in zip(nodes, part.rows(kind), strict=True):
            found.append((node.is_main or part.is_silent(node), row))
    if len(found) > NODES_SHOWN:
        found.sort(key=lambda one: not one[0])
    return [row for _is_important, row in found[:NODES_SHOWN]]


def _merged(
    found: Merged[ClusterPage],
    parts: Sequence[_Part],
    lines: Callable[[ClusterPage], Sequence[Any]],
    row: Callable[..., Record],
    *,
    most: int,
    key: Callable[[Any], Any] = lambda one: one.at,
) -> list[dict[str, Any]]:
    """Return the newest lines of all partitions together."""
    by_name = {part.foreign: part for part in parts}
    newest: list[Placed[EventLine | RequestLine]] = merge_lines(found, lines, key=key, is_downwards=True)[:most]
    return [_keyed(by_name[one.partition], row(one.line, now=found.own.read_at)) for one in newest]


def _keyed(part: _Part, row: Record) -> dict[str, Any]:
    """Return a row with the name of its partition, and with this name in its key."""
    return {**row, "partition": partition_in_words(part.name), "key": key_in(part.foreign, row["key"])}
