"""Stores of archives that fail, jobs that wait for them, and archives with faults."""

import datetime as dt
from typing import Final

from django.db.models import Exists, OuterRef
from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.attention.lines import FOUND, AttentionLine, Severity, with_rest
from jobs.models import ArchiveVerification, FailingStore
from jobs.queries.jobs.lines import read_job_lines
from jobs.queries.jobs.troubled import find_held
from jobs.verdicts.causes import Cause
from nodes.lifecycle import NodeKind, NodeStatus
from nodes.models import Node
from nodes.web.formats import number

_KIND: Final = "archive_store_fails"


def failing_stores(_now: dt.datetime) -> list[AttentionLine]:
    """Return a line for each store that fails for the workers of a machine."""
    # Only machines with a running worker count: on others, the last failure is old, and nothing tries again.
    workers = Node.objects.filter(host=OuterRef("host"), kind=NodeKind.WORKER, status=NodeStatus.RUNNING)
    found = [
        AttentionLine(
            kind=_KIND,
            key=f"{failing.store} {failing.host}",
            subject=failing.store,
            sentence=_("The archive files of %(host)s cannot be stored: %(why)s.")
            % {"host": failing.host, "why": failing.problem.rstrip(".")},
            since=failing.failing_since,
            link=reverse("nodes"),
            severity=Severity.WARNING,
        )
        for failing in FailingStore.objects.filter(Exists(workers))[:FOUND]
    ]
    return with_rest(found, subject=_("Nodes"), link=reverse("nodes"))


def damaged_archive(_now: dt.datetime) -> list[AttentionLine]:
    """Return a line if the last verification of the archives found more faults than it repaired."""
    last = ArchiveVerification.objects.filter(ended_at__isnull=False, refused="").first()
    if last is None or last.faults <= last.repaired:
        return []
    return [
        AttentionLine(
            kind="archive_is_damaged",
            key="",
            subject=_("archives"),
            sentence=_("%(n)s faults in archives are not repaired. Verify the archives with the option “Repair”.")
            % {"n": number(last.faults - last.repaired)},
            since=last.ended_at,
            link=reverse("archive-verification"),
            severity=Severity.WARNING,
        )
    ]


def jobs_that_wait_for_stores(now: dt.datetime) -> list[AttentionLine]:
    """Return a line for each job that waits until the stores confirm files of its archive."""
    found = [
        AttentionLine(
            kind="archive_is_full",
            key=str(job.id),
            subject=job.name,
            sentence=_("The job waits for the stores of its archive: %(why)s.") % {"why": job.archive_hold.rstrip(".")},
            since=job.archive_held_since,
            link=reverse("job", args=[job.id]),
        )
        for job in read_job_lines(find_held(), now=now)
        if job.hold is not None and job.hold.cause == Cause.ARCHIVE
    ]
    return with_rest(found, subject=_("Jobs"), link=reverse("jobs"))
