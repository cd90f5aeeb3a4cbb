"""The page of the verifications of archives: the last result with its faults, a form, and earlier results."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from jobs.ui.partitions_views import silent_partitions
from jobs.verbs.control import MAY_CONTROL
from jobs.verification.archives import verbs
from jobs.verification.archives.screens import TOPIC, present_screen
from jobs.verification.pages import partitions, read_number, show_begun
from nodes.database.clock import read_clock
from nodes.errors import Invalid, NotDone
from nodes.web.pages import page_for, user_with_permission

page: Final = page_for("jobs.view_queueitem")


@page
@require_safe
def verifications(request: HttpRequest) -> HttpResponse:
    """Show the verifications of archives."""
    user: Any = request.user
    screen, silent = present_screen()
    context = {
        "screen": screen,
        "silent": silent_partitions(silent, now=read_clock()),
        "partitions": partitions(),
        "topic": TOPIC,
        "row_template": "verification/rows/archive.html",
        "address": reverse("archive-verification-start"),
        "may_start": user.has_perm(MAY_CONTROL),
    }
    return render(request, "verification/archives.html", context)


@page
@require_POST
def start(request: HttpRequest) -> HttpResponse:
    """Schedule a verification."""
    name = user_with_permission(request, MAY_CONTROL)
    user: Any = request.user
    try:
        begun = verbs.start_everywhere(
            describe=lambda made: made.task,
            partition=request.POST.get("partition", ""),
            sample=read_number(request, "sample", float),
            repairs="repair" in request.POST,
            lost_machine=request.POST.get("lost_machine", "").strip(),
            may=user.has_perm,
            made_by=name,
        )
    except NotDone as refused:
        messages.warning(request, refused.by_field if isinstance(refused, Invalid) else str(refused))
    else:
        show_begun(request, begun)
    return redirect("archive-verification")
