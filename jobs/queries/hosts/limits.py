"""The policies, people and files that set the limits of a host, by name."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobs.models import ThrottlePolicy
from jobs.throttling.sources import Source, decisive


@dataclass(frozen=True, slots=True)
class SourceLine:
    """
    The source of a limit, and the name of its policy ('' for none). `is_everywhere` is True if the policy applies to
    all hosts.
    """

    source: Source
    policy: str = ""
    is_everywhere: bool = False

    @property
    def since(self) -> dt.datetime | None:
        return self.source.since


@dataclass(frozen=True, slots=True)
class LimitLines:
    """The source of each limit in force; None for a value without a limit."""

    requests: SourceLine | None
    gap: SourceLine | None
    bytes_per_second: SourceLine | None
    denied: SourceLine | None


@dataclass(frozen=True, slots=True)
class PolicyNames:
    """Names of policies, the times of their last changes, and whether they apply everywhere."""

    by_id: Mapping[int, tuple[str, dt.datetime, bool]]

    @classmethod
    def of(cls, *some: Iterable[Any]) -> "PolicyNames":
        ids = {int(id_) for rows in some for row in rows for id_ in ((row.always or {}) | row.policies)}
        found = ThrottlePolicy.objects.filter(pk__in=ids).values_list("pk", "name", "changed_at", "applies_everywhere")
        return cls({id_: (name, changed_at, everywhere) for id_, name, changed_at, everywhere in found})

    def line(self, source: Source | None) -> SourceLine | None:
        if source is None:
            return None
        if source.policy is None or source.policy not in self.by_id:
            return SourceLine(source)
        name, changed_at, everywhere = self.by_id[source.policy]
        return SourceLine(replace(source, since=max(changed_at, source.since or changed_at)), name, everywhere)

    def lines(self, sources: Sequence[Source]) -> LimitLines:
        found = decisive(sources)
        return LimitLines(
            *map(self.line, (found.requests, found.gap, found.bytes_per_second, found.denied)),
        )
