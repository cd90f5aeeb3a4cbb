"""The page of the limits that webmasters asked for."""

import datetime as dt
from collections.abc import Iterable

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from jobs.queries.webmasters import LimitLine, read_webmasters_limits
from jobs.ui.pages import page
from jobs.verbs import webmasters
from jobs.verbs.hosts import MAY_STOP
from nodes.database.clock import read_clock
from nodes.errors import NotDone
from nodes.web import formats
from nodes.web.pages import user_with_permission
from nodes.web.screens import Record


@page
@require_http_methods(["GET", "HEAD", "POST"])
def limits(request: HttpRequest) -> HttpResponse:
    """List the limits. POST withdraws the limit of a host."""
    if request.method == "POST":
        name = user_with_permission(request, MAY_STOP)
        host = request.POST.get("host", "")
        try:
            webmasters.withdraw(host, made_by=name)
            messages.success(request, _("The limit for %(host)s is removed.") % {"host": host})
        except NotDone as refused:
            messages.warning(request, str(refused))
        return redirect("hosts-webmasters")
    shown = limits_shown(read_webmasters_limits(), now=read_clock())
    return render(request, "ui/hosts_webmasters.html", {"limits": shown, "may_stop": request.user.has_perm(MAY_STOP)})


def limits_shown(lines: Iterable[LimitLine], *, now: dt.datetime) -> list[Record]:
    """Return limits of webmasters as rows."""
    return [
        {
            "host": line.host,
            "limit": limit_in_words(line.gap),
            "proof": _("a file on the host") if line.proof == "file" else _("a DNS record"),
            "proved": formats.moment(line.proved_at, now=now),
            "expires": formats.moment(line.expires_at, now=now),
            "is_in_force": line.is_in_force,
        }
        for line in lines
    ]


def limit_in_words(gap: float | None) -> str:
    """Return the limit of a webmaster as a phrase."""
    return _("no requests") if gap is None else _("at most one request in %(gap)s s") % {"gap": f"{gap:g}"}
