"""
Requests of operators to the cluster. The main manager executes them.

Functions take keywords, the author (`made_by`) and `now`. Their errors have messages that can be shown as they are.
"""

import datetime as dt
import uuid
from collections.abc import Mapping
from typing import Any

from jobs.models import ThrottleGroup
from jobs.state import channels
from nodes.errors import Unknown
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership.requests import ask
from nodes.models import ClusterRequest, Node


def rebalance(*, dry_run: bool = False, made_by: str, now: dt.datetime) -> ClusterRequest:
    """
    Request a rebalance of groups over managers from the main manager. With `dry_run`, request only its plan.

    Raises:
        NoMain: the cluster has no main manager.
    """
    return ask(ClusterRequest.Kind.REBALANCE, channel=channels.GROUPS, dry_run=dry_run, asked_by=made_by, now=now)


def move_group(
    group_id: int,
    *,
    to: uuid.UUID,
    expected: Mapping[str, Any] | None = None,
    made_by: str,
    now: dt.datetime,
) -> ClusterRequest:
    """
    Request the move of one group of seeds to another manager.

    `expected` names the owner and the destination that the author has seen. If it is None, the owner does not matter.

    Raises:
        Unknown: the group, or the node, does not exist.
        ChangedMeanwhile: the group has another owner or destination by then.
        Refused: the group cannot move there now.
        NoMain: the cluster has no main manager.
    """
    if not ThrottleGroup.objects.filter(pk=group_id, node_scope=CLUSTER_SCOPE).exists():
        sentence = f"Group {group_id} does not exist. A group exists while one of its seeds is running."
        raise Unknown("group", group_id, sentence)
    _check_node(to)
    return ask(
        ClusterRequest.Kind.MOVE,
        channel=channels.GROUPS,
        item=group_id,
        node=to,
        expected=expected,
        asked_by=made_by,
        now=now,
    )


def drain_node(
    node_id: uuid.UUID,
    *,
    dry_run: bool = False,
    expected: Mapping[str, Any] | None = None,
    made_by: str,
    now: dt.datetime,
) -> ClusterRequest:
    """
    Request that a node finishes or hands over its work, and stops. With `dry_run`, request only the plan of the moves.

    `expected` names the status that the author has seen. If it is None, the status does not matter.

    Raises:
        Unknown: the node does not exist.
        ChangedMeanwhile: the node has another status by then.
        Refused: the node has ended, or no other node could take over.
        NoMain: the cluster has no main manager.
    """
    _check_node(node_id)
    return ask(
        ClusterRequest.Kind.DRAIN,
        channel=channels.GROUPS,
        node=node_id,
        dry_run=dry_run,
        expected=expected,
        asked_by=made_by,
        now=now,
    )


def _check_node(node_id: uuid.UUID) -> None:
    if not Node.objects.filter(pk=node_id, scope=CLUSTER_SCOPE).exists():
        raise Unknown("node", node_id, f"Node {node_id} does not exist in the cluster.")
