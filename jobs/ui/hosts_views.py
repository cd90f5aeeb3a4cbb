"""The pages of hosts, and the actions of operators on them: each page first describes the effect of an action."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs.queries.hosts.all_partitions import list_busiest_everywhere, list_hosts_everywhere
from jobs.queries.hosts.evidence import read_chain
from jobs.queries.hosts.page import HostPage, read_host_page
from jobs.queries.hosts.robots import read_robots_of_host
from jobs.queries.hosts.selection import HostFilter, find_denied
from jobs.queries.hosts.sitemaps import read_sitemaps
from jobs.queries.hosts.week import read_week
from jobs.queries.webmasters import read_webmasters_limits
from jobs.ui.evidence_shown import evidence_shown
from jobs.ui.forms import HostFilterForm
from jobs.ui.hosts_screen import host_address, host_screen, hosts_screen
from jobs.ui.pages import page
from jobs.ui.partitions_views import silent_partitions
from jobs.ui.robots_shown import robots_shown, sitemaps_shown
from jobs.ui.topics import host_topic
from jobs.ui.webmasters_views import limits_shown
from jobs.ui.week_shown import week_chart, week_shown
from jobs.verbs import deny_list
from jobs.verbs import hosts as host_verbs
from jobs.verbs.hosts import MAY_STOP, HostsUnknown
from jobs.verbs.policies import EVERYWHERE
from nodes.database.clock import read_clock
from nodes.errors import Invalid, NotDone, Refused
from nodes.web.pages import user_with_permission


@page
@require_safe
def hosts(request: HttpRequest) -> HttpResponse:
    """Show the busiest hosts on a live page, or the hosts with a name or a state, page by page."""
    now = read_clock()
    form = HostFilterForm(request.GET)
    wanted = form.as_filter() if form.is_valid() else None
    context: dict[str, Any] = {"form": form, "may_stop": request.user.has_perm(MAY_STOP)}
    if wanted is None or form.is_of_the_busiest:
        found = list_busiest_everywhere(now=now)
        context["topic"] = "hosts"
    else:
        found = list_hosts_everywhere(wanted, after=form.key, now=now)
        if found.next_key is not None:
            context["next_query"] = urlencode(form.query_behind(found.next_key))
        context["first_query"] = urlencode(form.as_query()) if form.key is not None else ""
    context |= {"screen": hosts_screen(found.lines, now=now), "silent": silent_partitions(found.silent, now=now)}
    return render(request, "ui/hosts.html", context)


@page
@require_safe
def host(request: HttpRequest, host_id: int) -> HttpResponse:
    now = read_clock()
    found = _find(host_id)
    week = read_week(host_id, now=now)
    evidence = evidence_shown(read_chain(found.host.name, now=now), now=now)
    context = {
        "screen": host_screen(found, now=now),
        "host": found.host,
        "may_stop": request.user.has_perm(MAY_STOP),
        "may_end_back_off": request.user.has_perm(EVERYWHERE),
        "topic": host_topic(host_id),
        "chart": week_chart(week) or (evidence or {}).get("chart"),
        "week": week_shown(week, now=now),
        "robots": robots_shown(read_robots_of_host(found.host.name), now=now),
        "evidence": evidence,
        "limits": limits_shown(read_webmasters_limits(found.host.name), now=now),
        "sitemaps": sitemaps_shown(read_sitemaps(found.host.name), now=now),
    }
    return render(request, "ui/host.html", context)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def stop(request: HttpRequest, host_id: int) -> HttpResponse:
    """Describe the effect of a stop. POST with a reason stops the host."""
    name = user_with_permission(request, MAY_STOP)
    found = _find(host_id)
    asked = {"reason": request.POST.get("reason", "")}
    problems: dict[str, list[str]] = {}
    if request.method == "POST":
        try:
            host_verbs.stop(host_id, reason=asked["reason"], made_by=name, now=read_clock())
        except Refused as refused:
            messages.warning(request, str(refused))
            return redirect("host", host_id)
        except Invalid as invalid:
            problems = invalid.problems
        else:
            messages.success(request, _("%(host)s is stopped.") % {"host": found.host.name})
            return redirect("host", host_id)
    return render(request, "ui/host_stop.html", {"host": found.host, "asked": asked, "problems": problems})


@page
@require_POST
def release(request: HttpRequest, host_id: int) -> HttpResponse:
    """Release a stopped host."""
    name = user_with_permission(request, MAY_STOP)
    try:
        found = host_verbs.release(host_id, made_by=name, now=read_clock())
    except Refused as refused:
        messages.warning(request, str(refused))
    else:
        messages.success(request, _("%(host)s is released.") % {"host": found.name})
    return redirect("host", host_id)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def end_back_off(request: HttpRequest, host_id: int) -> HttpResponse:
    """Describe the effect. POST ends the back-off of a host, so that it gets requests again immediately."""
    name = user_with_permission(request, EVERYWHERE)
    found = _find(host_id)
    now = read_clock()
    if request.method != "POST" and found.host.back_off_level:
        return render(request, "ui/host_end_back_off.html", {"host": found.host, "screen": host_screen(found, now=now)})
    if request.method != "POST":
        messages.warning(request, _("%(host)s is not backing off.") % {"host": found.host.name})
        return redirect("host", host_id)
    try:
        host_verbs.end_back_off(host_id, made_by=name, now=now)
    except Refused as refused:
        messages.warning(request, str(refused))
    else:
        messages.success(
            request,
            _("The back-off of %(host)s has ended. Requests resume at the full rate.") % {"host": found.host.name},
        )
    return redirect("host", host_id)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def denied(request: HttpRequest) -> HttpResponse:
    """
    Show stopped and denied hosts. POST shows the hosts that a pattern matches, or executes `stop`, `deny` or `allow`.
    """
    now = read_clock()
    context: dict[str, Any] = {"may_stop": request.user.has_perm(MAY_STOP)}
    if request.method == "POST":
        name = user_with_permission(request, MAY_STOP)
        pattern, reason = request.POST.get("pattern", "").strip(), request.POST.get("reason", "")
        confirm = "confirm" in request.POST
        context.update(pattern=pattern, reason=reason)
        try:
            if "allow" in request.POST:
                everywhere = request.user.has_perm(EVERYWHERE)
                deny_list.allow(_number(request, "policy"), pattern=pattern, made_by=name, everywhere=everywhere)
                messages.success(request, _("%(pattern)s is no longer denied.") % {"pattern": pattern})
                return redirect("hosts-denied")
            if "deny" in request.POST:
                deny_list.deny(pattern, reason=reason, confirm=confirm, made_by=name, now=now)
                messages.success(request, _("%(pattern)s is denied.") % {"pattern": pattern})
                return redirect("hosts-denied")
            if "stop" in request.POST:
                stopped = host_verbs.where_it_is(
                    lambda: host_verbs.stop_named(pattern, reason=reason, confirm=confirm, made_by=name, now=now)
                )
                messages.success(request, _("%(host)s is stopped.") % {"host": stopped.line.name})
                return redirect(host_address(stopped.line.pk, partition=stopped.partition))
            context["meant"] = find_denied(deny_list.pattern_meant(pattern))
        except HostsUnknown as unknown:
            context.update(problem=str(unknown), asks_back=True)
        except NotDone as refused:
            context["problem"] = str(refused)
    stopped_hosts = list_hosts_everywhere(HostFilter(state="stopped"), now=now)
    return render(
        request,
        "ui/hosts_denied.html",
        {
            **context,
            "silent": silent_partitions(stopped_hosts.silent, now=now),
            "denials": deny_list.denials(),
            "stopped": hosts_screen(stopped_hosts.lines, now=now)["hosts"],
            "more_stopped": stopped_hosts.next_key is not None,
        },
    )


def _find(host_id: int) -> HostPage:
    found = read_host_page(host_id, now=read_clock())
    if found is None:
        raise Http404(_("Host %(id)d does not exist.") % {"id": host_id})
    return found


def _number(request: HttpRequest, name: str) -> int:
    try:
        return int(request.POST.get(name, ""))
    except ValueError:
        raise Http404(_("This policy does not exist. Reload the page.")) from None
