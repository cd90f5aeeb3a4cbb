"""Progress of a crawl, as a bar or as lines, and the summary at its end."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from jobs.lifecycle.job import Guard, Phase, RunEnd
from jobs.loops.oneshot import Progress
from jobs.management.exit_codes import ExitCode
from jobs.models import Job
from jobs.queries.jobs.seed_endings import SeedEnding

# The reason that is reported if a run has ended, but none of its seeds could be read.
NO_SEED_READ: Final = "error:NO_SEED_READ"

# Interval of lines if standard error is no terminal (seconds).
_LINE_EVERY: Final = 30.0

# Exit codes by the end of the run. Any other end is an error.
_EXIT_CODES: Final = {
    RunEnd.FINISHED.value: ExitCode.FINISHED,
    RunEnd.DOCUMENT_LIMIT.value: ExitCode.FINISHED,
    RunEnd.HELD.value: ExitCode.HELD,
    "interrupted": ExitCode.INTERRUPTED,
}


class Bar:
    """
    Progress on standard error: done, waiting, failed, rate, time left.

    In a terminal it is a bar; elsewhere `write_line` writes a line every 30 seconds.
    """

    def __init__(self, *, write_line: Callable[[str], None]) -> None:
        console = Console(stderr=True)
        self._write_line = None if console.is_terminal else write_line
        self._progress = RichProgress(
            TextColumn("{task.fields[done]} done"),
            BarColumn(),
            TextColumn("{task.fields[facts]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task("crawl", total=None, done=0, facts="starting")
        self._next_line_at = _LINE_EVERY

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, progress: Progress) -> None:
        """Draw the progress of the crawl, or write it as a line."""
        if self._write_line is not None:
            if progress.seconds < self._next_line_at:
                return
            self._next_line_at = progress.seconds + _LINE_EVERY
            self._write_line(f"After {progress.seconds:,.0f} s: {progress.counts.processed:,} done, {_facts(progress)}")
            return
        counts = progress.counts
        self._progress.update(
            self._task,
            completed=counts.processed,
            total=max(counts.processed + counts.waiting, 1),
            done=f"{counts.processed:,}",
            facts=_facts(progress),
        )


def _facts(progress: Progress) -> str:
    counts = progress.counts
    rate = counts.processed / progress.seconds if progress.seconds > 1 else 0.0
    left = f", {counts.waiting / rate:,.0f} s left" if rate > 0 and counts.waiting else ""
    return f"{counts.waiting:,} waiting, {counts.failed:,} failed, {rate:,.0f}/s{left}"


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a crawl, as `--json` prints it. Scripts rely on the names of the fields."""

    job: str
    progress: Progress
    reason: str

    @property
    def exit_code(self) -> ExitCode:
        return _EXIT_CODES.get(self.reason, ExitCode.FAILED)

    @property
    def facts(self) -> dict[str, Any]:
        counts, seconds = self.progress.counts, self.progress.seconds
        return {
            "job": self.job,
            "counts": {
                "processed": counts.processed,
                "indexed": counts.indexed,
                "unchanged": counts.unchanged,
                "deleted": counts.deleted,
                "failed": counts.failed,
                "excluded": counts.excluded,
                "waiting": counts.waiting,
            },
            "seconds": round(seconds, 3),
            "documents_per_second": round(counts.processed / seconds, 2) if seconds else 0.0,
            "bytes": counts.bytes,
            "offered": counts.offered,
            "result_codes": counts.codes,
            "reason": self.reason,
        }

    def as_json(self) -> str:
        return json.dumps(self.facts)

    def as_text(self) -> str:
        facts = self.facts
        counts = ", ".join(f"{amount:,} {name}" for name, amount in facts["counts"].items() if amount)
        codes = ", ".join(f"{code} {amount:,}" for code, amount in facts["result_codes"].items())
        lines = [
            f"{self.reason}: {counts or 'nothing'} in {facts['seconds']:.1f} s ({facts['documents_per_second']:,.0f}/s)",
            f"result codes: {codes or 'none'}",
        ]
        if "ADDRESS_FORBIDDEN" in facts["result_codes"]:
            lines.append("Private and loopback addresses need --allow-private-networks.")
        return "\n".join(lines)


def summary(job: Job, progress: Progress, *, endings: Sequence[SeedEnding], was_interrupted: bool) -> Summary:
    """
    Return the summary of the job's run, which may still last. `endings` are the endings of its seeds.
    """
    if job.phase != Phase.INACTIVE:
        reason = "interrupted" if was_interrupted or not job.reason else "error:PAUSED"
    elif job.run_end == RunEnd.ABORTED:
        reason = "error:ABORTED"
    elif job.run_end == RunEnd.ERROR:
        reason = f"error:{job.reason or 'UNKNOWN'}"
    elif job.guard != Guard.WAITING and endings and not any(ending.is_read for ending in endings):
        reason = NO_SEED_READ
    else:
        reason = job.run_end
    return Summary(job=job.name, progress=progress, reason=reason)
