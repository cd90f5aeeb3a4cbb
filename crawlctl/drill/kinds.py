"""The kind of tasks that tries a restore."""

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

from crawlctl.backups.errors import BackupError
from crawlctl.backups.verbs import given_passphrase
from crawlctl.drill.restoring import perform_restore
from nodes.database.clock import read_clock
from nodes.tasks.context import TaskContext
from nodes.tasks.kinds import Kind


def try_restore(context: TaskContext, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """
    Restore the newest state, or that of some minutes ago, in a sandbox. Return the report.

    Raises:
        BackupError: the drill failed. The report is stored.
    """
    until = None
    if "minutes_ago" in arguments:
        until = read_clock() - dt.timedelta(minutes=arguments["minutes_ago"])
    report = perform_restore(
        until=until, passphrase=given_passphrase(), say=lambda line: context.report({"step": line})
    )
    if not report.is_good:
        raise BackupError(report.missing[0])
    return report.as_facts()


DRILL_RESTORE: Final = Kind(
    name="drill_restore",
    title="Restore the newest backup in a sandbox, and measure it",
    run=try_restore,
    properties={"minutes_ago": {"type": "number", "minimum": 0, "maximum": 100_000}},
)
KINDS: Final = (DRILL_RESTORE,)
