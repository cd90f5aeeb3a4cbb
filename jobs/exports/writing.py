"""
The task that writes an export.

It writes parts of a fixed number of rows. After each part is on the disk, its name and the cursor after it are stored
in the row of the export, if the number of the attempt is still the same. So the next attempt continues after the last
part, and an abandoned process changes nothing.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

from django.db import transaction
from django.db.models.functions import Now

from jobs.exports import files, formats
from jobs.exports.cleaning import CANCELLED
from jobs.exports.models import Export
from jobs.exports.parts import Part, Query
from jobs.exports.sources import Source, find, read_filter
from jobs.queries.reports.execution import with_timeout
from jobs.settings.kept import KEEP_EXPORTS
from nodes.database.clock import read_clock
from nodes.errors import Invalid
from nodes.settings.running import current
from nodes.tasks.context import TaskContext
from nodes.tasks.models import Task

# Number of rows in a part. The number limits the memory of an export.
ROWS_OF_A_PART: Final = 20_000
# Time limit of one statement (seconds).
_STATEMENT_SECONDS: Final = 1800


class AnotherAttempt(Exception):
    """Another attempt writes this export, or the export was deleted."""


def write_export(context: TaskContext, arguments: Mapping[str, Any]) -> dict[str, object] | None:
    """
    Write the export of this task, from its last part on. Return its number, rows and bytes; None if it was deleted or
    cancelled.

    Raises:
        Invalid: the filter is invalid.
        TooSlow: one part took too long.
        AnotherAttempt: another attempt writes the export.
    """
    export = _begin(context, arguments)
    if export is None:
        return None
    if not export.ended_at:
        try:
            source = find(export.what)
            _, query = read_filter(source, export.filter)
            if not _write_parts(context, export, source, query):
                _end(export, problem=CANCELLED)
                files.remove(files.files_of(export.pk))
                return None
        except Invalid as invalid:
            _end(export, problem=invalid.by_field)
            raise
        _join(export, source)
    return {"export": export.pk, "rows": export.rows, "bytes": export.bytes}


@transaction.atomic
def _begin(context: TaskContext, arguments: Mapping[str, Any]) -> Export | None:
    """
    Begin an attempt. Return None if the export was deleted.

    If no export has this task, a template or an operator created the task directly. Its arguments then describe the
    export, and a row is made for it.
    """
    export = Export.objects.select_for_update().filter(task=context.task).first()
    if export is None:
        if context.retry_number:
            return None
        stored, _ = read_filter(find(arguments["what"]), arguments.get("filter", {}))
        made_by = Task.objects.filter(pk=context.task).values_list("created_by", flat=True).first() or "crawlctl"
        export = Export.objects.create(
            task=context.task,
            what=arguments["what"],
            format=arguments["format"],
            filter=stored,
            created_by=made_by,
        )
    if export.ended_at:
        return export
    export.attempt += 1
    if not _has_all_parts(export):
        # The parts are missing because another machine wrote them, or because the disk was replaced.
        export.parts, export.rows, export.cursor, export.is_read = [], 0, None, False
    export.host = files.this_host()
    export.started_at = export.started_at or read_clock()
    export.save()
    return export


def _has_all_parts(export: Export) -> bool:
    """True if all parts are on this machine."""
    place = files.directory()
    return all((place / name).is_file() for name in export.parts)


def _write_parts(context: TaskContext, export: Export, source: Source, query: Query) -> bool:
    """Write the missing parts. Return False if the task was cancelled."""
    with with_timeout(_STATEMENT_SECONDS):
        if export.total is None and source.count is not None:
            _update(export, total=source.count(query))
        while not export.is_read:
            if context.is_cancelled():
                return False
            context.report({"export": export.pk, "rows": export.rows, "of": export.total})
            part = source.read(query, export.cursor, ROWS_OF_A_PART)
            _write_part(export, source, part)
    context.report({"export": export.pk, "rows": export.rows, "of": export.total})
    return not context.is_cancelled()


def _write_part(export: Export, source: Source, part: Part) -> None:
    number = len(export.parts) + 1
    name = files.part_name(export, number)
    formats.write_part(
        files.directory() / name, part.rows, columns=source.columns, form=export.format, is_first=number == 1
    )
    formats.sync_directory(files.directory())
    _update(
        export,
        parts=[*export.parts, name],
        rows=export.rows + len(part.rows),
        cursor=part.next,
        is_read=part.next is None,
    )


def _join(export: Export, source: Source) -> None:
    """Make one file of the parts, and end the export."""
    place = files.directory()
    unfinished, whole = place / files.unfinished_name(export), place / files.whole_name(export)
    length = formats.join(
        [place / name for name in export.parts], unfinished, columns=source.columns, form=export.format
    )
    unfinished.rename(whole)
    formats.sync_directory(place)
    _end(export, file=whole.name, bytes=length)
    files.remove(name for name in files.files_of(export.pk) if name != whole.name)


def _end(export: Export, **facts: object) -> None:
    keeps = dt.timedelta(days=current()[KEEP_EXPORTS])
    _update(export, ended_at=Now(), expires_at=read_clock() + keeps, **facts)


def _update(export: Export, **facts: object) -> None:
    """
    Write columns of an export.

    Raises:
        AnotherAttempt: this attempt is no longer the present one.
    """
    if not Export.objects.filter(pk=export.pk, attempt=export.attempt, ended_at=None).update(**facts):
        raise AnotherAttempt(f"Export {export.pk} is written by another attempt, or was deleted.")
    for name, value in facts.items():
        setattr(export, name, value)
