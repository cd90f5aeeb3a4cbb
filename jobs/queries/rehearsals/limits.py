"""The limits that apply to hosts while jobs of given policies run, whether or not a job runs now."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Final, LiteralString

from django.db import connection

from jobs.queue.pace.limits import BOUND, FACTS, AppliedPolicies
from jobs.queue.sql.rows import named_rows
from jobs.throttling.limits import Limits
from jobs.throttling.sources import Origin

_LIMITS: Final[LiteralString] = f"SELECT {FACTS} FROM jobs_bin AS bin {BOUND} WHERE bin.id = ANY(%(hosts)s)"


def read_other_limits(
    hosts: Sequence[int], *, but: Sequence[int], with_usual: bool, now: dt.datetime
) -> Mapping[int, list[Limits]]:
    """
    Return the limits of these hosts from all sources except the policies `but`.

    The usual limits of the source count only if `with_usual` is true, because they apply only if no seed has a policy.
    """
    if not hosts:
        return {}
    connection.ensure_connection()
    with named_rows(connection.connection) as cursor:
        rows = cursor.execute(_LIMITS, {"hosts": list(hosts), "policy": None}).fetchall()
        applied = AppliedPolicies.read(cursor, rows, now=now)
    return {
        row.id: [
            source.limits
            for source in applied.sources_of(row)
            if source.policy not in but and (with_usual or source.origin != Origin.USUAL)
        ]
        for row in rows
    }
