"""`manage.py check_counters [JOB …]`: compare the counts of documents with the documents."""

import argparse
from collections.abc import Sequence
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from jobs.models import Job
from jobs.queries.jobs.counter_check import Difference, WrongSum, compare_counters, find_wrong_sums, repair_counters
from nodes.management.database import check_database

# Largest number of differences that are shown of each job. Further differences are only counted.
_SHOWN: Final = 20


class Command(BaseCommand):
    # Standard output carries only the answer, without the warnings of checks.
    requires_system_checks: list[str] = []
    help = (
        "Compare the counters of documents with the documents. Exit code 1 means that they differ. With --repair, correct wrong counters and "
        "exit with 0. Both work during a crawl."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("jobs", nargs="*", metavar="JOB", help="names of jobs (default: all jobs)")
        parser.add_argument("--repair", action="store_true", help="correct wrong counters and print their number")

    def handle(self, *_args: Any, jobs: Sequence[str], repair: bool, **_options: Any) -> None:
        check_database()
        wrong = [job for job in _jobs_named(jobs) if self._differs(job)]
        if repair:
            for job in wrong:
                self.stdout.write(f"{job.name}: {repair_counters(job):,} counters corrected")
            wrong = [job for job in wrong if self._differs(job)]
        if differing := [job.name for job in wrong]:
            raise CommandError(
                f"Wrong counters in {len(differing)} jobs: {', '.join(differing)}. Correct them with --repair.",
                returncode=1,
            )

    def _differs(self, job: Job) -> bool:
        documents = 0
        sums = find_wrong_sums(job)
        for wrong in sums[:_SHOWN]:
            self.stdout.write(f"{job.name}: {_line_of_sum(wrong)}")
        found = len(sums)
        for compared in compare_counters(job):
            documents += compared.documents
            for difference in compared.differences[: max(0, _SHOWN - found)]:
                self.stdout.write(f"{job.name}: {_line(difference)}")
            found += len(compared.differences)
        if found > _SHOWN:
            self.stdout.write(f"{job.name}: and {found - _SHOWN:,} more")
        self.stdout.write(
            f"{job.name}: {documents:,} documents, {f'{found:,} counts differ' if found else 'as counted'}"
        )
        return found > 0


def _jobs_named(names: Sequence[str]) -> list[Job]:
    if not names:
        return list(Job.objects.order_by("pk"))
    found = {job.name: job for job in Job.objects.filter(name__in=names)}
    unknown = [name for name in names if name not in found]
    if unknown:
        raise CommandError(f"No job has the name {unknown[0]!r}.", returncode=2)
    return list(found.values())


def _line_of_sum(wrong: WrongSum) -> str:
    what = " ".join(filter(None, (wrong.stage.name.lower() if wrong.measure == "stage" else wrong.measure, wrong.code)))
    return f"the job counts {wrong.of_job:,} and its lanes {wrong.of_lanes:,}: {what} in run {wrong.run_no}"


def _line(difference: Difference) -> str:
    what = " ".join(filter(None, (difference.stage.name.lower(), difference.code)))
    return (
        f"the counter is {difference.counted:,} and {difference.existing:,} exist: {what} in run {difference.run_no}, lane {difference.lane} "
        f"({difference.host or 'deleted'})"
    )
