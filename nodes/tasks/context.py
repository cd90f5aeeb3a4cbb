"""The context of one attempt, which a worker gives to the function of a kind."""

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAttempt:
    """The attempt before the present one, as far as it is known."""

    due_at: dt.datetime | None
    started_at: dt.datetime | None
    ended_at: dt.datetime | None
    crashed: bool
    exception: str
    message: str
    trace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """
    An attempt of a task.

    `retry_number` is 0 in the first attempt. If `is_last_retry`, the task is archived even if this attempt fails. The
    function of a long task calls `report` with its progress and ends early when `is_cancelled`.
    """

    task: int
    group: str
    retry_number: int = 0
    is_last_retry: bool = True
    last_attempt: LastAttempt | None = None
    report: Callable[[Mapping[str, Any]], None] = field(default=lambda _progress: None)
    is_cancelled: Callable[[], bool] = field(default=lambda: False)
