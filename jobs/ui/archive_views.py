"""Pages of archives: the files of a job, and the records of a document."""

import datetime as dt
import uuid

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from jobs.models import ArchiveRecord, FileState, Job, QueueItem
from jobs.partitions.this_partition import key_in
from jobs.queries.archive import MOST_SHOWN, read_archive_everywhere, records_of
from jobs.ui.pages import page
from jobs.ui.partitions_views import silent_partitions
from nodes.database.clock import read_clock
from nodes.web import formats


@page
@require_safe
def job_archive(request: HttpRequest, job_id: int) -> HttpResponse:
    job = Job.objects.filter(pk=job_id).first()
    if job is None:
        raise Http404(_("No job has the number %(id)d.") % {"id": job_id})
    now, archive = read_clock(), read_archive_everywhere(job_id)
    rows = [
        {
            "key": key_in(placed.partition, file.pk),
            "partition": placed.partition,
            "path": file.path,
            "host": file.host,
            "state": file.state,
            "size": formats.size(file.length) if file.completed_at else formats.UNKNOWN,
            "opened": formats.moment(file.opened_at, now=now),
            "completed": formats.moment(file.completed_at, now=now),
            "stores": ", ".join(sorted(file.stores)) or formats.UNKNOWN,
            "is_local": file.removed_at is None and file.state != FileState.LOST,
            "problem": file.problem,
        }
        for placed, file in ((placed, placed.line) for placed in archive.files)
    ]
    context = {
        "job": job,
        "rows": rows,
        "count": formats.number(archive.count),
        "size": formats.size(archive.length),
        "records": formats.number(archive.records),
        "silent": silent_partitions(archive.silent, now=now),
        "hidden": formats.number(archive.count - len(rows)) if archive.count > len(rows) else "",
    }
    return render(request, "ui/archive.html", context)


@page
@require_safe
def document_archive(request: HttpRequest, job_id: int, document_hash: uuid.UUID) -> HttpResponse:
    item = QueueItem.objects.filter(job_id=job_id, hash=document_hash).first()
    if item is None:
        raise Http404(_("Job %(id)d has no document with this key.") % {"id": job_id})
    now = read_clock()
    rows = [record_row(record, now) for record in records_of(job_id, document_hash)[:MOST_SHOWN]]
    return render(request, "ui/archive_records.html", {"item": item, "rows": rows})


def record_row(record: ArchiveRecord, now: dt.datetime) -> dict[str, object]:
    """Return a record as pages show it."""
    return {
        "id": record.pk,
        "address": reverse("archive-record", args=[record.pk]),
        "kind": record.get_kind_display(),
        "status": record.status,
        "run": record.run_no,
        "fetched": formats.moment(record.fetched_at, now=now),
        "size": formats.size(record.length),
        "file": record.file.path,
        "offset": record.offset,
        "digest": record.digest,
    }
