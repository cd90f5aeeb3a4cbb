"""`manage.py bulk`: show the documents of a filter, change them by a background task, list and cancel operations."""

import argparse
import getpass
import time
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from jobs.bulk import other_partitions, verbs
from jobs.bulk.models import BulkOperation
from jobs.models import Job
from jobs.queue.chosen_documents import Operation
from jobs.queue.sql.chosen_states import NAMES
from nodes.errors import Invalid, Refused, Unknown
from nodes.management.database import check_database
from nodes.permissions import may_do_everything

_CHECK_SECONDS: Final = 0.2
_LISTED: Final = 20


class Command(BaseCommand):
    # Standard output is for the answer only.
    requires_system_checks: list[str] = []
    help = "Retry, expire, re-read, drop or forget documents of a job by a filter. Without --yes, only show them."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add = parser.add_subparsers(dest="verb", required=True).add_parser
        for operation in Operation:
            self._add_filter(add(operation.value, help=verbs.EFFECTS[operation]))
        add("list", help=f"list the last {_LISTED} operations with their progress")
        cancel = add("cancel", help="end an operation after its present chunk; its changes stay")
        cancel.add_argument("operation", type=int, help="number of the operation")

    @staticmethod
    def _add_filter(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("job", help="name of the job")
        parser.add_argument("--host", default="", help="only of this host")
        parser.add_argument("--code", action="append", default=[], help="only with this result code; repeatable")
        parser.add_argument("--contains", default="", metavar="TEXT", help="only addresses that contain this text")
        parser.add_argument("--pattern", default="", help="only identifiers that match this regular expression")
        parser.add_argument(
            "--fetched-before", default="", metavar="DATE", help="only if not fetched since this moment"
        )
        parser.add_argument("--state", default="", choices=NAMES, help="only in this state")
        parser.add_argument("--yes", action="store_true", help="change the documents, and wait for the end")

    def handle(self, *_args: Any, verb: str, **given: Any) -> None:
        check_database()
        try:
            if verb == "list":
                self._list()
            elif verb == "cancel":
                self._cancel(given["operation"])
            else:
                self._show_or_change(verb, given)
        except Invalid as invalid:
            raise CommandError(invalid.by_field, returncode=2) from invalid
        except Unknown as unknown:
            raise CommandError(str(unknown), returncode=2) from unknown
        except Refused as refused:
            raise CommandError(str(refused), returncode=1) from refused

    def _list(self) -> None:
        shown = list(BulkOperation.objects.all()[:_LISTED])
        states, names = verbs.states_of(shown), Job.objects.in_bulk({one.job_id for one in shown})
        for one in shown:
            job = names[one.job_id].name if one.job_id in names else f"job {one.job_id}, which was deleted"
            now = verbs.progress_of(one)
            progress = f"changed {now.changed:,} and skipped {now.skipped:,} of {now.shown:,}"
            self.stdout.write(f"{one.pk}: {one.operation} of {job}, {states[one.pk]}, {progress}, task {one.task}")

    def _cancel(self, operation: int) -> None:
        other_partitions.cancel_all(operation, may=may_do_everything, made_by=getpass.getuser())
        self.stdout.write(f"Operation {operation} ends after its present chunk.")

    def _show_or_change(self, operation: str, given: dict[str, Any]) -> None:
        job = Job.objects.filter(name=given["job"]).first()
        if job is None:
            raise CommandError(f"No job has the name {given['job']!r}.", returncode=2)
        filter_ = {
            "host": given["host"],
            "codes": given["code"],
            "contains": given["contains"],
            "pattern": given["pattern"],
            "fetched_before": given["fetched_before"],
            "state": given["state"],
        }
        shown = verbs.preview(operation, job.pk, filter_, may=may_do_everything)
        place = f" in partition {shown.partition} only" if shown.partition else ""
        self.stdout.write(f"{operation}: {_documents(shown.documents)} of {job.name}{place}.")
        for silent in shown.silent:
            self.stdout.write(f"Partition {silent.name} does not answer. Its documents are missing and stay unchanged.")
        for example in shown.examples:
            of = f" (partition {example.partition})" if example.partition else ""
            self.stdout.write(f"  {example.identifier} {example.result} {example.result_code}".rstrip() + of)
        if given["yes"]:
            self._carry_out(shown)

    def _carry_out(self, shown: verbs.Preview) -> None:
        made = verbs.start(shown.token, may=may_do_everything, made_by=getpass.getuser())
        self.stdout.write(f"Operation {made.pk} is scheduled as task {made.task}.")
        while (state := verbs.state_of(made)) in {"waiting", "running"}:
            time.sleep(_CHECK_SECONDS)
            made.refresh_from_db()
        made.refresh_from_db()
        ended = verbs.progress_of(made)
        self.stdout.write(f"Changed {_documents(ended.changed)}, skipped {ended.skipped:,} claimed ones.")
        if state != "done":
            raise CommandError(f"The operation ended early; `task show {made.task}` has the reason.", returncode=1)


def _documents(number: int) -> str:
    return f"{number:,} document" if number == 1 else f"{number:,} documents"
