"""The page of the verifications of archives: the last result with its faults, a form, and earlier results."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from jobs.models import ArchiveFault, ArchiveVerification
from jobs.verbs.control import MAY_CONTROL
from jobs.verification.archives import verbs
from jobs.verification.attempts import state_of
from jobs.verification.pages import TONES, read_number
from nodes.database.clock import read_clock
from nodes.errors import Invalid, NotDone
from nodes.web import formats
from nodes.web.pages import name_of_who_may, page_for

page: Final = page_for("jobs.view_queueitem")
# Verifications, and faults of the last one, that the page shows.
_SHOWN: Final = 50


@page
@require_safe
def verifications(request: HttpRequest) -> HttpResponse:
    """Show the verifications of archives."""
    rows = list(ArchiveVerification.objects.all()[:_SHOWN])
    last = next((row for row in rows if row.ended_at is not None and not row.refused), None)
    user: Any = request.user
    context = {
        "last": None if last is None else _row(last),
        "faults": [] if last is None else list(ArchiveFault.objects.filter(verification=last)[:_SHOWN]),
        "rows": [_row(row) for row in rows],
        "may_start": user.has_perm(MAY_CONTROL),
    }
    return render(request, "verification/archives.html", context)


@page
@require_POST
def start(request: HttpRequest) -> HttpResponse:
    """Schedule a verification."""
    name = name_of_who_may(request, MAY_CONTROL)
    user: Any = request.user
    try:
        made = verbs.start(
            sample=read_number(request, "sample", float),
            repairs="repair" in request.POST,
            lost_machine=request.POST.get("lost_machine", "").strip(),
            may=user.has_perm,
            made_by=name,
        )
    except NotDone as refused:
        messages.warning(request, refused.by_field if isinstance(refused, Invalid) else str(refused))
    else:
        messages.success(request, _("Task %(id)d is scheduled.") % {"id": made.task})
    return redirect("archive-verification")


def _row(verification: ArchiveVerification) -> dict[str, object]:
    state = state_of(verification)
    counts = [
        (kind.label, formats.number(number))
        for kind in ArchiveFault.Kind
        if (number := getattr(verification, kind.value))
    ]
    return {
        "id": verification.pk,
        "state": state,
        "tone": TONES.get(state, "failed"),
        "refused": verification.refused,
        "sample": verification.sample,
        "by": verification.started_by,
        "host": verification.host,
        "at": formats.moment(verification.started_at, now=read_clock()),
        "counts": counts,
        **{name: formats.number(getattr(verification, name)) for name in ("files", "records", "skipped", "repaired")},
    }
