"""The page of an output's verifications: the last result with its documents, a form, and earlier results."""

from collections.abc import Sequence
from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from jobs.models import OutputConnection
from jobs.partitions import this_partition
from jobs.ui.partitions_views import silent_partitions
from jobs.verbs.control import MAY_CONTROL
from jobs.verification import verbs
from jobs.verification.all_partitions import Begun
from jobs.verification.screens import screen_of, topic_of
from nodes.database.clock import read_clock
from nodes.errors import Invalid, NotDone, Unknown
from nodes.web.pages import page_for, user_with_permission

page: Final = page_for("jobs.view_outputconnection")


@page
@require_safe
def verifications(request: HttpRequest, output_id: int) -> HttpResponse:
    """Show the verifications of an output."""
    output = _output(output_id)
    user: Any = request.user
    screen, silent = screen_of(output)
    context = {
        "output": output,
        "screen": screen,
        "silent": silent_partitions(silent, now=read_clock()),
        "partitions": partitions(),
        "topic": topic_of(output),
        "row_template": "verification/rows/output.html",
        "address": reverse("output-verification-start", args=[output.pk]),
        "may_start": user.has_perm(MAY_CONTROL),
        "may_allow": user.has_perm(verbs.MAY_ALLOW_REMOVALS),
    }
    return render(request, "verification/output.html", context)


@page
@require_POST
def start(request: HttpRequest, output_id: int) -> HttpResponse:
    """Schedule a verification."""
    name = user_with_permission(request, MAY_CONTROL)
    user: Any = request.user
    try:
        begun = verbs.start_everywhere(
            output_id,
            describe=lambda made: made.task,
            partition=request.POST.get("partition", ""),
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
        show_begun(request, begun)
    return redirect("output-verification", output_id)


def partitions() -> Sequence[str]:
    """Return the partitions that a verification may concern; none if it always concerns this one."""
    placement = this_partition.placement()
    return placement.names if placement is not None and placement.is_control else ()


def show_begun(request: HttpRequest, begun: Begun[int | None]) -> None:
    """Show a message with the partitions that verify, and their tasks."""
    for row in begun.rows:
        said = _("Partition %(name)s: task %(id)d is scheduled.") if row.partition else _("Task %(id)d is scheduled.")
        messages.success(request, said % {"name": row.partition, "id": row.line})
    for name, why in begun.refused.items():
        messages.warning(request, _("Partition %(name)s refused: %(why)s") % {"name": name, "why": why})
    for name in begun.silent:
        said = _("Partition %(name)s does not answer. Start its verification later.")
        messages.warning(request, said % {"name": name})


def read_number(request: HttpRequest, name: str, kind: type[Any]) -> Any:  # noqa: ANN401 (int or float)
    """
    Return a number of the form, or None for an empty field.

    Raises:
        Invalid: the field is not a number.
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
