"""
Requests to the cluster, as pages, API and commands make them: one row, one notification, and a short wait.

Only the main manager acts on a request, so no request is executed twice or under an old term. If no answer
comes in time, the caller gets the request's number. Its row shows the outcome later.
"""

import datetime as dt
import time
import uuid
from collections.abc import Mapping
from typing import Any, Final

from django.db import IntegrityError, connection, transaction
from django.db.models import Q

from nodes.errors import ChangedMeanwhile, Refused
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.models import ClusterRequest

# Longest wait for an answer, and interval between two reads (seconds).
_ANSWER_TIMEOUT: Final = 5.0
_READ_INTERVAL: Final = 0.05

_HAS_MAIN: Final = """
SELECT EXISTS (SELECT FROM nodes_mainterm AS term JOIN nodes_node AS node ON node.id = term.main_id
                WHERE term.scope = %(scope)s AND NOT term.resigned AND node.status IN ('running', 'draining')
                  AND extract(epoch FROM clock_timestamp() - node.heartbeat_at) <= node.timeout_seconds)
"""


class NoMain(Refused):
    """The cluster has no main manager that could answer. No request was made. Retrying can help."""

    code = "no_main"

    def __init__(self) -> None:
        super().__init__("The cluster has no main manager now: start a manager, or wait for the next election.")


def ask(
    kind: ClusterRequest.Kind,
    *,
    channel: str,
    item: int | None = None,
    node: uuid.UUID | None = None,
    dry_run: bool = False,
    expected: Mapping[str, Any] | None = None,
    asked_by: str,
    now: dt.datetime,
) -> ClusterRequest:
    """
    Ask the main manager of the cluster, which listens on `channel`. Return the request, answered or still open.

    If an equal request is open, return that one. The main manager compares the state of the object with `expected` in
    the transaction of its change.

    Raises:
        NoMain: no main manager could answer.
        ChangedMeanwhile: the object is not in the state `expected`.
        Refused: the main manager refused, with the reason.
    """
    with connection.cursor() as cursor:
        cursor.execute(_HAS_MAIN, {"scope": CLUSTER_SCOPE})
        if not cursor.fetchone()[0]:
            raise NoMain
    wanted = {"kind": kind, "scope": CLUSTER_SCOPE, "item": item, "node": node, "dry_run": dry_run}
    request = _find_or_make(wanted, expected=expected, asked_by=asked_by, now=now)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", (channel, CLUSTER_SCOPE))
    deadline = time.monotonic() + _ANSWER_TIMEOUT
    while request.state == ClusterRequest.State.WAITING and time.monotonic() < deadline:
        time.sleep(_READ_INTERVAL)
        request.refresh_from_db()
    if request.state == ClusterRequest.State.CHANGED:
        raise ChangedMeanwhile(request.reason)
    if request.state == ClusterRequest.State.REFUSED:
        raise Refused(request.reason)
    return request


def _find_or_make(
    wanted: Mapping[str, Any], *, expected: Mapping[str, Any] | None, asked_by: str, now: dt.datetime
) -> ClusterRequest:
    # A comparison with None would look for the JSON value null.
    is_equal = Q(expected=expected) if expected is not None else Q(expected__isnull=True)
    while True:
        try:
            with transaction.atomic():
                return ClusterRequest.objects.create(**wanted, expected=expected, asked_by=asked_by, asked_at=now)
        except IntegrityError:
            open_one = ClusterRequest.objects.filter(
                is_equal, **wanted, state__in=(ClusterRequest.State.WAITING, ClusterRequest.State.IN_PROGRESS)
            ).first()
            # Otherwise the open request ended between the two statements, and a new one can be made.
            if open_one is not None:
                return open_one
