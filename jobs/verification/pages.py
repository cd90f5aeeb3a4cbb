"""The page of an output's verifications: the last result with its documents, a form, and earlier results."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from jobs.models import OutputConnection, OutputFault, OutputVerification
from jobs.verbs.control import MAY_CONTROL
from jobs.verification import verbs
from jobs.verification.attempts import state_of
from nodes.database.clock import read_clock
from nodes.errors import Invalid, NotDone, Unknown
from nodes.web import formats
from nodes.web.pages import name_of_who_may, page_for

page: Final = page_for("jobs.view_outputconnection")
# Verifications, and documents of the last one, that the page shows.
_SHOWN: Final = 50
TONES: Final = {"done": "indexed", "running": "active", "waiting": "waiting"}


@page
@require_safe
def verifications(request: HttpRequest, output_id: int) -> HttpResponse:
    """Show the verifications of an output."""
    output = _output(output_id)
    rows = list(OutputVerification.objects.filter(output=output)[:_SHOWN])
    last = next((row for row in rows if row.ended_at is not None and not row.refused), None)
    user: Any = request.user
    context = {
        "output": output,
        "last": None if last is None else _row(last),
        "question": "" if last is None else last.question,
        "faults": [] if last is None else list(OutputFault.objects.filter(verification=last)[:_SHOWN]),
        "rows": [_row(row) for row in rows],
        "may_start": user.has_perm(MAY_CONTROL),
        "may_allow": user.has_perm(verbs.MAY_ALLOW_REMOVALS),
    }
    return render(request, "verification/output.html", context)


@page
@require_POST
def start(request: HttpRequest, output_id: int) -> HttpResponse:
    """Schedule a verification."""
    name = name_of_who_may(request, MAY_CONTROL)
    user: Any = request.user
    try:
        made = verbs.start(
            output_id,
            sample=read_number(request, "sample", float),
            repairs="repair" in request.POST,
            most=read_number(request, "most", int),
            allows_removals="allow_removals" in request.POST,
            may=user.has_perm,
            made_by=name,
        )
    except Unknown:
        raise
    except NotDone as refused:
        messages.warning(request, refused.by_field if isinstance(refused, Invalid) else str(refused))
    else:
        messages.success(request, _("Task %(id)d is scheduled.") % {"id": made.task})
    return redirect("output-verification", output_id)


def read_number(request: HttpRequest, name: str, kind: type[Any]) -> Any:  # noqa: ANN401 (int or float)
    """
    Return a number of the form, or None for an empty field.

    Raises:
        Invalid: it is no number.
    """
    text = request.POST.get(name, "").strip()
    if not text:
        return None
    try:
        return kind(text)
    except ValueError:
        raise Invalid({name: [_("This must be a number.")]}) from None


def _output(output_id: int) -> OutputConnection:
    output = OutputConnection.objects.filter(pk=output_id).first()
    if output is None:
        raise Unknown("output", output_id)
    return output


def _row(verification: OutputVerification) -> dict[str, object]:
    state = state_of(verification)
    counts = {
        name: formats.number(getattr(verification, name))
        for name in ("documents", "missing", "ghost", "stale", "damaged", "skipped", "repaired")
    }
    in_sync = verification.documents - verification.faults
    return {
        "id": verification.pk,
        "task": verification.task,
        "state": state,
        "tone": TONES.get(state, "failed"),
        "refused": verification.refused,
        "in_sync": formats.share(in_sync, verification.documents) if verification.documents else formats.UNKNOWN,
        "buckets": formats.number(verbs.buckets_of(verification)),
        "is_sample": verification.buckets is not None,
        "repairs": verification.repairs,
        "by": verification.started_by,
        "at": formats.moment(verification.started_at, now=read_clock()),
        **counts,
    }
