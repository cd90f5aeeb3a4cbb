"""
Documents in the set-up pages: a list in the order of keys, with a search by address and an action that retries
documents.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from operator import or_
from typing import Any, Final

from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.db.models import Q, QuerySet
from django.forms import CheckboxInput
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.decorators import action

from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Phase
from jobs.models import Outcome, QueueItem
from jobs.queries.documents.conditions import hashes_of, host_of, keeping_to_keys, lanes_if_few, lanes_of_host
from jobs.traps.quarantine import TRAP
from jobs.verbs import control
from nodes.admin.by_key import ListByKey
from nodes.admin.confirmation import confirm_for_one, confirm_for_selected, may_offer
from nodes.database.clock import read_clock
from nodes.errors import Refused

# Last character of a search for all addresses with a certain beginning.
_MORE: Final = "*"
_SEARCH: Final = "q"


class DocumentSet(QuerySet[QueueItem]):
    """A query set that accepts the keys of documents as texts, because web addresses and check boxes contain texts."""

    def filter(self, *conditions: Any, **facts: Any) -> "DocumentSet":
        chosen = facts.pop("pk__in", None)
        found: DocumentSet = super().filter(*conditions, **facts)
        if chosen is None:
            return found
        keys = [Q(hash=key[0], job_id=key[1]) for key in map(_parsed_or_none, chosen) if key is not None]
        return super(DocumentSet, found).filter(reduce(or_, keys)) if keys else found.none()


class DocumentAdmin(ListByKey):
    """
    The page and the list of documents. Only the crawl writes these rows.

    Django's admin refuses a primary key of two columns, because addresses and check boxes need one text. This class
    makes that text: the hash, a dot and the job.
    """

    key = ("hash", "job_id")
    list_display = ("identifier", "of_job", "status", "result_code", "depth", "fetched_at")
    search_fields = ("identifier",)
    search_help_text = gettext_lazy(
        "Address of a document, or its beginning with the host and *, such as https://example.org/news*"
    )
    list_select_related = ("job",)
    fields = (
        *("identifier", "of_job", "status", "result_code", "failures", "failing_since", "depth", "redirects"),
        *("fetched_at", "changed_at", "check_time", "run_no", "version", "indexed_before", "losses"),
    )
    readonly_fields = fields
    actions = ("retry_selected",)
    actions_detail = ("page", "retry")

    def get_queryset(self, request: HttpRequest) -> DocumentSet:
        return DocumentSet(QueueItem).select_related("job")

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> QueueItem | None:
        try:
            hash_, job = _parsed(object_id)
        except ValueError:
            return None
        return self.get_queryset(request).filter(hash=hash_, job_id=job).first()

    # --- The list --------------------------------------------------------------------------------

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:  # noqa: ANN401 (Django's)
        said = search_term.strip()
        if not said:
            return queryset, False
        if not said.endswith(_MORE):
            return queryset.filter(hash__in=hashes_of(said)), False
        beginning = said.removesuffix(_MORE)
        host = host_of(beginning)
        if not host:
            messages.warning(request, _("Write the host in full, such as https://example.org/news*."))
            return queryset.none(), False
        lanes = lanes_if_few(job_id=None, host=host)
        found = queryset.filter(lane__in=lanes_of_host(host) if lanes is None else lanes)
        return found.filter(identifier__startswith=beginning), False

    @contextmanager
    def reading(self, request: HttpRequest) -> Iterator[None]:
        with keeping_to_keys(is_of_few=bool(request.GET.get(_SEARCH))):
            yield

    def rows_after(self, found: QuerySet[Any], after: str) -> QuerySet[Any]:
        hash_, job = _parsed(after)
        table = QueueItem._meta.db_table  # noqa: SLF001
        return found.extra(where=[f"({table}.hash, {table}.job_id) > (%s, %s)"], params=[hash_, job])  # noqa: S610

    def key_of(self, row: QueueItem) -> str:
        return f"{row.hash.hex}.{row.job_id}"

    def action_checkbox(self, obj: QueueItem) -> str:
        attributes = {"class": "action-select", "aria-label": _("Select %(name)s") % {"name": obj.identifier}}
        box = CheckboxInput(attributes, lambda _value: False)
        return box.render(helpers.ACTION_CHECKBOX_NAME, self.key_of(obj))

    @admin.display(description=gettext_lazy("job"))
    def of_job(self, item: QueueItem) -> str:
        return format_html('<a href="{}">{}</a>', reverse("job", args=[item.job_id]), item.job.name)

    @admin.display(description=gettext_lazy("state"))
    def status(self, item: QueueItem) -> str:
        outcome = Outcome(item.outcome)
        return str(outcome.label if outcome != Outcome.NONE else Stage(item.stage).name.lower().replace("_", " "))

    # --- Actions ---------------------------------------------------------------------------------

    def has_control_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(control.MAY_CONTROL)

    def has_retry_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """True for a document that failed in the present run of its job."""
        item = self.get_object(request, object_id or "")
        if not self.has_control_permission(request):
            return False
        possible = item is not None and _has_failed(item)
        why = _("The document has not failed in the present run of its job.")
        return may_offer(request, "retry", is_possible=possible, why=why, exists=item is not None)

    @admin.action(description=gettext_lazy("Retry failed documents"), permissions=["control"])
    def retry_selected(self, request: HttpRequest, chosen: QuerySet[QueueItem]) -> HttpResponseBase | None:
        failed = [item for item in chosen if _has_failed(item)]
        if not failed:
            messages.warning(request, _("None of these documents has failed in the present run of its job."))
            return None
        return confirm_for_selected(
            request,
            self.admin_site,
            failed,
            title=_("Retry failed documents"),
            question=_(
                "These documents are requested again: immediately, or in the next run if the job is not running."
            ),
            act=lambda: _retry(request, failed),
        )

    @action(description=gettext_lazy("Page of the document"), url_path="page", permissions=("view",))  # type: ignore[untyped-decorator]
    def page(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        item = self.get_object(request, object_id)
        return redirect("documents") if item is None else redirect("document", item.job_id, item.hash)

    @action(description=gettext_lazy("Retry"), url_path="retry", permissions=("retry",))  # type: ignore[untyped-decorator]
    def retry(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        item = self.get_object(request, object_id)
        assert item is not None  # has_retry_permission has found the document.
        return confirm_for_one(
            request,
            self.admin_site,
            title=_("Retry"),
            question=_("Request %(name)s again: immediately, or in the next run if the job is not running?")
            % {"name": item.identifier},
            back=self.address_of(item),
            act=lambda: _retry(request, [item]),
        )


def _parsed(said: str) -> tuple[uuid.UUID, int]:
    """
    Return the key of a document from its text.

    Raises:
        ValueError: the text is not a key.
    """
    digest, _dot, job = said.partition(".")
    if not job.isdecimal() or len(job) > 18:
        raise ValueError(said)
    return uuid.UUID(hex=digest), int(job)


def _parsed_or_none(said: str) -> tuple[uuid.UUID, int] | None:
    try:
        return _parsed(said)
    except ValueError:
        return None


def _has_failed(item: QueueItem) -> bool:
    is_of_this_run = item.stage == Stage.DONE and item.run_no == item.job.run_no
    denied = item.outcome == Outcome.EXCLUDED and item.result_code in {"DENIED", TRAP}
    may_send_back = item.job.phase in {Phase.ACTIVE, Phase.INACTIVE}
    return is_of_this_run and may_send_back and (item.outcome == Outcome.FAILED or denied)


def _retry(request: HttpRequest, items: list[QueueItem]) -> str:
    """
    Send these documents back to the queue, job by job.

    Raises:
        Refused: no document was sent back.
    """
    of_jobs: defaultdict[int, list[QueueItem]] = defaultdict(list)
    for item in items:
        of_jobs[item.job_id].append(item)
    sent = 0
    for job_id, chosen in sorted(of_jobs.items()):
        codes = sorted({item.result_code for item in chosen})
        documents = [item.hash for item in chosen]
        name = str(request.user.get_username())
        now = read_clock()
        sent += control.send_back_failed(job_id, codes=codes, documents=documents, made_by=name, now=now).documents
    if not sent:
        raise Refused(_("These documents have changed in the meantime, so none of them is retried. Reload the page."))
    return _("Documents to be retried: %(n)d.") % {"n": sent}
