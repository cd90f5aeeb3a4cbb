"""The plans of requests to the cluster in lists, and their progress."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection

from nodes.models import ClusterRequest

_SHOWN: Final = 3

# Reads plans in brief. A group counts as moving until its old owner has handed it over.
_PLANS: Final = f"""
SELECT request.id, jsonb_array_length(request.answer -> 'moves'),
       jsonb_path_query_array(request.answer, '$.moves[0 to {_SHOWN - 1}]'), request.answer -> 'before', request.answer -> 'after',
       CASE WHEN request.state = 'in_progress' THEN (
           SELECT count(*)
             FROM jsonb_to_recordset(request.answer -> 'moves') AS move("group" bigint, epoch bigint)
             JOIN jobs_throttlegroup AS held ON held.id = move."group" AND held.epoch = move.epoch AND held.state = 'releasing'
       ) ELSE 0 END
  FROM nodes_clusterrequest AS request
 WHERE request.id = ANY(%(requests)s)
"""


@dataclass(frozen=True, slots=True)
class PlanInBrief:
    """
    The plan of the main manager: its first moves, each manager's load before and after, and the number of open moves.
    """

    moves_in_all: int
    first_moves: Sequence[Mapping[str, Any]]
    before: Sequence[Mapping[str, Any]]
    after: Sequence[Mapping[str, Any]]
    moving: int


def read_plans(requests: Iterable[ClusterRequest]) -> dict[int, PlanInBrief]:
    """
    Return the plan of each answered request that has one, in brief, because a plan may have thousands of moves: one for
    each group.
    """
    answered = [request.pk for request in requests if request.answered_at is not None]
    with connection.cursor() as cursor:
        cursor.execute(_PLANS, {"requests": answered})
        return {
            request_id: PlanInBrief(in_all, json.loads(first), json.loads(before), json.loads(after), moving)
            for request_id, in_all, first, before, after, moving in cursor.fetchall()
            if in_all is not None
        }


def progress_of(request: ClusterRequest, plan: PlanInBrief | None) -> dict[str, int]:
    """Return the number of groups that a request moves, and the number of arrived ones."""
    moves = plan.moves_in_all if plan is not None and not request.dry_run else 0
    moving = plan.moving if plan is not None and request.state == ClusterRequest.State.IN_PROGRESS else 0
    return {"moves": moves, "arrived": max(0, moves - moving)}
