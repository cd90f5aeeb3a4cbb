"""
The pages of distributed jobs: their status and assignment, their switches, and a preview of the moves of another
strategy.
"""

from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from nodes.assignment.names import DEFAULT, NoSuchStrategy
from nodes.assignment.pools import StrategyRefused
from nodes.coordination.names import BadName
from nodes.coordination.port import CoordinationError
from nodes.database.address import database_dsn
from nodes.database.clock import read_clock
from nodes.distributed.pages.screens import distributed_job_screen, distributed_screen
from nodes.distributed.pages.topics import distributed_topic
from nodes.distributed.queries import plan_sharing, read_distributed_job, read_distributed_jobs
from nodes.distributed.records import DEFAULT_CLUSTER
from nodes.distributed.verbs import request_rebalance, set_switch
from nodes.web import formats
from nodes.web.pages import page_for, user_with_permission

_page: Final = page_for("nodes.view_node")
# The state of the switch for each action of a form. None removes the switch of a job.
_ACTIONS: Final = {"disable": True, "enable": False, "follow": None}


@_page
@require_safe
def distributed_jobs(request: HttpRequest) -> HttpResponse:
    now, cluster = read_clock(), request.GET.get("cluster") or DEFAULT_CLUSTER
    try:
        seen = read_distributed_jobs(cluster, dsn=database_dsn())
    except BadName as error:
        raise Http404(str(error)) from error
    context = {
        "seen": seen,
        "screen": distributed_screen(seen, now=now),
        "topic": distributed_topic(cluster),
    }
    return render(request, "distributed/jobs.html", context)


@_page
@require_safe
def distributed_job(request: HttpRequest, job: str) -> HttpResponse:
    now, cluster = read_clock(), request.GET.get("cluster") or DEFAULT_CLUSTER
    try:
        seen = read_distributed_job(cluster, job, dsn=database_dsn())
    except BadName as error:
        raise Http404(str(error)) from error
    if seen is None:
        raise Http404(_("This distributed job does not exist."))
    context = {
        "seen": seen,
        "screen": distributed_job_screen(seen, now=now),
        "topic": distributed_topic(cluster, job),
    }
    return render(request, "distributed/job.html", context)


@_page
@require_POST
def switch(request: HttpRequest) -> HttpResponse:
    """Disable or enable a job, all jobs, or jobs without an individual switch."""
    name = user_with_permission(request, "nodes.control_cluster")
    cluster, job, action = (request.POST.get(field, "") for field in ("cluster", "job", "action"))
    if action not in _ACTIONS:
        messages.warning(request, _("Choose an action: enable, disable or follow."))
        return redirect("distributed-jobs")
    try:
        set_switch(cluster=cluster, job=job, is_disabled=_ACTIONS[action], made_by=name, now=read_clock())
    except BadName as error:
        messages.warning(request, str(error))
        return redirect("distributed-jobs")
    messages.success(
        request, _("Nodes apply the switch within seconds. A disabled distributed job stops its runs in progress.")
    )
    return redirect(f"{reverse('distributed-jobs')}?{urlencode({'cluster': cluster})}")


@_page
@require_http_methods(["GET", "HEAD", "POST"])
def rebalance(request: HttpRequest) -> HttpResponse:
    """
    Show the plan that a strategy would make now; on POST, let the main node redistribute the items by its own strategy.
    """
    name = user_with_permission(request, "nodes.control_cluster")
    if request.method == "POST":
        return _redistribute(request.POST.get("cluster", ""), made_by=name, request=request)
    cluster = request.GET.get("cluster") or DEFAULT_CLUSTER
    strategy = request.GET.get("strategy") or DEFAULT
    context: dict[str, Any] = {"cluster": cluster, "strategy": strategy}
    try:
        made = plan_sharing(cluster, strategy=strategy, dsn=database_dsn())
    except (BadName, NoSuchStrategy, StrategyRefused, CoordinationError) as error:
        context["problem"] = str(error)
    else:
        context |= {
            "plan": made,
            "moves_in_all": formats.number(made.moves_in_all),
            "loads": [
                {"node": node, "before": formats.number(made.before[node]), "after": formats.number(made.after[node])}
                for node in made.before
            ],
            "more": formats.more(made.moves_in_all - len(made.moves)),
        }
    return render(request, "distributed/plan.html", context)


def _redistribute(cluster: str, *, made_by: str, request: HttpRequest) -> HttpResponse:
    try:
        request_rebalance(cluster=cluster, made_by=made_by, now=read_clock())
    except BadName as error:
        messages.warning(request, str(error))
        return redirect("distributed-jobs")
    messages.success(request, _("The main node rebalances the items within seconds."))
    return redirect(f"{reverse('distributed-jobs')}?{urlencode({'cluster': cluster})}")
