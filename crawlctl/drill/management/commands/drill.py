"""The command `drill`: it injects a fault on purpose, and measures how the cluster recovers."""

import argparse
import json
import sys
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.table import Table

from crawlctl.backups.errors import Unusable
from crawlctl.backups.places import open_place
from crawlctl.backups.verbs import given_passphrase, parse_moment
from crawlctl.drill.drill import connected, perform, perform_in_sandbox
from crawlctl.drill.faults import DRILLS, Fault, NoVictim, Target
from crawlctl.drill.models import RESTORE, Drill
from crawlctl.drill.observation import Report
from crawlctl.drill.restoring import RestoreReport, perform_restore
from crawlctl.drill.sandbox import SandboxFailed
from crawlctl.processes.startup import make_database_ready
from crawlctl.processes.supervisor import ServiceEnded
from nodes.stores.port import StoreError

_SHOWN: Final = 20
_LONGEST: Final = 3600.0


class Command(BaseCommand):
    help = (
        "Kill or freeze a node, or cut off the database, and measure the recovery of the cluster. The drill runs in a sandbox with a "
        "synthetic site unless --production is given. `drill restore` restores the newest backup in a sandbox."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "fault",
            nargs="?",
            choices=[*(fault.value for fault in Fault), RESTORE],
            help="fault: kill or freeze a process, or cut off the database; restore: try a restore of the newest backup",
        )
        parser.add_argument(
            "whom",
            nargs="?",
            choices=[whom.value for whom in Target],
            help="target: the main manager, another manager, a worker; for cut: database",
        )
        parser.add_argument(
            "--seconds",
            type=float,
            help="duration of a freeze (default: twice the node's timeout) or a cut (default: the timeout)",
        )
        parser.add_argument("--production", action="store_true", help="inject the fault into the real cluster")
        parser.add_argument("--yes", action="store_true", help="with --production: do not ask for confirmation")
        parser.add_argument("--from", metavar="PLACE", dest="place", help="for restore: place of the backups")
        parser.add_argument(
            "--to", metavar="TIME", dest="until", help="for restore: moment to restore, such as 2030-01-31T12:00+00:00"
        )
        parser.add_argument("--json", action="store_true", help="print the report as one line of JSON")
        parser.add_argument("--history", action="store_true", help="show the results of earlier drills")

    def handle(self, *_args: Any, **given: Any) -> None:
        make_database_ready()
        if given["history"]:
            _show_history()
            return
        if given["fault"] == RESTORE:
            self._restore(given)
        if not given["fault"] or not given["whom"]:
            raise CommandError("Write a fault and a target, such as: crawlctl drill kill worker", returncode=2)
        if f"{given['fault']} {given['whom']}" not in DRILLS:
            raise CommandError("cut needs the target database; kill and freeze need a node.", returncode=2)
        if given["seconds"] is not None and given["fault"] == Fault.KILL:
            raise CommandError("kill has no duration: leave --seconds out.", returncode=2)
        if given["seconds"] is not None and not 0 < given["seconds"] <= _LONGEST:
            raise CommandError(
                f"--seconds is {given['seconds']:g}: write a number above 0, up to {_LONGEST:g}.", returncode=2
            )
        if given["yes"] and not given["production"]:
            raise CommandError("--yes needs --production. A sandbox asks for no confirmation.", returncode=2)
        try:
            report = self._perform(given)
        except NoVictim as refused:
            raise CommandError(str(refused), returncode=2) from refused
        except (SandboxFailed, ServiceEnded, OSError) as error:
            raise CommandError(f"The drill ends: {error}", returncode=1) from error
        _show(report)
        if given["json"]:
            self.stdout.write(json.dumps(report.as_facts()))
        sys.exit(0 if report.is_good else 1)

    def _restore(self, given: dict[str, Any]) -> None:
        if given["whom"] or given["production"] or given["seconds"] is not None:
            raise CommandError("drill restore has no target, no --seconds and no --production.", returncode=2)
        try:
            report = perform_restore(
                until=parse_moment(given["until"]) if given["until"] else None, store=open_place(given["place"]) if given["place"] else None, passphrase=given_passphrase(),
                write_line=self._write_line,
            )  # fmt: skip
        except (Unusable, StoreError) as refused:
            raise CommandError(str(refused), returncode=2) from refused
        for name, value in _rows_of_restore(report):
            self.stdout.write(f"{name}: {value}")
        if report.is_sealed is False:
            self.stdout.write(f"The backup {report.backup} is not sealed as a whole, so nothing proves its origin.")
        for sentence in report.missing:
            self.stderr.write(f"The drill failed: {sentence}")
        if given["json"]:
            self.stdout.write(json.dumps(report.as_facts()))
        sys.exit(0 if report.is_good else 1)

    def _perform(self, given: dict[str, Any]) -> Report:
        fault, whom, seconds = Fault(given["fault"]), Target(given["whom"]), given["seconds"]
        if not given["production"]:
            self._write_line("A sandbox starts: a site, two managers, two workers ...")
            return perform_in_sandbox(fault, whom, seconds=seconds, write_line=self._write_line)
        confirm = (lambda _node: None) if given["yes"] else self._ask
        with connected() as connection:
            return perform(
                connection,
                fault=fault,
                whom=whom,
                seconds=seconds,
                box=None,
                confirm=confirm,
                write_line=self._write_line,
            )

    def _ask(self, node: str) -> None:
        if not sys.stdin.isatty():
            raise CommandError("Without a terminal, a drill on the real cluster needs --yes.", returncode=2)
        if input(f"The drill targets {node} of the real cluster. Type yes to continue: ").strip() != "yes":
            raise CommandError("The drill was cancelled.", returncode=2)

    def _write_line(self, sentence: str) -> None:
        self.stderr.write(sentence)


def _show(report: Report) -> None:
    table = Table(title=f"{report.fault} {report.whom}: {report.node}", title_justify="left", show_header=False)
    for name, value in _rows(report):
        table.add_row(name, value)
    for sentence in report.missing:
        table.add_row("missing", f"{sentence}")
    Console(highlight=False).print(table)


def _rows(report: Report) -> list[tuple[str, str]]:
    moments = (
        (report.whom != Target.DATABASE, "marked failed after", report.detected),
        (report.whom == Target.MAIN, "another main manager after", report.took_over),
        (report.groups, "its groups with others after", report.regrouped),
        (report.documents, "its documents returned after", report.returned),
        (report.whom == Target.DATABASE, "all nodes beat again after", report.restored),
        (True, "first request after that", report.fetched),
    )
    counts = (
        (report.whom == Target.DATABASE, "nodes marked failed", report.failed),
        (report.whom == Target.WORKER, "documents it had claimed", report.documents),
        (report.whom != Target.DATABASE, "its writes that were refused", report.refused),
        (report.refetched is not None, "pages requested again", report.refetched),
    )
    return [
        *((name, _after(moment, report)) for applies, name, moment in moments if applies),
        *((name, str(count)) for applies, name, count in counts if applies),
        ("longest pause of requests", "unknown" if report.pause is None else f"{report.pause:.2f} s"),
        ("fastest pace", "unknown" if report.pace is None else f"{report.pace:.0f} % of the allowed pace"),
    ]


def _rows_of_restore(report: RestoreReport) -> list[tuple[str, str]]:
    if report.lost is None or report.recovery is None:
        return []
    return [
        ("backup", report.backup),
        ("restored moment", report.reached),
        ("time lost", f"{report.lost / 60:.1f} minutes"),
        ("time to recover", f"{report.recovery:.1f} s"),
        ("documents in the restored database", f"{report.documents:,}"),
        ("documents that would be read again", f"{report.read_again:,}"),
    ]


def _after(seconds: float | None, report: Report) -> str:
    return "never" if seconds is None else f"{seconds:.2f} s ({seconds / report.beat:.1f} beats)"


def _show_history() -> None:
    """Print one line for each drill, without a table's borders, so that the lines can be compared."""
    for drill in Drill.objects.all()[:_SHOWN]:
        sys.stdout.write(f"{drill.at:%Y-%m-%d %H:%M} {drill.where:8} {drill.fault} {drill.whom}: {drill.came_to}\n")
