"""
Requests to the cluster, as doors make them: one row, one notification, and a short wait for the main's answer.

Only the main does anything about a request, so nothing happens twice and nothing happens under an old term.
A door that comes to the end of its patience hands out the request's number: the row tells the rest.
"""

import datetime as dt
import time
import uuid
from collections.abc import Mapping
from typing import Any, Final

from django.db import IntegrityError, connection, transaction

from nodes.lifecycle import CLUSTER_SCOPE
from nodes.models import ClusterRequest

# How long a door waits for an answer, and how often it looks.
_PATIENCE: Final = 5.0
_LOOK: Final = 0.05

_HAS_MAIN: Final = """
SELECT EXISTS (SELECT FROM nodes_mainterm AS term JOIN nodes_node AS node ON node.id = term.main_id
                WHERE term.scope = %(scope)s AND NOT term.resigned AND node.status IN ('running', 'draining')
                  AND extract(epoch FROM clock_timestamp() - node.heartbeat_at) <= node.timeout_seconds)
"""


class NoMain(Exception):
    """Nobody is there who could answer. Nothing was asked for; trying again can help."""

    def __init__(self) -> None:
        super().__init__("The cluster has no main now: start a manager, or wait for the next election.")


class RequestRefused(Exception):
    """The main could not do what was asked; nothing was changed."""


def ask(
    kind: ClusterRequest.Kind,
    *,
    channel: str,
    item: int | None = None,
    node: uuid.UUID | None = None,
    dry_run: bool = False,
    asked_by: str,
    now: dt.datetime,
) -> ClusterRequest:
    """
    Ask the main of the cluster, who listens on `channel`, and return the request with its answer, or still open.

    Who asks for what somebody else has asked for a moment ago gets that request.

    Raises:
        NoMain: nobody could answer.
        RequestRefused: the main says why not.
    """
    with connection.cursor() as cursor:
        cursor.execute(_HAS_MAIN, {"scope": CLUSTER_SCOPE})
        if not cursor.fetchone()[0]:
            raise NoMain
    wanted = {"kind": kind, "scope": CLUSTER_SCOPE, "item": item, "node": node, "dry_run": dry_run}
    request = _find_or_make(wanted, asked_by=asked_by, now=now)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", (channel, CLUSTER_SCOPE))
    deadline = time.monotonic() + _PATIENCE
    while request.state == ClusterRequest.State.WAITING and time.monotonic() < deadline:
        time.sleep(_LOOK)
        request.refresh_from_db()
    if request.state == ClusterRequest.State.REFUSED:
        raise RequestRefused(request.reason)
    return request


def _find_or_make(wanted: Mapping[str, Any], *, asked_by: str, now: dt.datetime) -> ClusterRequest:
    while True:
        try:
            with transaction.atomic():
                return ClusterRequest.objects.create(**wanted, asked_by=asked_by, asked_at=now)
        except IntegrityError:
            open_one = ClusterRequest.objects.filter(
                **wanted, state__in=(ClusterRequest.State.WAITING, ClusterRequest.State.UNDER_WAY)
            ).first()
            # Otherwise it has ended between the two looks: then a new one can be made.
            if open_one is not None:
                return open_one
