"""`manage.py export VERB`: write documents, history and reports to files by background tasks."""

import argparse
import getpass
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from jobs.exports import files, verbs
from jobs.exports.models import Export
from jobs.exports.sources import SOURCES
from jobs.partitions import this_partition
from nodes.api.parsing import json_in
from nodes.errors import Invalid, Refused, Unknown
from nodes.management.database import check_database
from nodes.permissions import may_do_everything

_CHECK_SECONDS: Final = 0.2


class Command(BaseCommand):
    # Standard output is for the answer only.
    requires_system_checks: list[str] = []
    help = "Export documents, history and reports as CSV, JSON lines or Parquet (docs/exports.md)."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        doing = parser.add_subparsers(dest="verb", required=True)
        run = doing.add_parser("run", help="schedule an export")
        run.add_argument("what", help=f"content: {', '.join(SOURCES)}")
        run.add_argument("--format", default="csv", help=f"{', '.join(Export.Format.values)} (default: %(default)s)")
        run.add_argument(
            "--filter",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="field of the filter, as text or JSON; repeatable",
        )
        run.add_argument("--wait", action="store_true", help="wait for the end, and exit with 1 without a file")
        run.add_argument("--to", type=Path, metavar="FILE", help="copy the file to this place; implies --wait")
        doing.add_parser("list", help="list exports, the newest first")
        for verb, said in (
            ("show", "show an export"),
            ("cancel", "cancel an export"),
            ("delete", "delete an export that has ended, and its file"),
        ):
            doing.add_parser(verb, help=said).add_argument("export", type=int, help="number of the export")

    def handle(self, *_args: Any, verb: str, **given: Any) -> None:
        check_database()
        try:
            for line in getattr(self, f"_{verb}")(given):
                self.stdout.write(line)
        except Invalid as invalid:
            raise CommandError(invalid.by_field, returncode=2) from invalid
        except Unknown as unknown:
            raise CommandError(str(unknown), returncode=2) from unknown
        except Refused as refused:
            raise CommandError(str(refused), returncode=1) from refused

    @staticmethod
    def _run(given: dict[str, Any]) -> Iterator[str]:
        export = verbs.request(
            what=given["what"],
            format=given["format"],
            filter=dict(_field(said) for said in given["filter"]),
            may=may_do_everything,
            made_by=getpass.getuser(),
        )
        place = f" It holds rows of partition {this_partition.only_name()} only." if this_partition.only_name() else ""
        yield f"Export {export.pk} is scheduled as task {export.task}.{place}"
        if not given["wait"] and given["to"] is None:
            return
        while (seen := verbs.with_state(export)).state in {"waiting", "running"}:
            time.sleep(_CHECK_SECONDS)
            export.refresh_from_db()
        yield _line(seen)
        if seen.state != "done":
            raise CommandError(f"Export {export.pk} has no file: {seen.problem}", returncode=1)
        if given["to"] is not None:
            try:
                shutil.copyfile(files.find_file(export), given["to"])
            except OSError as error:
                raise CommandError(f"Cannot write {given['to']}: {error.strerror}.", returncode=1) from error
            yield f"Copied to {given['to']}."

    @staticmethod
    def _list(_given: dict[str, Any]) -> Iterator[str]:
        for export in verbs.visible(may_do_everything)[:100]:
            yield _line(verbs.with_state(export))

    @staticmethod
    def _show(given: dict[str, Any]) -> Iterator[str]:
        export = verbs.read(given["export"], may=may_do_everything)
        yield _line(verbs.with_state(export))
        yield f"filter: {json.dumps(export.filter)}"
        if export.file:
            yield f"file: {files.find_file(export)}"

    @staticmethod
    def _cancel(given: dict[str, Any]) -> Iterator[str]:
        verbs.cancel(given["export"], may=may_do_everything, made_by=getpass.getuser())
        yield f"Export {given['export']} is cancelled. If it is running, it ends after its present part."

    @staticmethod
    def _delete(given: dict[str, Any]) -> Iterator[str]:
        verbs.delete(given["export"], may=may_do_everything, made_by=getpass.getuser())
        yield f"Export {given['export']} is deleted."


def _field(said: str) -> tuple[str, object]:
    name, found, value = said.partition("=")
    if not found:
        raise Invalid({"filter": [f"{said!r} is not a field. Write NAME=VALUE."]})
    try:
        return name, json_in(value)
    except ValueError:
        return name, value


def _line(seen: verbs.ExportWithState) -> str:
    export = seen.export
    of = f" of {export.total:,}" if export.total is not None and not export.file else ""
    tail = f", {export.bytes:,} bytes" if export.file else f": {seen.problem}" if seen.problem else ""
    return f"{export.pk}: {export.what} as {export.format}, {seen.state}, {export.rows:,}{of} rows{tail}"
