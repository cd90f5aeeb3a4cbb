"""The kinds of tasks that inject a fault, and that try a restore, in a sandbox."""

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

from crawlctl.backups.errors import BackupError
from crawlctl.backups.verbs import given_passphrase
from crawlctl.drill.drill import perform_in_sandbox
from crawlctl.drill.faults import DRILLS, Fault, Target
from crawlctl.drill.restoring import perform_restore
from nodes.database.clock import read_clock
from nodes.tasks.context import TaskContext
from nodes.tasks.kinds import Kind


class DrillFailed(Exception):
    """The cluster did not recover as expected. The message names the first missing event."""


def inject(context: TaskContext, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """
    Inject a fault in a sandbox. Return the report.

    Raises:
        DrillFailed: an expected event did not happen. The report is stored.
        SandboxFailed: the sandbox did not become ready.
        NoVictim: the sandbox has no such node.
    """
    fault, whom = arguments["drill"].split()

    report = perform_in_sandbox(
        Fault(fault), Target(whom), seconds=None, write_line=lambda line: context.report({"step": line})
    )
    if not report.is_good:
        raise DrillFailed(report.missing[0])
    return report.as_facts()


def try_restore(context: TaskContext, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """
    Restore the newest state, or the state of some minutes ago, in a sandbox. Return the report.

    Raises:
        BackupError: the drill failed. The report is stored.
    """
    until = None
    if "minutes_ago" in arguments:
        until = read_clock() - dt.timedelta(minutes=arguments["minutes_ago"])
    report = perform_restore(
        until=until, passphrase=given_passphrase(), write_line=lambda line: context.report({"step": line})
    )
    if not report.is_good:
        raise BackupError(report.missing[0])
    return report.as_facts()


DRILL: Final = Kind(
    name="drill",
    title="Inject a fault in a sandbox, and measure the recovery",
    run=inject,
    properties={"drill": {"enum": list(DRILLS)}},
    required=("drill",),
)
DRILL_RESTORE: Final = Kind(
    name="drill_restore",
    title="Restore the newest backup in a sandbox, and measure it",
    run=try_restore,
    properties={"minutes_ago": {"type": "number", "minimum": 0, "maximum": 100_000}},
)
KINDS: Final = (DRILL, DRILL_RESTORE)
