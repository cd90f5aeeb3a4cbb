"""Settings of background tasks."""

import datetime as dt
from typing import Final

from nodes.settings.declaration import Applies, Setting
from nodes.settings.kinds import Seconds, Words

_A_DAY: Final = 24 * 3600

KINDS: Final = Setting(
    path="tasks.kinds",
    environment="CRAWLCTL_TASKS",
    kind=Words(),
    default=(),
    meaning="Kinds of background tasks without an entry point, as package.module:OBJECT (docs/tasks.md).",
)
DEAD_AFTER: Final = Setting(
    path="tasks.considered_dead_after",
    environment="CRAWLCTL_CONSIDERED_DEAD_AFTER",
    kind=Seconds(least=0.5, most=_A_DAY),
    default=dt.timedelta(minutes=30),
    meaning=(
        "Silence after which a task worker is retired and its task goes to another one. A worker whose process ended on the machine of the "
        "main manager is retired immediately."
    ),
    applies=Applies.IMMEDIATELY,
)
STOP_WITHIN: Final = Setting(
    path="tasks.stop_within",
    environment="CRAWLCTL_TASKS_STOP_WITHIN",
    kind=Seconds(most=_A_DAY),
    default=dt.timedelta(seconds=10),
    meaning="Time that a stopping task worker waits for its task. After it, the attempt counts as failed.",
    applies=Applies.AT_NEXT_START,
)
CLEAN_AFTER: Final = Setting(
    path="tasks.clean_after",
    environment="CRAWLCTL_CLEAN_AFTER",
    kind=Seconds(least=1, most=3650 * _A_DAY),
    default=dt.timedelta(days=5),
    meaning="Age from which ended tasks are deleted from the archive.",
    applies=Applies.AT_NEXT_START,
)

SETTINGS: Final = (KINDS, DEAD_AFTER, STOP_WITHIN, CLEAN_AFTER)
