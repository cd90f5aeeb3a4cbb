"""
Measures the cost of state changes of jobs, and of removals: `python -m tests.benchmarks.transitions`.

An embedded database gets a job of a thousand documents and one of a million. An operator's call starts, pauses and
aborts each. This process steps the duties of a manager until the job has arrived, and the report shows the ratio of the
medians. Then documents are drained, cleaned and deleted with the queue's own transactions, one worker and one manager
in turns, and counted by second.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django

from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT

if TYPE_CHECKING:
    import psycopg

    from jobs.duties.context import Pass
    from jobs.models import Job

_FILL = """
INSERT INTO jobs_queueitem (hash, job_id, lane_id, identifier, stage, indexed_before, rescan, run_no, seq, action, depth,
                            redirects, outcome, result_code)
SELECT md5(%(job)s || '/' || n)::uuid, %(job)s, %(lane)s, 'http://127.0.0.1/' || n, %(stage)s, false, false, %(run)s,
       CASE WHEN %(stage)s = 0 THEN n END, 0, 0, 0, CASE WHEN %(stage)s = 2 THEN 1 ELSE 0 END,
       CASE WHEN %(stage)s = 2 THEN '200' ELSE '' END
  FROM generate_series(1, %(documents)s) AS n
"""
_SMALL = 1_000
# Number of steps of the duties after which a job must be in its new state.
_PATIENCE = 200


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="transitions", description="Measure state changes of jobs, and removals.")
    parser.add_argument("--documents", type=int, default=1_000_000, help="documents of the large job (%(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=20, help="changes of each kind, whose median is reported (%(default)s)"
    )
    parser.add_argument("--removals", type=int, default=50_000, help="documents to remove (%(default)s)")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="transitions-", dir=home) as name,
        databases.embedded(Path(name)) as database,
    ):
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        _measure(large=options.documents, rounds=options.rounds, removals=options.removals)
    return 0


def _measure(*, large: int, rounds: int, removals: int) -> None:
    import psycopg
    from django.db import connection as django_connection

    from nodes.database.address import database_dsn

    try:
        with psycopg.connect(database_dsn(), autocommit=True) as connection:
            cluster = _Cluster(connection)
            taken = {size: _changes(cluster, documents=size, rounds=rounds) for size in (_SMALL, large)}
            for name, of_small in taken[_SMALL].items():
                of_large = taken[large][name]
                sys.stdout.write(
                    f"ratio {name} {large:.0e} to {_SMALL:.0e}: {of_large / of_small:.2f}"
                    f" ({1000 * of_large:.1f} ms to {1000 * of_small:.1f} ms)\n".replace("e+0", "e")
                )
            for name, rate in _removals(cluster, documents=removals).items():
                sys.stdout.write(f"{name}: {rate:,.0f} documents/s\n")
            sys.stdout.flush()
    finally:
        django_connection.close()


@dataclass
class _Cluster:
    """One manager, which is the main manager and owns every group, and one worker. Both are stepped by hand."""

    connection: "psycopg.Connection[Any]"
    groups: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from tests.support.cluster import elect_main, register_node

        self.manager = register_node(self.connection, "manager")
        self.worker = register_node(self.connection, "worker", capacity=256)
        self.term = elect_main(self.connection, self.manager)

    def make_job(self, documents: int, *, stage: int, run_no: int) -> "Job":
        """Return a stopped job whose documents are in one lane."""
        from jobs.models import Job
        from tests.support.factories import make_group, make_job, make_lane, make_policy

        job = make_job(urls=["http://127.0.0.1/"], policy=make_policy(open_requests=1000))
        seed = job.seeds.get()
        self.groups[job.pk] = make_group(seed, owner=self.manager)
        lane = make_lane(seed, "127.0.0.1")
        Job.objects.filter(pk=job.pk).update(run_no=run_no)
        facts = {"job": job.pk, "lane": lane.pk, "documents": documents, "stage": stage, "run": run_no}
        self.connection.execute(_FILL, facts)
        self.connection.execute("VACUUM ANALYZE jobs_queueitem")
        return Job.objects.get(pk=job.pk)

    def now_pass(self) -> "Pass":
        from django.utils import timezone

        from jobs.duties.context import Pass

        return Pass(
            connection=self.connection,
            me=self.manager.id,
            scope=self.manager.scope,
            now=timezone.now(),
            term=self.term,
            groups=tuple(self.groups.values()),
        )

    def step_until(self, job_id: int, arrived: Callable[["Job"], bool]) -> None:
        """Step the duties that change states of jobs until this job has arrived."""
        from jobs.duties.finish import end_runs
        from jobs.duties.start import prepare_runs, seed_seeds
        from jobs.duties.transient_jobs import pass_on
        from jobs.models import Job

        for _ in range(_PATIENCE):
            if arrived(Job.objects.get(pk=job_id)):
                return
            at = self.now_pass()
            for duty in (prepare_runs, seed_seeds, pass_on, end_runs):
                duty(at)
        raise RuntimeError(f"job {job_id} did not arrive: {Job.objects.get(pk=job_id).manifoldcf_status}")


def _changes(cluster: _Cluster, *, documents: int, rounds: int) -> dict[str, float]:
    """Return the median seconds that each change of a job's state takes."""
    from django.utils import timezone

    from jobs.lifecycle.document import Stage
    from jobs.lifecycle.job import Pause, Phase
    from jobs.verbs import control

    job = cluster.make_job(documents, stage=int(Stage.DONE), run_no=1)
    changes: dict[str, tuple[Callable[..., Any], Callable[[Job], bool]]] = {
        "start": (control.start, lambda job: job.phase == Phase.ACTIVE),
        "pause": (control.pause, lambda job: job.pause == Pause.PAUSED),
        "abort": (control.abort, lambda job: job.phase == Phase.INACTIVE),
    }
    taken: dict[str, list[float]] = {name: [] for name in changes}
    for _ in range(rounds):
        for name, (ask, arrived) in changes.items():
            began = time.perf_counter()
            ask(job.pk, made_by="a benchmark", now=timezone.now())
            cluster.step_until(job.pk, arrived)
            taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def _removals(cluster: _Cluster, *, documents: int) -> dict[str, float]:
    """Return documents a second of releasing offers, of clean-up, and of deleting a job."""
    from jobs.lifecycle.document import Stage
    from jobs.lifecycle.job import Pause, Phase
    from jobs.models import Job
    from jobs.queue.offering.stuff import stuff
    from jobs.queue.release import withdraw_of_stopped_jobs

    rates = {}
    job = cluster.make_job(documents, stage=int(Stage.PENDING), run_no=1)
    Job.objects.filter(pk=job.pk).update(phase=Phase.ACTIVE)
    cluster.connection.execute("UPDATE jobs_lanestate SET ready_at = %s", [cluster.now_pass().now])
    cluster.connection.execute("UPDATE jobs_bin SET is_known = true")
    offered = 0
    while done := stuff(
        cluster.connection,
        manager=cluster.manager.id,
        group=cluster.groups[job.pk],
        room=documents,
        workers=1000,
        now=cluster.now_pass().now,
    ).documents:
        offered += done
    Job.objects.filter(pk=job.pk).update(pause=Pause.PAUSING)
    began = time.perf_counter()
    drained = withdraw_of_stopped_jobs(cluster.connection, scope=cluster.manager.scope, now=cluster.now_pass().now)
    rates["draining"] = drained / (time.perf_counter() - began)
    assert drained == offered
    for name, phase, run_no in (("cleaning", Phase.SHUTTING_DOWN, 1), ("deleting", Phase.DELETING, 2)):
        job = cluster.make_job(documents, stage=int(Stage.DONE), run_no=run_no)
        Job.objects.filter(pk=job.pk).update(phase=phase, run_no=2)
        rates[name] = _remove_all(cluster, job)
    return rates


def _remove_all(cluster: _Cluster, job: "Job") -> float:
    from jobs.loops.worker.outputs import JobOutputs
    from jobs.queue.offering.stuff_removals import stuff_removals
    from jobs.queue.removing.drop import drop
    from jobs.queue.take import take
    from tests.support.factories import facts_of

    facts, outputs, removed, began = {job.pk: facts_of(job)}, JobOutputs(), 0, time.perf_counter()
    connection = cluster.connection
    while True:
        now = cluster.now_pass().now
        connection.execute("UPDATE jobs_lanestate SET ready_at = %s", [now])
        group = cluster.groups[job.pk]
        if not stuff_removals(connection, manager=cluster.manager.id, group=group, room=256, now=now).documents:
            break
        taken = take(connection, worker=cluster.worker.id, room=256, idle=True, now=now)
        for claims in taken.removals.values():
            removed += drop(
                connection, worker=cluster.worker.id, claims=claims, jobs=facts, outputs=outputs, now=now
            ).dropped
    return removed / (time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main())
