"""Sends a request to the cluster for a command, and describes its plan and its result."""

from collections.abc import Callable, Iterator
from typing import Any

from django.core.management.base import CommandError

from nodes.errors import Refused, Unknown
from nodes.models import ClusterRequest


def ask(order: Callable[[], ClusterRequest]) -> ClusterRequest:
    """
    Send a request, and return it.

    Raises:
        CommandError: with code 2 if an object does not exist, with code 1 if the request is impossible now.
    """
    try:
        return order()
    except Unknown as unknown:
        raise CommandError(str(unknown), returncode=2) from unknown
    except Refused as refused:
        raise CommandError(str(refused), returncode=1) from refused


def lines_about(request: ClusterRequest) -> Iterator[str]:
    """Yield lines that describe the request and its answer."""
    yield f"Request {request.pk}, {request.kind}: {request.get_state_display()}"
    if request.answer is not None:
        yield from _plan(request.answer)


def _plan(answer: dict[str, Any]) -> Iterator[str]:
    names = {load["manager"]: load["name"] for load in answer["before"]}
    after = {load["manager"]: load for load in answer["after"]}
    for move in answer["moves"]:
        yield f"  group {move['group']} ({move['name']}): {names[move['owner']]} -> {names[move['to']]}"
    for load in answer["before"]:
        then = after[load["manager"]]
        yield (
            f"  {load['name']} ({load['manager']}): {load['groups']} -> {then['groups']} groups,"
            f" weight {load['weight']:g} -> {then['weight']:g}"
        )
