"""Built-in kinds of tasks."""

import time
from collections.abc import Mapping
from typing import Any, Final

from nodes.tasks.cleaning import CLEAN
from nodes.tasks.context import TaskContext
from nodes.tasks.kinds import Kind

# Interval at which a sleeping task checks whether it was cancelled (seconds).
_CHECK_INTERVAL: Final = 0.2


def _sleep(context: TaskContext, arguments: Mapping[str, Any]) -> None:
    """Sleep for the seconds in the arguments, or until the task is cancelled."""
    ends_at = time.monotonic() + arguments["seconds"]
    while (left := ends_at - time.monotonic()) > 0 and not context.is_cancelled():
        time.sleep(min(_CHECK_INTERVAL, left))


SLEEP: Final = Kind(
    name="sleep",
    title="Wait for some seconds, to test a group of workers",
    run=_sleep,
    properties={"seconds": {"type": "number", "minimum": 0, "maximum": 3600}},
    required=("seconds",),
)

KINDS: Final = (SLEEP, CLEAN)
