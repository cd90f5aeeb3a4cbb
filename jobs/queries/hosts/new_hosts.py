"""Hosts that no crawl has reached yet: the limits that would apply to their first request."""

import datetime as dt
from collections.abc import Sequence
from typing import Final, LiteralString

from django.db import connection

from jobs.connectors.repository.kind import BinKind
from jobs.queries.hosts.latest_requests import read_latest_requests
from jobs.queries.hosts.limits import PolicyNames
from jobs.queries.hosts.lines import COLUMNS, HostStatus, line_of
from jobs.queries.hosts.open_documents import read_open_documents
from jobs.queue.pace.limits import AppliedPolicies
from jobs.queue.pace.read_policies import VERSION
from jobs.queue.sql.rows import named_rows

# The row of a bin as discovery would insert it (`jobs.queue.discover`), with the policies of its seeds.
_NEW: Final[LiteralString] = f"""
SELECT {COLUMNS}
  FROM (SELECT 0::bigint AS id, %(namespace)s AS namespace, %(name)s AS name, 0::float AS "interval",
               %(requests)s::int AS usual_requests, %(gap)s::float AS usual_gap, stop.stopped_at,
               coalesce(stop.stopped_by, '') AS stopped_by, coalesce(stop.stopped_why, '') AS stopped_why,
               NULL::timestamptz AS back_off_until, 0 AS back_off_level, NULL::timestamptz AS backing_off_since,
               %(is_known)s AS is_known, NULL::bigint AS parent_id
          FROM (SELECT) AS once
          LEFT JOIN LATERAL (
               SELECT stopped_at, stopped_by, stopped_why FROM jobs_bin
                WHERE %(name)s ~ ':[0-9]+$' AND namespace = %(namespace)s
                  AND name = regexp_replace(%(name)s, ':[0-9]+$', '') AND stops_every_port
                LIMIT 1) AS stop ON true) AS bin
 CROSS JOIN (SELECT NULL::timestamptz AS last_start_at, NULL::timestamptz AS not_before, NULL::float AS paid_rate,
                    NULL::timestamptz AS closed_at, 0::bigint AS starts, 0::bigint AS bytes_read, 0 AS open_turns,
                    0 AS open_requests) AS state
 CROSS JOIN (SELECT json_object_agg(policy.id, {VERSION}) AS policies FROM jobs_throttlepolicy AS policy
              WHERE id = ANY(%(policies)s::bigint[])) AS bound
"""


def read_new_host(name: str, *, bins: BinKind, policies: Sequence[int], now: dt.datetime) -> HostStatus:
    """Return the status that a host would have at its first document, from a seed with one of these policies."""
    facts = {
        "namespace": bins.namespace,
        "name": name,
        "requests": bins.requests,
        "gap": bins.gap,
        "is_known": not bins.asks_first,
        "policies": list(policies),
        "policy": None,
    }
    connection.ensure_connection()
    with named_rows(connection.connection) as cursor:
        row = cursor.execute(_NEW, facts).fetchone()
        applied = AppliedPolicies.read(cursor, [row], now=now)
    names = PolicyNames.of([row])
    latest, open_ = read_latest_requests(now=now), read_open_documents()
    return line_of(row, applied, names.lines(applied.sources_of(row)), (), None, latest, open_, now=now)
