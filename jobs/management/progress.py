"""What a crawl in a terminal shows: a bar while it runs, and a summary at its end."""

import json
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from jobs.lifecycle.job import Phase, RunEnd
from jobs.loops.oneshot import Progress
from jobs.models import Job


class Bar:
    """A progress bar on stderr: done, waiting, failed, rate, time left. Nothing where nobody watches."""

    def __init__(self, *, enabled: bool) -> None:
        console = Console(stderr=True)
        self._progress = RichProgress(
            TextColumn("{task.fields[done]} done"),
            BarColumn(),
            TextColumn("{task.fields[facts]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not enabled or not console.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task("crawl", total=None, done=0, facts="starting")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, progress: Progress) -> None:
        """Draw where the crawl stands."""
        counts = progress.counts
        rate = counts.processed / progress.seconds if progress.seconds > 1 else 0.0
        left = f", {counts.waiting / rate:,.0f} s left" if rate > 0 and counts.waiting else ""
        self._progress.update(
            self._task,
            completed=counts.processed,
            total=max(counts.processed + counts.waiting, 1),
            done=f"{counts.processed:,}",
            facts=f"{counts.waiting:,} waiting, {counts.failed:,} failed, {rate:,.0f}/s{left}",
        )


@dataclass(frozen=True, slots=True)
class Summary:
    """How a crawl ended: the contract of `--json`."""

    job: str
    progress: Progress
    reason: str

    @property
    def exit_code(self) -> int:
        return {"finished": 0, "document_limit": 0, "interrupted": 130}.get(self.reason, 1)

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
            lines.append("Addresses that are not global need --allow-private-networks.")
        return "\n".join(lines)


def summary(job: Job, progress: Progress, *, was_interrupted: bool) -> Summary:
    """How the job's run ended, or was left."""
    if job.phase != Phase.INACTIVE:
        reason = "interrupted" if was_interrupted or not job.reason else "error:PAUSED"
    elif job.run_end == RunEnd.ABORTED:
        reason = "error:ABORTED"
    elif job.run_end == RunEnd.ERROR:
        reason = f"error:{job.reason or 'UNKNOWN'}"
    else:
        reason = job.run_end
    return Summary(job=job.name, progress=progress, reason=reason)
