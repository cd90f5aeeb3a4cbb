"""`manage.py evidence export HOST` and `manage.py evidence check FILE`: the evidence of politeness."""

import argparse
import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from jobs.evidence import comparing
from jobs.evidence.access_log import BadLog, read_log
from jobs.evidence.chain import ChainBroken
from jobs.evidence.files import BadFile, Evidence, read
from jobs.evidence.minutes import count_of, moment_text
from jobs.partitions.merged import PartitionAway, read_in
from jobs.queries.hosts.evidence import export
from jobs.verbs.hosts import name_meant
from nodes.errors import Invalid, Unknown
from nodes.management.database import check_database

# Time limit of an export from another partition (seconds).
_EXPORT_WITHIN: Final = 3600.0


class Command(BaseCommand):
    # Standard output carries only the answer, without the warnings of checks.
    requires_system_checks: list[str] = []
    help = (
        "export: print the evidence of requests to a host. check: verify exported files, and compare them with access "
        "logs of the site. A check needs no database. It exits with 1 if it finds a difference."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        exporting = verbs.add_parser("export", help="print the evidence of a host")
        exporting.add_argument("host", help="host name, or an address there")
        exporting.add_argument("--since", dest="begin", type=_moment, help="first minute, such as 2026-11-29T03:00Z")
        exporting.add_argument("--until", type=_moment, help="end of the last minute")
        exporting.add_argument(
            "--partition", default="", help="name of another partition that sent requests to the host"
        )
        checking = verbs.add_parser("check", help="verify exported files, and compare them with access logs")
        checking.add_argument("files", nargs="+", type=Path, help="exported files of one host, one for each partition")
        checking.add_argument(
            "--log",
            action="append",
            default=[],
            type=Path,
            help="access log of the host (Common or Combined Log Format)",
        )
        checking.add_argument(
            "--agent", action="append", default=[], help="another User-Agent whose requests are in the record"
        )
        checking.add_argument(
            "--tolerance",
            type=_seconds,
            default=comparing.TOLERANCE,
            help="longest difference between the moments of a request in both records (seconds, %(default)s)",
        )
        checking.add_argument(
            "--jitter",
            type=_seconds,
            default=comparing.JITTER,
            help="longest difference between the delays of two requests in the log (seconds, %(default)s)",
        )

    def handle(self, *_args: Any, verb: str, **options: Any) -> None:
        if verb == "export":
            period = {"begin": options["begin"], "until": options["until"]}
            self._export(options["host"], partition=options["partition"], **period)
        else:
            limits = {"tolerance": options["tolerance"], "jitter": options["jitter"]}
            self._check(options["files"], options["log"], agents=options["agent"], **limits)

    def _export(self, host: str, *, partition: str, begin: dt.datetime | None, until: dt.datetime | None) -> None:
        check_database()

        def write() -> None:
            for lines in export(name_meant(host), begin=begin, until=until):
                self.stdout.write(lines, ending="")

        try:
            if partition:
                read_in(partition, write, within=_EXPORT_WITHIN)
            else:
                write()
        except (Unknown, Invalid) as wrong:
            raise CommandError(str(wrong), returncode=2) from wrong
        except PartitionAway as away:
            raise CommandError(str(away), returncode=1) from away

    def _check(
        self, files: list[Path], logs: list[Path], *, agents: list[str], tolerance: float, jitter: float
    ) -> None:
        try:
            evidence = [_read(path) for path in files]
            if len({one.period.host for one in evidence}) > 1:
                raise CommandError("The files are about several hosts. Check each host alone.", returncode=2)
            found = comparing.contradictions_in(evidence, jitter=jitter)
            if logs:
                names = {*agents, *(one.period.agent for one in evidence)}
                lines = [line for path in logs for line in read_log(_lines(path), agents=names, name=path.name)]
                found = sorted([*found, *comparing.differences(evidence, lines, tolerance=tolerance, jitter=jitter)])
        except ChainBroken as broken:
            raise CommandError(f"The chain is broken. {broken}", returncode=1) from broken
        except (BadFile, BadLog) as bad:
            raise CommandError(str(bad), returncode=2) from bad
        if found:
            raise CommandError("\n".join(one.sentence for one in found), returncode=1)
        requests = sum(count_of(content["sent"]) for one in evidence for content in one.contents)
        self.stdout.write(
            f"{evidence[0].period.host}: {requests} requests in {sum(len(one.contents) for one in evidence)} blocks. "
            f"The chain is intact{', and the access log agrees' if logs else ''}. Last hash: {evidence[-1].last.hash}"
        )
        for gap in (gap for one in evidence for gap in one.gaps):
            self.stdout.write(
                f"From {moment_text(gap.begin)} to {moment_text(gap.until)}, requests may be missing. {gap.why}"
            )


def _read(path: Path) -> Evidence:
    return read(_lines(path), name=path.name)


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            yield from lines
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.", returncode=2) from error


def _moment(text: str) -> dt.datetime:
    try:
        at = dt.datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a moment, such as 2026-11-29T03:00Z") from None
    return at if at.tzinfo else at.replace(tzinfo=dt.UTC)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds") from None
    if not 0 <= seconds <= 60:
        raise argparse.ArgumentTypeError("write a number of seconds from 0 to 60")
    return seconds
