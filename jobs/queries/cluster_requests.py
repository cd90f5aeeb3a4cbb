"""How far a request to the cluster has come."""

from typing import Final

from django.db import connection

from nodes.models import ClusterRequest

# Groups that their old owners have not let go yet.
_MOVING: Final = """
SELECT count(*)
  FROM nodes_clusterrequest AS request, jsonb_to_recordset(request.answer -> 'moves') AS move("group" bigint, epoch bigint)
  JOIN jobs_throttlegroup AS held ON held.id = move."group" AND held.epoch = move.epoch AND held.state = 'releasing'
 WHERE request.id = %(request)s
"""


def progress_of(request: ClusterRequest) -> dict[str, int]:
    """How many groups a request moves, and how many of them have arrived."""
    moves = len(request.answer["moves"]) if request.answer and not request.dry_run else 0
    if request.state != ClusterRequest.State.UNDER_WAY or not moves:
        return {"moves": moves, "arrived": moves}
    with connection.cursor() as cursor:
        cursor.execute(_MOVING, {"request": request.pk})
        (moving,) = cursor.fetchone()
    return {"moves": moves, "arrived": moves - int(moving)}
