"""The stored configuration of a connection to archives, and the specification of its jobs."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from django.utils.translation import gettext_lazy as _

from jobs.archive.records import RecordKind
from jobs.archive.scanning import Found
from jobs.connectors.repository.archive.places import Place, read_place
from jobs.connectors.repository.filesystem.paths import is_within, shown
from jobs.connectors.repository.filesystem.rules import compile_rule
from jobs.connectors.repository.filesystem.specification import ROOTS, read_roots
from jobs.connectors.repository.kind import BadIdentifier, SourceSettings
from jobs.connectors.repository.web.index_rules import IndexRules
from jobs.connectors.repository.web.robots_rules import is_name, name_of
from jobs.connectors.repository.web.scope import BadPattern, Pattern, Scope, ScopeKind
from jobs.connectors.repository.web.specification import EXCLUDE, INCLUDE, INDEX_RULES
from jobs.connectors.repository.web.specification import ROBOTS_NAME as ROBOTS_NAME_FIELD
from jobs.connectors.schema import BadSpecification, Field, FieldKind, Schema
from jobs.settings.table import ROBOTS_NAME, USER_AGENT
from nodes.settings.running import current

# Statuses that count, in addition to 2xx, if no statuses are configured.
_STATEMENTS: Final = frozenset({301, 302, 303, 304, 307, 308, 404, 410})

EARLIEST: Final = Field(
    name="earliest",
    kind=FieldKind.TEXT,
    label=_("Earliest date"),
    help=_("Answers before this moment are not read: 2026-01-31, or 2026-01-31T12:00:00Z. If empty, no limit applies."),
)
LATEST: Final = Field(
    name="latest",
    kind=FieldKind.TEXT,
    label=_("Latest date"),
    help=_(
        "Answers after this moment are not read. A date without a time includes its day. If empty, no limit applies."
    ),
)
STATUSES: Final = Field(
    name="statuses",
    kind=FieldKind.LINES,
    label=_("Statuses to read"),
    help=_(
        "Status codes such as 200, one per line. Answers with other statuses are not read. If empty, the last answer 2xx, 3xx, 404 or 410 of "
        "an address decides, as in a crawl."
    ),
)
_ROBOTS_NAME: Final = replace(
    ROBOTS_NAME_FIELD,
    label=_("Robot name in robots directives"),
    help=_("Robot name for noindex directives of pages. If empty, the name of this crawler applies."),
)
SPECIFICATION: Final = Schema(
    (
        replace(INCLUDE, help=_("Regular expressions (RE2), one per line. If empty, all addresses are included.")),
        replace(EXCLUDE, help=_("Regular expressions (RE2), one per line.")),
        EARLIEST,
        LATEST,
        STATUSES,
        *INDEX_RULES,
        _ROBOTS_NAME,
    )
)
CONFIGURATION: Final = Schema((ROOTS, *SPECIFICATION.fields))


@dataclass(frozen=True, slots=True)
class ArchiveSpecification:
    """
    `roots` are normal paths. Every seed lies below a root. If `statuses` is empty, 2xx and `_STATEMENTS` count.
    """

    roots: tuple[bytes, ...]
    seeds: tuple[Place, ...]
    scope: Scope
    index_rules: IndexRules
    earliest: dt.datetime | None
    latest: dt.datetime | None
    statuses: frozenset[int]
    robots_name: str

    @classmethod
    def read(cls, source: SourceSettings) -> Self:
        """
        Return the specification of a job's settings.

        Raises:
            BadSpecification: a key is unknown, or a value is invalid.
        """
        said = {**CONFIGURATION.read(source.configuration), **SPECIFICATION.read(source.specification)}
        roots = read_roots(said["roots"])
        name = said.get("robots_name", "")
        if name and not is_name(name):
            raise BadSpecification("robots_name", "must be one word of letters, digits, - and _")
        rules = IndexRules(
            types=said.get("content_types", ()),
            max_bytes=said.get("max_bytes"),
            exclude_text=said.get("exclude_text", ()),
        )
        return cls(
            roots=roots,
            seeds=_read_seeds(source.seeds, roots),
            scope=_scope_of(said.get("include", ()), said.get("exclude", ())),
            index_rules=rules,
            earliest=_moment("earliest", said.get("earliest", ""), is_end=False),
            latest=_moment("latest", said.get("latest", ""), is_end=True),
            statuses=_read_statuses(said.get("statuses", ())),
            robots_name=name or current()[ROBOTS_NAME] or name_of(current()[USER_AGENT]),
        )

    def wants(self, found: Found) -> bool:
        """True if an answer of this date and status counts."""
        if self.earliest is not None and found.date < self.earliest:
            return False
        if self.latest is not None and found.date >= self.latest:
            return False
        if not self.statuses:
            return 200 <= found.status < 300 or found.status in _STATEMENTS
        # A not-modified answer counts as the successful answer before it.
        is_success = found.kind is RecordKind.NOT_MODIFIED and any(200 <= status < 300 for status in self.statuses)
        return is_success or found.status in self.statuses


def compile_pattern_of(place: Place) -> Pattern:
    """
    Return the compiled pattern of a place, for paths relative to its folder that begin with a slash.

    Raises:
        BadPattern: the pattern of the place is invalid.
    """
    return compile_rule(f"/{place.pattern}")


def _read_seeds(typed: Sequence[str], roots: Sequence[bytes]) -> tuple[Place, ...]:
    seeds = []
    for address in typed:
        try:
            place = read_place(address)
            if place.pattern:
                compile_pattern_of(place)
        except (BadIdentifier, BadPattern) as error:
            raise BadSpecification("seeds", str(error)) from None
        if not any(is_within(place.path, root) for root in roots):
            allowed = ", ".join(map(shown, roots))
            raise BadSpecification(
                "seeds", f"{address!r} is outside the folders that this connection may read: {allowed}"
            )
        seeds.append(place)
    return tuple(dict.fromkeys(seeds))


def _scope_of(include: Sequence[str], exclude: Sequence[str]) -> Scope:
    for name, patterns in (("include", include), ("exclude", exclude)):
        try:
            Scope(kind=ScopeKind.ANY, seeds=(), include=patterns)
        except BadPattern as error:
            raise BadSpecification(name, str(error)) from None
    return Scope(kind=ScopeKind.ANY, seeds=(), include=include, exclude=exclude)


def _read_statuses(typed: Sequence[str]) -> frozenset[int]:
    for status in typed:
        if not (status.isascii() and status.isdigit() and 100 <= int(status[:4]) <= 599):
            raise BadSpecification("statuses", f"{status[:20]!r} is not a status; write a number such as 200")
    return frozenset(map(int, typed))


def _moment(name: str, typed: str, *, is_end: bool) -> dt.datetime | None:
    """Return an entered moment. If a date without a time ends a range, return the end of that day."""
    if not typed.strip():
        return None
    try:
        moment = dt.datetime.fromisoformat(typed.strip())
        is_day = len(typed.strip()) <= len("2026-01-31")
        # The end of a range is exclusive. So it is the beginning of the next day, or a microsecond after an exact
        # moment.
        step = dt.timedelta(days=1) if is_day else dt.timedelta(microseconds=1)
        end = moment + step if is_end else moment
        return end.astimezone(dt.UTC) if end.tzinfo else end.replace(tzinfo=dt.UTC)
    except (ValueError, OverflowError):
        raise BadSpecification(
            name, f"{typed[:40]!r} is not a date; write 2026-01-31 or 2026-01-31T12:00:00Z"
        ) from None
