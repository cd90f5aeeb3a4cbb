"""The task that rehearses a change of a job if a request would take too long. Its result equals that of the API."""

import json
from collections.abc import Mapping
from typing import Any, Final

from jobs.api.rehearsals import RehearsalSerializer
from jobs.verbs.rehearsing import KIND, compare, read_arguments
from nodes.database.clock import read_clock
from nodes.tasks.context import TaskContext
from nodes.tasks.kinds import Kind


class _Cancelled(Exception):
    """Ends a rehearsal whose task an operator has cancelled."""


def rehearse(context: TaskContext, arguments: Mapping[str, Any]) -> dict[str, Any] | str:
    """
    Return the effects of a change, as the API does.

    Raises:
        Unknown: the job no longer exists.
    """

    def note(read: int) -> None:
        context.report({"documents": read})
        if context.is_cancelled():
            raise _Cancelled

    now = read_clock()
    try:
        found = compare(read_arguments(arguments, now=now), now=now, note=note)
    except _Cancelled:
        return "The task was cancelled. No effects were found."
    result: dict[str, Any] = json.loads(json.dumps(RehearsalSerializer(found).data))
    return result


REHEARSAL: Final = Kind(
    name=KIND,
    title="Rehearse a change of a job",
    run=rehearse,
    properties={"job": {"type": "integer"}, "change": {"type": "object"}},
    required=("job", "change"),
    # Operators cannot create this task directly, because only a request checks the change as a save does.
    is_internal=True,
)
KINDS: Final = (REHEARSAL,)
