"""Maximum activity and maximum bandwidth: the busiest time of each class of identifiers, and its amount."""

import datetime as dt
import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from jobs.partitions.merged import Silent
from jobs.queries.reports.classes import EVERYTHING, class_of
from jobs.queries.reports.execution import check_patterns, read_position, run_report, write_position
from jobs.queries.reports.history_filter import HistoryFilter

SHORTEST_INTERVAL: Final = dt.timedelta(seconds=1)
LONGEST_INTERVAL: Final = dt.timedelta(days=1)
DEFAULT_INTERVAL: Final = dt.timedelta(minutes=5)


class Measure(enum.StrEnum):
    """The amount that is summed over an interval: activities that began in it, or their bytes."""

    EVENTS = "events"
    BYTES = "bytes"


_AMOUNTS: Final = {Measure.EVENTS: "count(*)", Measure.BYTES: "sum(bytes)"}

# Only intervals that begin with an activity are examined: no other interval is busier than the busiest of these. The
# end does not belong to an interval. If two intervals are equally busy, the first one is returned.
_BUSIEST: Final = """
WITH happened AS (
    SELECT past.started_at, coalesce(past.bytes, 0) AS bytes, {class_} AS class_ FROM jobs_activity AS past WHERE {where}
), added_up AS (
    SELECT class_, started_at, {amount} OVER (
               PARTITION BY class_ ORDER BY started_at
               RANGE BETWEEN CURRENT ROW AND %(interval)s FOLLOWING) AS amount
      FROM happened
), best AS (
    SELECT class_, max(amount) AS amount FROM added_up GROUP BY class_
), page AS (
    SELECT * FROM best
     WHERE amount > 0 AND (%(last_amount)s::numeric IS NULL OR (-amount, class_) > (-%(last_amount)s::numeric, %(last_class)s))
     ORDER BY amount DESC, class_ LIMIT %(limit)s
)
SELECT page.class_, page.amount::bigint AS amount, min(added_up.started_at) AS began_at
  FROM page JOIN added_up ON added_up.class_ = page.class_ AND added_up.amount = page.amount
 GROUP BY page.class_, page.amount
 ORDER BY page.amount DESC, page.class_
"""


@dataclass(frozen=True, slots=True)
class BusyLine:
    """A class of identifiers, and its busiest interval. The `partition` is named if it is not this one."""

    identifier_class: str
    began_at: dt.datetime
    ended_at: dt.datetime
    amount: int
    partition: str = ""

    @property
    def position(self) -> Sequence[Any]:
        return [self.amount, self.identifier_class]

    @property
    def per_minute(self) -> float:
        return 60 * self.amount / (self.ended_at - self.began_at).total_seconds()


@dataclass(frozen=True, slots=True)
class BusyPage:
    """
    A page of classes, the busiest first; `next` is the `after` of the page that follows. `silent` partitions are
    missing.
    """

    lines: Sequence[BusyLine]
    next: str | None
    silent: Sequence[Silent] = ()


def read_busiest(
    wanted: HistoryFilter,
    *,
    measure: Measure,
    interval: dt.timedelta = DEFAULT_INTERVAL,
    identifier_class: str = EVERYTHING,
    limit: int,
    after: str | Sequence[Any] | None = None,
) -> BusyPage:
    """
    Return the busiest `interval` of each class of identifiers.

    An activity counts, with all its bytes, at the moment at which it began.

    Raises:
        BadPattern, BadPosition: an argument is invalid.
        TooSlow: the statement took too long.
    """
    wanted.check()
    check_patterns({"identifier_class": identifier_class})
    order = f"busiest by {measure}"
    last_amount, last_class = read_position(after, of=order) if after else (None, None)
    statement = _BUSIEST.format(
        where=wanted.where,
        class_=class_of("past.entity", identifier_class, parameter="identifier_class"),
        amount=_AMOUNTS[measure],
    )
    values: dict[str, Any] = {
        **wanted.values,
        "identifier_class": identifier_class,
        "interval": interval - dt.timedelta(microseconds=1),
        "last_amount": last_amount,
        "last_class": last_class,
        "limit": limit + 1,
    }
    found = run_report(statement, values, by_many=identifier_class != EVERYTHING)
    shown = found[:limit]
    more = len(found) > limit
    lines = [BusyLine(row.class_, row.began_at, row.began_at + interval, row.amount) for row in shown]
    return BusyPage(
        lines,
        write_position(lines[-1].position, of=order) if more else None,
    )
