"""The page of retention: each subject with the rows that would be deleted now."""

from typing import Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from jobs.duties.cleaning import COUNTED_AT_MOST
from jobs.retention import verbs
from nodes.web import formats
from nodes.web.pages import page_for, user_with_permission
from nodes.web.translated_words import translated

page: Final = page_for("tasks.view_task")


@page
@require_safe
def retention(request: HttpRequest) -> HttpResponse:
    return render(request, "retention/list.html", {"rows": [_row(seen) for seen in verbs.read_all()]})


@page
@require_POST
def clean(request: HttpRequest, subject: str) -> HttpResponse:
    """Schedule the cleaning of a subject."""
    task = verbs.clean(subject, made_by=user_with_permission(request, "tasks.run_task"))
    messages.success(request, _("Task %(id)d is scheduled.") % {"id": task.pk})
    return redirect("retention")


def _row(seen: verbs.SubjectWithOldRows) -> dict[str, object]:
    counted = formats.number(seen.old.rows)
    return {
        "name": seen.subject.name,
        "title": translated(seen.subject.title),
        "setting": seen.subject.setting.environment if seen.subject.setting else formats.UNKNOWN,
        "days": formats.UNKNOWN
        if seen.days is None
        else _("unlimited")
        if not seen.days
        else formats.number(seen.days),
        "rows": _("at least %(n)s") % {"n": counted} if seen.old.rows >= COUNTED_AT_MOST else counted,
        "size": formats.size(seen.old.bytes) if seen.old.bytes else formats.UNKNOWN,
    }
