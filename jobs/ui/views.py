"""
The views of the main pages. Each page uses one module of `jobs.queries`. Changes of jobs call `jobs.verbs.control`.

Every page requires a login and the permission to see jobs, which every role has.
"""

import datetime as dt
import json
import uuid
from collections.abc import Sequence
from typing import Any, Final

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.views.decorators.http import require_POST, require_safe

from jobs.attention.all_partitions import read_attention_for_open_page
from jobs.queries.cluster.nodes import read_address_of_pages, read_nodes_everywhere
from jobs.queries.documents.all_partitions import (
    DocumentsEverywhere,
    list_documents_everywhere,
    read_story_everywhere,
)
from jobs.queries.documents.conditions import keys_meant
from jobs.queries.documents.lists import DocumentFilter, FilterTooWide, OrderTooWide
from jobs.queries.jobs.chains import read_chains
from jobs.queries.jobs.page import read_job_page
from jobs.queries.jobs.set_up import read_set_up
from jobs.queries.overview import read_overview
from jobs.queries.progress import DEFAULT_SPAN, SPANS
from jobs.ui import document_rows, nodes_screen
from jobs.ui.forms import DocumentFilterForm
from jobs.ui.job_screen import job_screen
from jobs.ui.overview_screen import overview_screen
from jobs.ui.pages import page
from jobs.ui.partitions_views import silent_partitions
from jobs.ui.progress_screen import SPAN_NAMES
from jobs.ui.specification import describe
from jobs.ui.topics import job_topic, overview_topic
from jobs.verbs import control
from nodes.database.clock import read_clock
from nodes.errors import Invalid, Refused
from nodes.web import formats
from nodes.web.translated_words import translated

_EPOCH: Final = dt.datetime.fromtimestamp(0, dt.UTC)
_EXPORT: Final = "export"
# The operations that the list of documents offers: name, label, and True if documents are removed.
_OPERATIONS: Final[Sequence[tuple[str, Promise, bool]]] = (
    ("retry", _lazy("Retry failed documents"), False),
    ("expire", _lazy("Expire: fetch now, without conditions"), False),
    ("re-read", _lazy("Fetch again, as new"), False),
    (_EXPORT, _lazy("Export to a file"), False),
    ("forget", _lazy("Forget, unless an output has them"), True),
    ("drop", _lazy("Remove from queue and outputs"), True),
)


@page
@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    now = read_clock()
    span = request.GET.get("span", DEFAULT_SPAN)
    if span not in SPANS:
        raise Http404(_("Invalid span. Use one of: %(spans)s.") % {"spans": ", ".join(SPANS)})
    screen = overview_screen(read_overview(now=now, span=span), read_attention_for_open_page(now=now), now=now)
    context = {"screen": screen, "topic": overview_topic(span), "spans": SPAN_NAMES, "span": span}
    return render(request, "ui/overview.html", context)


@page
@require_safe
def job(request: HttpRequest, job_id: int) -> HttpResponse:
    now = read_clock()
    found, set_up = read_job_page(job_id, now=now), read_set_up(job_id)
    if found is None or set_up is None:
        raise Http404(_("Job %(id)d does not exist.") % {"id": job_id})
    context = {
        "screen": job_screen(found, now=now),
        "page": found,
        "set_up": set_up,
        "settings": describe(set_up),
        "chains": read_chains(job_id),
        "topic": job_topic(job_id),
    }
    return render(request, "ui/job.html", context)


@page
@require_POST
def transition(request: HttpRequest, job_id: int) -> HttpResponse:
    """Make the transition that a button requests, and redirect to the page with the button."""
    name = request.POST.get("transition", "")
    if name not in control.VERBS:
        raise Http404(_("This action does not exist. Reload the page."))
    verb = control.VERBS[name]
    user: Any = request.user
    if not user.has_perm(verb.permission):
        raise PermissionDenied(_("Your role does not permit this action. Ask an administrator."))
    try:
        change = verb.perform(job_id, made_by=user.get_username(), now=read_clock())
    except (Refused, Invalid) as refused:
        messages.warning(request, str(refused))
    else:
        messages.success(
            request, _("%(job)s: %(status)s.") % {"job": change.job.name, "status": translated(change.job.status)}
        )
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts=None):
        back = reverse("job", args=[job_id])
    return redirect(back)


@page
@require_POST
def send_back(request: HttpRequest, job_id: int) -> HttpResponse:
    """Send failed documents back to the queue: those of one result code, or all."""
    user: Any = request.user
    if not user.has_perm(control.MAY_CONTROL):
        raise PermissionDenied(_("Your role does not permit this action. Ask an administrator."))
    code = request.POST.get("code", "")
    try:
        sent = control.send_back_failed(
            job_id, codes=[code] if code else [], made_by=user.get_username(), now=read_clock()
        )
    except Refused as refused:
        messages.warning(request, str(refused))
    else:
        messages.success(
            request,
            _("Documents to be retried: %(count)s. If the job is not running, start it.")
            % {"count": formats.number(sent.documents)},
        )
        if sent.left_out:
            messages.warning(
                request,
                _("Nothing was done in partition %(names)s: no answer, or the job starts or ends there. Try again.")
                % {"names": ", ".join(sent.left_out)},
            )
    return redirect("job", job_id)


@page
@require_safe
def documents(request: HttpRequest) -> HttpResponse:
    form = DocumentFilterForm(request.GET)
    found = DocumentsEverywhere()
    problem = ""
    if form.is_valid():
        try:
            found = list_documents_everywhere(form.as_filter())
        except (FilterTooWide, OrderTooWide) as too_wide:
            problem = str(too_wide)
    now = read_clock()
    context = {
        "form": form,
        "problem": problem,
        "rows": [document_rows.document_row(one.line, partition=one.partition, now=now) for one in found.lines],
        "silent": silent_partitions(found.silent, now=now),
        "next_query": _next_query(form, found),
        "is_first": not form.data.get("after"),
        "first_query": urlencode(form.as_query()) if form.is_valid() else "",
        "filters": form.as_query().items() if form.is_valid() else (),
        "operations": _OPERATIONS,
    }
    return render(request, "ui/documents.html", context)


@page
@require_safe
def change_documents(request: HttpRequest) -> HttpResponse:
    """Redirect to the preview of an operation on the chosen documents, or on all documents that match the filter."""
    form = DocumentFilterForm(request.GET)
    back = redirect(f"{reverse('documents')}?{urlencode(form.as_query()) if form.is_valid() else ''}")
    if not form.is_valid():
        return back
    wanted, operation = form.as_filter(), request.GET.get("operation", "")
    if request.GET.get("which") == "matching":
        if operation == _EXPORT:
            return _to_export(wanted)
        if wanted.job_id is None or wanted.address:
            messages.warning(
                request, _("To change all documents of the list, filter it by a job and not by an address.")
            )
            return back
        job = wanted.job_id
        asked = {"host": wanted.host, "codes": wanted.code, "contains": wanted.contains, "state": wanted.state}
    else:
        chosen = [one.partition(".") for one in request.GET.getlist("document")]
        jobs = {number for _key, _dot, number in chosen if number.isdecimal() and len(number) < 19}
        if len(jobs) != 1:
            messages.warning(
                request,
                _("An operation changes documents of one job. Choose documents of one job.")
                if jobs
                else _("Choose documents first."),
            )
            return back
        job = int(jobs.pop())
        keys = [key for key, _dot, _number in chosen]
        if operation == _EXPORT:
            return _to_export(DocumentFilter(job_id=job), documents=keys)
        asked = {"documents": ",".join(keys)}
    query = {"operation": operation, **{name: value for name, value in asked.items() if value}}
    return redirect(f"{reverse('job-bulk', args=[job])}?{urlencode(query)}")


def _to_export(wanted: DocumentFilter, *, documents: Sequence[str] = ()) -> HttpResponseRedirect:
    """Redirect to the form of an export of these documents."""
    filter_ = {
        "job": [] if wanted.job_id is None else [wanted.job_id],
        "host": wanted.host,
        "code": [wanted.code] if wanted.code else [],
        "contains": wanted.contains,
        "listed_state": wanted.state,
        "documents": keys_meant(wanted.address) if wanted.address else list(documents),
    }
    query = {"what": "documents", "filter": json.dumps({name: value for name, value in filter_.items() if value})}
    return redirect(f"{reverse('export-new')}?{urlencode(query)}")


@page
@require_safe
def document(request: HttpRequest, job_id: int, document_hash: uuid.UUID) -> HttpResponse:
    now = read_clock()
    story = read_story_everywhere(job_id=job_id, document=document_hash, now=now)
    if story is None:
        raise Http404(_("Job %(id)d has no document with this key.") % {"id": job_id})
    context = {
        "screen": document_rows.story_screen(story, now=now),
        "key": f"{document_hash.hex}.{job_id}",
        "operations": [one for one in _OPERATIONS if one[0] != _EXPORT],
    }
    return render(request, "ui/document.html", context)


@page
@require_safe
def nodes(request: HttpRequest) -> HttpResponse:
    found, now = read_nodes_everywhere(), read_clock()
    context = {
        "screen": nodes_screen.nodes_screen(found, now=now),
        "silent": silent_partitions(found.silent, now=now),
        "topic": "nodes",
    }
    return render(request, "ui/nodes.html", context)


@page
@require_safe
def node_pages(request: HttpRequest, node_id: uuid.UUID) -> HttpResponse:
    """
    Redirect to the pages that a manager serves itself. Pages link here because live pages contain only addresses of
    this site.
    """
    address = read_address_of_pages(node_id)
    if not address:
        raise Http404(_("This node does not serve pages."))
    return redirect(address)


def _next_query(form: DocumentFilterForm, found: DocumentsEverywhere) -> str:
    if found.next_key is None:
        return ""
    key = f"{found.next_key.hash.hex}.{found.next_key.job_id}"
    value = found.next_key.value
    if isinstance(value, dt.datetime):
        value = (value - _EPOCH) // dt.timedelta(microseconds=1)
    if value is not None:
        key += f".{value}"
    return urlencode({**form.as_query(), "after": key})
