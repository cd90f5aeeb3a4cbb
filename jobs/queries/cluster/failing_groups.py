"""Groups that their managers cannot stuff, with the time and the error."""

import datetime as dt
from dataclasses import dataclass
from typing import Final

from django.db import connection

from nodes.lifecycle import CLUSTER_SCOPE

_SHOWN: Final = 10

_FAILING: Final = """
SELECT held.id, coalesce(policy.name, seed.urls[1], ''), coalesce(owner.name, ''), held.failing_since, held.failing_why
  FROM jobs_throttlegroup AS held
  LEFT JOIN jobs_throttlepolicy AS policy ON policy.id = held.policy_id
  LEFT JOIN jobs_seed AS seed ON seed.id = held.seed_id
  LEFT JOIN nodes_node AS owner ON owner.id = held.owner_id
 WHERE held.failing_since IS NOT NULL
   AND CASE WHEN %(job)s::bigint IS NULL THEN held.node_scope = %(scope)s
            ELSE EXISTS (SELECT FROM jobs_seed AS one WHERE one.group_id = held.id AND one.job_id = %(job)s) END
 ORDER BY held.failing_since, held.id LIMIT %(shown)s
"""


@dataclass(frozen=True, slots=True)
class FailingGroup:
    """A group, by the name of its policy or its first address, with the name of its manager and the error in short."""

    id: int
    name: str
    owner: str
    since: dt.datetime
    why: str
    # Another partition that has the group; '' if this one has it.
    partition: str = ""


def read_failing_groups(*, job_id: int | None = None) -> list[FailingGroup]:
    """Return the first failing groups of a job's seeds, or of the whole cluster."""
    with connection.cursor() as cursor:
        cursor.execute(_FAILING, {"job": job_id, "scope": CLUSTER_SCOPE, "shown": _SHOWN})
        return [FailingGroup(*row) for row in cursor.fetchall()]
