"""The page of drills: the injected faults, and the reports."""

from typing import Final

from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from crawlctl.drill.models import Drill
from jobs.ui.pages import page
from nodes.database.clock import read_clock
from nodes.web import formats

_SHOWN: Final = 50


@page
@permission_required("drill.view_drill", raise_exception=True)
@require_safe
def drills(request: HttpRequest) -> HttpResponse:
    now = read_clock()
    rows = [
        {
            "key": drill.pk,
            "at": formats.moment(drill.at, now=now),
            "what": f"{drill.fault} {drill.whom}",
            "node": drill.node,
            "where": drill.where,
            "is_good": drill.is_good,
            "came_to": drill.came_to,
        }
        for drill in Drill.objects.all()[:_SHOWN]
    ]
    return render(request, "ui/drills.html", {"rows": rows})
