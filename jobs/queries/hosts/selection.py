"""Selection of hosts: the busiest, or those with a name or a state, a page at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection

from jobs.models import Bin
from jobs.queries.rehearsals.policies import EXAMINED_HOSTS, Counted
from jobs.queue.sql.low_water import LOWEST_TURN
from jobs.throttling.patterns import matches, patterns_of

# Number of hosts on one page.
A_PAGE: Final = 50
# A character that sorts after all names with the same beginning.
_LAST: Final = "\U0010ffff"
# Largest number of seeds whose lanes are searched for waiting hosts.
_SEEDS: Final = 200

# States to filter by, as conditions on the table.
STATES: Final = {"backing_off": "bin.back_off_level > 0", "stopped": "bin.stopped_at IS NOT NULL"}

# Hosts with open turns, those with the most requests first; then waiting hosts, the longest wait first. The number of
# open turns depends on workers and managers, not on the size of the queue. A few lanes of each running seed are
# examined.
_BUSIEST: Final = f"""
WITH open AS (
    SELECT bin_id, sum(requests) AS requests, sum(documents) AS documents
      FROM jobs_turn WHERE closed_at IS NULL AND id >= {LOWEST_TURN} GROUP BY bin_id
     ORDER BY requests DESC, documents DESC, bin_id LIMIT %(limit)s
), waiting AS (
    SELECT lane.bin_id, min(lane.ready_at) AS ready_at
      FROM (SELECT seed.id FROM jobs_job AS job JOIN jobs_seed AS seed ON seed.job_id = job.id
             WHERE job.phase = 'active' LIMIT %(seeds)s) AS running
     CROSS JOIN (VALUES (true), (false)) AS ahead(is_ahead)
     CROSS JOIN LATERAL (SELECT bin_id, ready_at FROM jobs_lanestate
                          WHERE seed_id = running.id AND is_ahead = ahead.is_ahead AND ready_at IS NOT NULL
                          ORDER BY ready_at LIMIT %(limit)s) AS lane
     GROUP BY lane.bin_id
)
SELECT bin_id FROM open FULL JOIN waiting USING (bin_id)
 ORDER BY requests DESC NULLS LAST, documents DESC NULLS LAST, ready_at, bin_id LIMIT %(limit)s
"""
# In the order of names; with a state in the order of ids, because each state has an index of its few hosts. Conditions
# are added from constants.
_LIST: Final = """
SELECT bin.id FROM jobs_bin AS bin WHERE {conditions} ORDER BY {order} LIMIT %(limit)s
"""
_OF_CONNECTORS: Final = f"bin.namespace NOT IN ('{Bin.ADDRESS}', '{Bin.POLICY}')"
_NAMED: Final = """bin.name COLLATE "C" >= %(name)s AND bin.name COLLATE "C" < %(behind)s"""
_BEHIND: Final = {
    "id": "bin.id > %(after)s",
    'name COLLATE "C", id': """(bin.name COLLATE "C", bin.id) > (SELECT name COLLATE "C", id FROM jobs_bin WHERE id = %(after)s)""",
}


@dataclass(frozen=True, slots=True)
class HostFilter:
    """
    The hosts to list. Their names begin with `name`, and they are in `state` (a key of STATES). The list continues
    after the id `after`, or after the name `behind`; with `or_equal`, the name itself is included.
    """

    name: str = ""
    state: str = ""
    after: int | None = None
    behind: str = ""
    or_equal: bool = False


@dataclass(frozen=True, slots=True)
class HostIds:
    """One page of hosts. The next page continues after the id `next_key`; None on the last page."""

    ids: Sequence[int]
    next_key: int | None = None


def find_busiest(*, limit: int = A_PAGE) -> list[int]:
    """
    Return the busiest hosts: first hosts with open requests, those with the most first; then waiting hosts, the longest
    wait first.
    """
    return _ids(_BUSIEST, {"limit": limit, "seeds": _SEEDS})


def find_hosts(wanted: HostFilter, *, limit: int = A_PAGE) -> HostIds:
    """Return a page of hosts of connectors, by name; with a state, by id."""
    conditions = [_OF_CONNECTORS]
    order = 'name COLLATE "C", id'
    if wanted.state:
        conditions.append(STATES[wanted.state])
        order = "id"
    if wanted.name:
        conditions.append(_NAMED)
    if wanted.after is not None:
        conditions.append(_BEHIND[order])
    if wanted.behind:
        conditions.append(f'bin.name COLLATE "C" >{"=" if wanted.or_equal else ""} %(last)s')
    values = {
        "name": wanted.name,
        "behind": wanted.name + _LAST,
        "after": wanted.after,
        "last": wanted.behind,
        "limit": limit + 1,
    }
    found = _ids(_LIST.format(conditions=" AND ".join(conditions), order=order), values)
    return HostIds(found[:limit], found[limit - 1] if len(found) > limit else None)


def _ids(query: str, values: dict[str, Any]) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return [row[0] for row in cursor.fetchall()]


def find_denied(pattern: str) -> Counted:
    """
    Return the number of known hosts that a pattern matches, and the first of their names. Only a limited number of
    hosts is examined.
    """
    found, patterns = Counted(), patterns_of(pattern)
    examined = Bin.objects.exclude(namespace__in=[Bin.ADDRESS, Bin.POLICY]).order_by("pk")
    for name in examined.values_list("name", flat=True)[:EXAMINED_HOSTS]:
        if any(matches(each, name) for each in patterns):
            found.add(name)
    return found
