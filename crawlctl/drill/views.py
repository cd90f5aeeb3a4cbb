"""The page of drills: the state of backups, the injected faults and tried restores, and the reports."""

import datetime as dt
import json
from collections.abc import Sequence
from typing import Final

from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from crawlctl.drill.faults import DRILLS
from crawlctl.drill.kinds import DRILL, DRILL_RESTORE
from crawlctl.drill.models import RESTORE, Drill
from jobs.queries.backups import age_of_last_backup, age_of_log
from jobs.queries.restores import read_open_restores
from jobs.ui.pages import page
from nodes.database.clock import read_clock
from nodes.errors import NotDone
from nodes.models import DatabaseRestore
from nodes.tasks import verbs
from nodes.web import formats
from nodes.web.pages import user_with_permission

_SHOWN: Final = 50
_RESTORES_SHOWN: Final = 5
_MAY_START: Final = "nodes.control_cluster"


@page
@permission_required("drill.view_drill", raise_exception=True)
@require_safe
def drills(request: HttpRequest) -> HttpResponse:
    now = read_clock()
    found = list(Drill.objects.all()[:_SHOWN])
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
        for drill in found
    ]
    context = {
        "rows": rows,
        "backups": _of_backups(now),
        "chart": _chart(found),
        "drills": [*DRILLS, RESTORE],
        "may_start": request.user.has_perm(_MAY_START),
    }
    return render(request, "ui/drills.html", context)


@page
@require_POST
def start_drill(request: HttpRequest) -> HttpResponse:
    """Schedule a drill in a sandbox as a background task."""
    name = user_with_permission(request, _MAY_START)
    wanted = request.POST.get("drill", "")
    kind, arguments = (DRILL_RESTORE, {}) if wanted == RESTORE else (DRILL, {"drill": wanted})
    try:
        task = verbs.create(kind=kind.name, arguments=arguments, made_by=name)
    except NotDone:
        messages.warning(request, _("Choose a drill from the list."))
        return redirect("drills")
    messages.success(request, _("Task %(id)d is scheduled.") % {"id": task.pk})
    return redirect("task", task.pk)


def _chart(found: Sequence[Drill]) -> str:
    """Return the seconds to recover of each drill that passed, as the input of `static/js/chart.js`; '' without one."""
    passed = [drill for drill in reversed(found) if drill.recovery is not None]
    if not passed:
        return ""
    labels = [f"{drill.fault} {drill.whom}, {drill.at:%Y-%m-%d %H:%M}" for drill in passed]
    series = [{"label": _("Seconds to recover"), "values": [round(drill.recovery or 0.0, 2) for drill in passed]}]
    return json.dumps({"labels": labels, "series": series})


def _of_backups(now: dt.datetime) -> list[str]:
    """Return sentences about the last backup, the stored log, and the last restores of the database."""
    backup, log = age_of_last_backup(), age_of_log(now=now)
    sentences = [
        _with_moment(_("Last backup: %(at)s."), backup, now=now) or _("No backup on this machine is known."),
        _with_moment(_("The write-ahead log is stored up to %(at)s."), log, now=now)
        or _("The write-ahead log is not stored."),
    ]
    for restore in DatabaseRestore.objects.all()[:_RESTORES_SHOWN]:
        facts = {
            "at": formats.moment(restore.noticed_at, now=now),
            "as_of": formats.moment(restore.as_of, now=now) if restore.as_of else "?",
        }
        sentences.append(
            _("The database was restored to its state of %(as_of)s. crawlctl noticed this at %(at)s.") % facts
        )
    for _restore, waiting in read_open_restores():
        sentences.append(_("Outputs to verify: %(outputs)s.") % {"outputs": ", ".join(waiting)})
    return sentences


def _with_moment(sentence: str, age: float | None, *, now: dt.datetime) -> str:
    """
    Return the sentence with a moment in place of its `%(at)s`: the moment `age` seconds ago. Return '' without an age.
    """
    if age is None or age == float("inf"):
        return ""
    return sentence % {"at": formats.moment(now - dt.timedelta(seconds=age), now=now)}
