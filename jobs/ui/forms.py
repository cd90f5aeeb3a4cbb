"""The filter forms of the lists."""

import datetime as dt
import re
import uuid
from dataclasses import replace
from typing import Any, Final

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from jobs.models import Job
from jobs.partitions import this_partition
from jobs.queries.documents.lists import ORDERS, STATES, DocumentFilter, DocumentKey
from jobs.queries.few_choices import offer_few
from jobs.queries.hosts.all_partitions import HostKey
from jobs.queries.hosts.selection import STATES as HOST_STATES
from jobs.queries.hosts.selection import HostFilter
from jobs.queue.address_index import GRAM
from jobs.words.documents import STATE_WORDS
from nodes.web.filters import FilterForm

_ALL: Final = "all"
# A position in the list: the key of a document, its job, and the value by which the list is sorted (a number, or a
# moment in microseconds).
_KEY: Final = re.compile(r"([0-9a-f]{32})\.([0-9]{1,18})(?:\.([0-9]{1,17}))?", re.ASCII)
_ORDER_WORDS: Final = {
    "due": _("by next check"),
    "depth": _("nearest to a seed first"),
    "-depth": _("farthest from a seed first"),
    "age": _("last fetched first"),
    "-age": _("longest not fetched first"),
    "response": _("fastest response first"),
    "-response": _("slowest response first"),
}
_EPOCH: Final = dt.datetime.fromtimestamp(0, dt.UTC)
_HOST_STATE_WORDS = {"backing_off": _("backing off or recovering"), "stopped": _("stopped")}


class DocumentFilterForm(FilterForm):
    """The filters of the list of documents, as parameters of its address."""

    address = forms.CharField(required=False, max_length=2083, label=_("Address"), strip=True)
    contains = forms.CharField(
        required=False, min_length=GRAM, max_length=1_000, label=_("Address contains"), strip=True
    )
    job = forms.ModelChoiceField(Job.objects.order_by("name"), required=False, label=_("Job"), empty_label=_("any job"))
    state = forms.ChoiceField(
        choices=[("", _("any state")), *((name, STATE_WORDS[name]) for name in STATES)],
        required=False,
        label=_("State"),
    )
    host = forms.CharField(required=False, max_length=300, label=_("Host"), strip=True)
    code = forms.CharField(required=False, max_length=30, label=_("Code"), strip=True)
    sort = forms.ChoiceField(
        choices=[("", _("by key")), *((name, _ORDER_WORDS[name]) for name in ORDERS)], required=False, label=_("Order")
    )
    after = forms.CharField(required=False, max_length=80, widget=forms.HiddenInput)

    def __init__(self, given: QueryDict) -> None:
        super().__init__(given)
        offer_few(self.fields["job"], chosen=given.getlist("job"))  # type: ignore[arg-type]  # the field above

    def clean_after(self) -> DocumentKey | None:
        value = self.cleaned_data["after"]
        if not value:
            return None
        found, order = _KEY.fullmatch(value), ORDERS.get(self.cleaned_data.get("sort", ""))
        if found is None or (found[3] is not None) != (order is not None):
            raise forms.ValidationError(_("Invalid page of the list. Start from the first page."))
        key = DocumentKey(uuid.UUID(found[1]), int(found[2]))
        if order is None:
            return key
        number = int(found[3])
        is_moment = order.type == "timestamptz"
        return replace(key, value=_EPOCH + dt.timedelta(microseconds=number) if is_moment else min(number, 2**31 - 1))

    def as_filter(self) -> DocumentFilter:
        """Return the filter of a valid form."""
        wanted: dict[str, Any] = self.cleaned_data
        return DocumentFilter(
            job_id=wanted["job"].pk if wanted["job"] else None,
            state=wanted["state"],
            host=wanted["host"],
            code=wanted["code"],
            address=wanted["address"],
            contains=wanted["contains"],
            sort=wanted["sort"],
            after=wanted["after"],
        )

    def as_query(self) -> dict[str, str | int]:
        """Return the filters that are set, for the address of another page of the same list."""
        wanted = self.as_filter()
        values = {
            "address": wanted.address,
            "contains": wanted.contains,
            "job": wanted.job_id or "",
            "state": wanted.state,
            "host": wanted.host,
            "code": wanted.code,
            "sort": wanted.sort,
        }
        return {name: value for name, value in values.items() if value}


class HostFilterForm(FilterForm):
    """
    The filters of the list of hosts, as parameters of its address. Without a filter, the list has the busiest hosts.
    """

    choosing_all = {"state": _ALL}

    name = forms.CharField(required=False, max_length=300, label=_("Name starts with"), strip=True)
    state = forms.ChoiceField(
        choices=[
            ("", _("busiest")),
            (_ALL, _("all, by name")),
            *((name, _HOST_STATE_WORDS[name]) for name in HOST_STATES),
        ],
        required=False,
        label=_("Show"),
    )
    after = forms.IntegerField(required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput)
    # If there are several partitions: the name of the host `after`, and its partition.
    behind = forms.CharField(required=False, max_length=2083, strip=False, widget=forms.HiddenInput)
    partition = forms.CharField(required=False, max_length=63, widget=forms.HiddenInput)

    def as_filter(self) -> HostFilter:
        """Return the filter of a valid form."""
        wanted = self.cleaned_data
        return HostFilter(name=wanted["name"], state="" if wanted["state"] == _ALL else wanted["state"])

    @property
    def key(self) -> HostKey | None:
        """
        Return the key of the last host on the page before this one; None for the first page. The form must be valid.
        """
        wanted = self.cleaned_data
        return None if wanted["after"] is None else HostKey(wanted["after"], wanted["behind"], wanted["partition"])

    def query_behind(self, key: HostKey) -> dict[str, str]:
        """Return the parameters of the next page: the filters that are set, and the last host of this page."""
        several = {"behind": key.name, "partition": key.partition} if this_partition.control_name() else {}
        return {**self.as_query(), "after": str(key.id), **several}

    @property
    def is_of_the_busiest(self) -> bool:
        return not self.as_query()

    def as_query(self) -> dict[str, str]:
        """Return the filters that are set, for the address of another page of the same list."""
        return {name: self.cleaned_data[name] for name in ("name", "state") if self.cleaned_data[name]}
