"""`manage.py crawl`: a one-shot crawl, which is one run of a job with its own manager and workers."""

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from jobs.archive.records import Format
from jobs.attention.outputs import sentence_of_lost_lines
from jobs.connectors.output.base import OutputError
from jobs.connectors.schema import BadSpecification
from jobs.lifecycle.job import Guard, Phase
from jobs.loops.manager import ManagerFailed
from jobs.loops.oneshot import JobBusy, OneShot, Progress, WorkersDie
from jobs.management.crawl_options import NO_ARCHIVE, CrawlOptions, prepare_job
from jobs.management.crawl_sources import CrawlRefused
from jobs.management.exit_codes import ExitCode
from jobs.management.progress import NO_SEED_READ, Bar, summary
from jobs.management.seed_words import line_of_failed_seeds, lines_of_redirects, lines_of_unread_seeds
from jobs.management.standard_output import DocumentStream
from jobs.metrics.table import shown_by
from jobs.models import Job, LostLines
from jobs.queries.jobs.seed_endings import read_new_hosts, read_refused_redirects, read_seed_endings
from nodes.database.schema import SchemaRefused, make_ready
from nodes.errors import Invalid
from nodes.management.metrics_option import add_metrics_options, metrics_shown, options_of_others
from nodes.metrics.kinds import Process

_SCOPES = ("host", "domain", "prefix", "any")


class Command(BaseCommand):
    help = "Crawl web sites, directories (file:///path) or archives (archive:///path) until all documents in scope are read."
    # Standard output has only the summary. Checks and warnings go to standard error.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("urls", nargs="*", metavar="URL", help="addresses of the seeds")
        what = parser.add_argument_group("scope")
        what.add_argument("--scope", choices=_SCOPES, help="links to follow (default: host)")
        what.add_argument(
            "--include",
            action="append",
            metavar="REGEX",
            help="crawl only URLs (including seeds) that match one of these; for files: globs for paths below the seeds",
        )
        what.add_argument(
            "--exclude",
            action="append",
            metavar="REGEX",
            help="skip URLs (including seeds) that match one of these; for files: globs for paths below the seeds",
        )
        what.add_argument("--connector", metavar="NAME", help="connector of the source (default: by the addresses)")
        what.add_argument(
            "--field",
            action="append",
            metavar="NAME=VALUE",
            help="field of the connector's connection or job settings",
        )
        what.add_argument("--max-documents", type=int, metavar="N", help="request at most N distinct URLs")
        what.add_argument("--max-depth", type=int, metavar="N", help="follow at most N links from a seed")
        how = parser.add_argument_group("speed and behaviour")
        how.add_argument(
            "--connections-per-host", type=int, metavar="N", help="maximum open requests to one host (default: 2)"
        )
        how.add_argument(
            "--delay",
            type=float,
            metavar="SECONDS",
            help="minimum gap between request starts to one host (default: 1; 0 for loopback addresses)",
        )
        how.add_argument(
            "--rate", metavar="N/PERIOD", help="maximum request starts to one host, evenly spread, such as 30/minute"
        )
        how.add_argument("--bytes-per-second", type=int, metavar="N", help="maximum bytes per second from one host")
        how.add_argument("--workers", type=int, metavar="N", help="number of worker processes (default: by cores)")
        how.add_argument("--user-agent", metavar="TEXT", help="User-Agent of the requests")
        how.add_argument(
            "--robots-name", metavar="NAME", help="robot name for robots.txt (default: the one in the User-Agent)"
        )
        how.add_argument(
            "--allow-private-networks",
            action="store_true",
            default=None,
            help="allow requests to loopback, private and other non-global addresses",
        )
        how.add_argument(
            "--robots-wait", type=float, metavar="SECONDS", help="time to retry a failing robots.txt (default: 60)"
        )
        where = parser.add_argument_group("outputs")
        where.add_argument(
            "--output",
            action="append",
            metavar="OUTPUT",
            help="search, null, jsonl:PATH, or jsonl:- for standard output (default: search)",
        )
        where.add_argument(
            "--archive",
            choices=(*Format, NO_ARCHIVE),
            help="keep raw requests and responses in files of this format (default: none)",
        )
        again = parser.add_argument_group("stored jobs")
        again.add_argument("--job", metavar="NAME", help="name of the stored job to run, or of the new job")
        again.add_argument("--resume", action="store_true", help="resume an interrupted or killed crawl")
        shown = parser.add_argument_group("messages")
        shown.add_argument("--json", action="store_true", help="print one line of JSON at the end")
        shown.add_argument("--no-progress", action="store_true", help="print no progress")
        add_metrics_options(parser, of="this process; workers use the following ports")

    def handle(self, *_args: Any, **given: Any) -> None:
        port, address = given["metrics_port"], given["metrics_address"]
        with metrics_shown(shown_by(Process.MANAGER), address=address, port=port):
            try:
                workers = _workers(given["workers"])
                options_of_workers = options_of_others(port and port + 1, address=address, number=workers)
                make_ready()
                one_shot = OneShot(job_id=0, workers=workers, worker_options=options_of_workers)
                job = prepare_job(CrawlOptions.of(given), scope=one_shot.scope, write_line=self._write_line)
            except (CrawlRefused, JobBusy, SchemaRefused, BadSpecification, OutputError) as refused:
                raise CommandError(str(refused), returncode=ExitCode.REFUSED) from refused
            except Invalid as invalid:
                raise CommandError(str(invalid), returncode=ExitCode.REFUSED) from invalid
            sys.exit(self._crawl(one_shot, job, as_json=given["json"], with_bar=not given["no_progress"]))

    def _crawl(self, one_shot: OneShot, job: Job, *, as_json: bool, with_bar: bool) -> int:
        """Crawl, and return the exit code."""
        one_shot.job_id = job.pk
        stream = DocumentStream.of_job(job, on_closed=lambda why: self._stop(one_shot, why))
        with Bar(write_line=self._write_line) if with_bar else nullcontext() as bar:
            if bar is not None:
                one_shot.show = bar.show
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: one_shot.interrupt())
            signal.signal(signal.SIGTSTP, lambda *_: one_shot.suspend())
            try:
                if stream is not None:
                    stream.start()
                progress = one_shot.run()
            except (ManagerFailed, WorkersDie) as failed:
                raise CommandError(f"The crawl ends: {failed}", returncode=ExitCode.FAILED) from failed
            finally:
                if stream is not None:
                    stream.finish()
        return self._conclude(
            job.pk, one_shot, progress, as_json=as_json, write=self._write_line if stream else self.stdout.write
        )

    def _conclude(
        self, job_id: int, one_shot: OneShot, progress: Progress, *, as_json: bool, write: Callable[[str], object]
    ) -> int:
        """Write the summary of the crawl by `write`, and its problems to standard error. Return the exit code."""
        job = Job.objects.get(pk=job_id)
        endings = read_seed_endings(job)
        ended = summary(job, progress, endings=endings, was_interrupted=one_shot.was_interrupted)
        write(ended.as_json() if as_json else ended.as_text())
        refused = read_refused_redirects(job)
        if ended.reason == NO_SEED_READ:
            self._write_line(line_of_failed_seeds(endings, refused))
        else:
            for line in (*lines_of_unread_seeds(endings, refused), *lines_of_redirects(read_new_hosts(job), refused)):
                self._write_line(line)
        for lost in LostLines.objects.filter(output__jobs=job).select_related("output"):
            self._write_line(sentence_of_lost_lines(lost))
        if job.guard == Guard.WAITING:
            self._write_line(_how_to_allow(job))
        elif job.reason:
            self._write_line(job.reason)
        if ended.exit_code and job.phase != Phase.INACTIVE:
            self._write_line(f"Resume it with: crawlctl crawl --resume --job {shlex.quote(job.name)}")
        return ended.exit_code

    def _stop(self, one_shot: OneShot, why: str) -> None:
        self._write_line(why)
        one_shot.interrupt()

    def _write_line(self, sentence: str) -> None:
        self.stderr.write(sentence)


def _how_to_allow(job: Job) -> str:
    name = shlex.quote(job.name)
    return (
        f"The clean-up waits for approval: {job.reason} Nothing was removed. To allow the removals: crawlctl job {name} allow-removals, then "
        f"crawlctl crawl --resume --job {name}"
    )


def _workers(given: int | None) -> int:
    if given is None:
        return max(1, min(8, len(os.sched_getaffinity(0))))
    if not 1 <= given <= 64:
        raise CrawlRefused(f"--workers is {given}: write a number from 1 to 64.")
    return given
