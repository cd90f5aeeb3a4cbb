"""The operations on exports, for pages, the API and commands."""

from dataclasses import dataclass
from typing import Final

from django.db import transaction
from django.db.models import QuerySet

from jobs.exports import files
from jobs.exports.cleaning import CANCELLED, why_lost
from jobs.exports.models import Export
from jobs.exports.sources import SOURCES, find, read_filter
from nodes.errors import Invalid, NotAllowed, Refused, Unknown
from nodes.membership.changes import record_request
from nodes.permissions import May
from nodes.tasks import verbs
from nodes.tasks.models import Task

STATES: Final = ("waiting", "running", "done", "cancelled", "failed")


@dataclass(frozen=True, slots=True)
class ExportWithState:
    """An export with its present state, and the reason why it has no file."""

    export: Export
    state: str
    problem: str


@transaction.atomic
def request(*, what: object, format: object, filter: object = None, may: May, made_by: str) -> Export:  # noqa: A002 (the words of the API)
    """
    Schedule an export.

    Raises:
        Invalid: a part is invalid.
        NotAllowed: the user may not see this content.
    """
    problems: dict[str, list[str]] = {}
    stored: dict[str, object] = {}
    source = None
    try:
        source = find(what)
        stored, _ = read_filter(source, {} if filter is None else filter)
    except Invalid as invalid:
        problems |= {name: list(sentences) for name, sentences in invalid.problems.items()}
    if not isinstance(format, str) or format not in Export.Format.values:
        problems["format"] = [f"Unknown format. Choose one of {', '.join(Export.Format.values)}."]
    if problems or source is None:
        raise Invalid(problems)
    if not may(source.permission):
        raise NotAllowed(f"Your role may not see this content: {source.name}.")
    facts = {"what": source.name, "format": format, "filter": stored}
    task = verbs.create(kind="export", arguments=facts, made_by=made_by)
    return Export.objects.create(task=task.pk, created_by=made_by, **facts)


def visible(may: May) -> QuerySet[Export]:
    """Return the exports whose content a user may see, newest first."""
    return Export.objects.filter(what__in=[source.name for source in SOURCES.values() if may(source.permission)])


def read(export: int, *, may: May) -> Export:
    """
    Return an export.

    Raises:
        Unknown: no export that the user may see has this number.
    """
    found = visible(may).filter(pk=export).first()
    if found is None:
        raise Unknown("export", export, f"There is no export {export}.")
    return found


def with_state(export: Export) -> ExportWithState:
    """Return an export with its state."""
    if export.file:
        return ExportWithState(export, "done", "")
    problem = export.problem or why_lost(export)
    if problem:
        return ExportWithState(export, "cancelled" if problem == CANCELLED else "failed", problem)
    runs = Task.objects.filter(pk=export.task, started_at__isnull=False).exists()
    return ExportWithState(export, "running" if runs else "waiting", "")


def cancel(export: int, *, may: May, made_by: str) -> Export:
    """
    Cancel an export that has not ended.

    Raises:
        Unknown: no export that the user may see has this number.
        Refused: the export has ended.
    """
    found = read(export, may=may)
    if with_state(found).state not in {"waiting", "running"}:
        raise Refused(f"Export {export} has ended.")
    verbs.cancel(found.task, made_by=made_by)
    return found


@transaction.atomic
def delete(export: int, *, may: May, made_by: str) -> None:
    """
    Delete an export that has ended, and its files on this machine.

    Raises:
        Unknown: no export that the user may see has this number.
        Refused: the export has not ended.
    """
    found = read(export, may=may)
    if with_state(found).state in {"waiting", "running"}:
        raise Refused(f"Export {export} has not ended. Cancel it first.")
    names = files.files_of(found.pk)
    found.delete()
    record_request(f"{made_by} deleted the export {export} ({found.what})", made_by=made_by)
    transaction.on_commit(lambda: files.remove(names))
