"""The page of drills: the state of backups, the injected faults and tried restores, and the reports."""

import datetime as dt
from typing import Final

from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from crawlctl.drill.models import Drill
from jobs.queries.backups import age_of_last_backup, age_of_log
from jobs.queries.restores import read_open_restores
from jobs.ui.pages import page
from nodes.database.clock import read_clock
from nodes.models import DatabaseRestore
from nodes.web import formats

_SHOWN: Final = 50
_RESTORES_SHOWN: Final = 5


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
    return render(request, "ui/drills.html", {"rows": rows, "backups": _of_backups(now)})


def _of_backups(now: dt.datetime) -> list[str]:
    """Return sentences about the last backup, the stored log, and the last restores of the database."""
    backup, log = age_of_last_backup(), age_of_log(now=now)
    sentences = [
        _said(_("Last backup: %(at)s."), backup, now=now) or _("No backup on this machine is known."),
        _said(_("The write-ahead log is stored up to %(at)s."), log, now=now)
        or _("The write-ahead log is not stored."),
    ]
    for restore in DatabaseRestore.objects.all()[:_RESTORES_SHOWN]:
        facts = {
            "at": formats.moment(restore.noticed_at, now=now),
            "as_of": formats.moment(restore.as_of, now=now) if restore.as_of else "?",
        }
        sentences.append(_("The database was restored: noticed %(at)s, as of %(as_of)s.") % facts)
    for _restore, waiting in read_open_restores():
        sentences.append(_("Outputs to verify: %(outputs)s.") % {"outputs": ", ".join(waiting)})
    return sentences


def _said(sentence: str, age: float | None, *, now: dt.datetime) -> str:
    """Return the sentence with the moment of this age; '' without one."""
    if age is None or age == float("inf"):
        return ""
    return sentence % {"at": formats.moment(now - dt.timedelta(seconds=age), now=now)}
