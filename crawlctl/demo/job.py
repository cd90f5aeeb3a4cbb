"""
The demo's job: an ordinary job, made by the same functions as any other.

Each demo creates a new job, and deletes the jobs of earlier demos with their documents in the search index. The new
crawl does not wait for this deletion. The crawls cannot be confused, because the site of each demo has addresses of its
own.
"""

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final

import psycopg
from django.db.models import Q, QuerySet

from crawlctl.demo.plan import SitePlan
from jobs.connectors.output.registry import DEFAULT_OUTPUT, parse_output
from jobs.lifecycle.job import allowed_transitions
from jobs.lifecycle.table import Owner
from jobs.models import Job, OutputConnection, RepositoryConnection, SearchDocument, ThrottlePolicy
from jobs.state.transitions import TransitionRefused
from jobs.verbs import control, editing
from jobs.verbs.seeds import SeedWanted
from nodes.database.address import database_dsn
from nodes.errors import Unknown
from nodes.lifecycle import CLUSTER_SCOPE

_MADE_BY: Final = "demo"
_OPEN_REQUESTS: Final = 16
# An arbitrary key, unlikely to be used by another program in this database.
_LOCK: Final = 0x6372_6177_6C64_656D


class DemoRuns(Exception):
    """Another demo runs on this database."""

    def __init__(self) -> None:
        super().__init__("Another demo is running on this database. End it first (Ctrl-C in its terminal).")


@contextmanager
def only_demo() -> Iterator[None]:
    """
    Hold the lock of the only demo on this database: another demo would delete the job of this demo as an old job.

    Raises:
        DemoRuns
    """
    with psycopg.connect(database_dsn(), autocommit=True, application_name="crawlctl demo") as connection:
        row = connection.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,)).fetchone()
        if row is None or not row[0]:
            raise DemoRuns
        yield


def create_job(plan: SitePlan, *, gap: float, now: dt.datetime) -> Job:
    """
    Create a job that crawls the whole site. `gap` is the pause between two requests to one of its hosts (seconds).
    """
    return create_job_of_site(
        plan,
        name=_free_name(),
        output=DEFAULT_OUTPUT,
        open_requests=_OPEN_REQUESTS,
        gap=gap,
        scope=CLUSTER_SCOPE,
        made_by=_MADE_BY,
        now=now,
    )


def create_job_of_site(
    plan: SitePlan,
    *,
    name: str,
    output: str,
    open_requests: int,
    gap: float,
    scope: str,
    made_by: str,
    now: dt.datetime,
) -> Job:
    """
    Create a job that crawls a whole site into an output, which is named as on a command line.

    `open_requests` and `gap` (seconds) are the limits of its policy, which has the name `made_by`. Its limits also
    apply to hosts on loopback addresses.
    """
    policy, _ = ThrottlePolicy.objects.update_or_create(
        name=made_by, defaults={"open_requests": open_requests, "min_gap": gap, "skips_loopback": False}
    )
    repository, _ = RepositoryConnection.objects.get_or_create(name="web", defaults={"connector": "web"})
    wanted = parse_output(output)
    connection, _ = OutputConnection.objects.get_or_create(
        name=wanted.name, defaults={"connector": wanted.connector, "configuration": wanted.configuration}
    )
    return editing.create_job(
        name=name,
        repository=repository,
        outputs=[connection],
        seeds=[SeedWanted((plan.start_url,), policy)],
        specification={"scope": "any", "allow_private_networks": True},
        node_scope=scope,
        made_by=made_by,
        now=now,
    ).job


def start_job(job: Job, *, now: dt.datetime) -> None:
    control.start(job.pk, made_by=_MADE_BY, now=now)


def delete_earlier_jobs(*, before: int | None, now: dt.datetime) -> None:
    """
    Take the next step to delete the jobs of earlier demos, which are older than the job `before`. Call this repeatedly.

    A job that still runs, because its demo was killed, has to be aborted first.
    """
    earlier = Job.objects.filter(events__kind="created", events__made_by=_MADE_BY)
    if before is not None:
        earlier = earlier.filter(pk__lt=before)
    for job in earlier.distinct():
        allowed = {transition.name for transition in allowed_transitions(job.state, owner=Owner.OPERATOR)}
        try:
            if "delete" in allowed:
                control.delete(job.pk, made_by=_MADE_BY, now=now)
            elif "abort" in allowed:
                control.abort(job.pk, made_by=_MADE_BY, now=now, reason="its demo has ended")
        except (TransitionRefused, Unknown):
            # The job changed its state meanwhile: the next call sees the new one.
            continue


def indexed_urls(job: Job, plan: SitePlan) -> set[str]:
    """Return the site's addresses that the job's search index can find."""
    return set(_texts(job, plan).filter(vector__isnull=False).values_list("url", flat=True))


def count_texts_behind(job: Job, plan: SitePlan) -> int:
    """Return the number of the site's texts that the index cannot find yet."""
    return _texts(job, plan).filter(vector__isnull=True).count()


def _texts(job: Job, plan: SitePlan) -> "QuerySet[SearchDocument]":
    of_the_site = Q()
    for origin in plan.origins:
        of_the_site |= Q(url__startswith=f"{origin}/")
    return SearchDocument.objects.filter(of_the_site, output__in=job.outputs.all())


def _free_name() -> str:
    taken = set(Job.objects.filter(name__startswith="demo").values_list("name", flat=True))
    return next(name for number in count(1) if (name := f"demo {number}") not in taken)
