"""The duty of webmasters' limits: the main manager removes expired limits."""

from typing import Final, LiteralString

from psycopg.types.json import Jsonb

from jobs.duties.context import Pass
from jobs.models.webmaster import WEBMASTERS
from jobs.state import channels
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership.fences import hold_term

LIMITS_TO_END: Final[LiteralString] = f"""
%(scope)s = '{CLUSTER_SCOPE}' AND EXISTS (SELECT FROM jobs_webmasterlimit WHERE expires_at <= clock_timestamp())
"""
# Locks: the policy, because changes of the policy lock it, too, and the deleted rows.
_LOCK: Final[LiteralString] = "SELECT id FROM jobs_throttlepolicy WHERE name = %(name)s FOR UPDATE"
_END: Final[LiteralString] = """
WITH ended AS (
    DELETE FROM jobs_webmasterlimit WHERE expires_at <= clock_timestamp() RETURNING host
), rules AS (
    DELETE FROM jobs_throttlerule AS rule USING jobs_throttlepolicy AS policy, ended
     WHERE policy.id = rule.policy_id AND policy.name = %(name)s
       AND lower(rule.pattern) IN (ended.host, ended.host || ':*')
)
INSERT INTO nodes_nodeevent (scope, kind, message, detail, at)
SELECT %(scope)s, 'changed', 'the limit that a webmaster of ' || host || ' asked for has expired', %(detail)s, clock_timestamp()
  FROM ended
"""


def end_webmasters_limits(at: Pass) -> int:
    """Remove the limits of webmasters that have expired; return the number of limits."""
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        facts = {"name": WEBMASTERS, "scope": at.scope, "detail": Jsonb({"by": "a webmaster"})}
        at.connection.execute(_LOCK, facts)
        ended = at.connection.execute(_END, facts).rowcount
        at.connection.execute("SELECT pg_notify(%s, %s)", (channels.CONTROL, channels.LIMITS))
    return ended
