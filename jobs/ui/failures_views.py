"""The page with the failures of all jobs."""

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_safe

from jobs.models import Job
from jobs.partitions.this_partition import key_in
from jobs.queries.documents.failures import (
    STEP,
    FailureFilter,
    FailureKey,
    FailureLine,
    FailureList,
    list_failures,
)
from jobs.queries.few_choices import offer_few
from jobs.ui.hosts_screen import host_address
from jobs.ui.job_rows import documents_address
from jobs.ui.pages import page
from jobs.ui.partitions_views import silent_partitions
from jobs.words.codes import explain_code
from nodes.database.clock import read_clock
from nodes.web import formats
from nodes.web.filters import FilterForm

_EPOCH: Final = dt.datetime.fromtimestamp(0, dt.UTC)


class FailureFilterForm(FilterForm):
    """The filters of the list of failures, as parameters of its address."""

    job = forms.ModelChoiceField(
        Job.objects.all(), required=False, label=gettext_lazy("Job"), empty_label=gettext_lazy("all jobs")
    )
    host = forms.CharField(required=False, max_length=300, label=gettext_lazy("Host"), strip=True)
    code = forms.CharField(required=False, max_length=30, label=gettext_lazy("Code"), strip=True)
    after = forms.RegexField(r"^[0-9]{1,17}\.[0-9]{1,18}(\.[^.\s]{1,100})?$", required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer_few(self.fields["job"], chosen=[self.data.get("job", "")])  # type: ignore[arg-type]  # a choice of rows

    def as_filter(self) -> FailureFilter:
        """Return the filter of a valid form."""
        wanted = self.cleaned_data
        return FailureFilter(
            job_id=wanted["job"].pk if wanted["job"] else None,
            host=wanted["host"],
            code=wanted["code"],
            after=self._key(),
        )

    def as_query(self) -> dict[str, str]:
        """Return the filters that are set, for the address of another page of the same list."""
        wanted = self.cleaned_data
        values = {"job": str(wanted["job"].pk) if wanted["job"] else "", "host": wanted["host"], "code": wanted["code"]}
        return {name: value for name, value in values.items() if value}

    def _key(self) -> FailureKey | None:
        if not self.cleaned_data["after"]:
            return None
        micros, number, *partition = self.cleaned_data["after"].split(".", 2)
        return FailureKey(_EPOCH + dt.timedelta(microseconds=int(micros)), int(number), *partition)


@page
@require_safe
def failures(request: HttpRequest) -> HttpResponse:
    """Show the failures of all jobs by cause and host. The group with the newest failure is the first."""
    now = read_clock()
    form = FailureFilterForm(request.GET)
    context: dict[str, Any] = {"form": form, "rows": [], "causes": []}
    if form.is_valid():
        wanted = form.as_filter()
        found = list_failures(wanted, now=now)
        context["rows"] = [_row(one.line, partition=one.partition, now=now) for one in found.lines]
        context["causes"] = [
            _cause(form, code, documents, is_part=bool(found.silent)) for code, documents in found.causes
        ]
        context["silent"] = silent_partitions(found.silent, now=now)
        context["next_query"] = _next_query(form, found)
        context["first_query"] = urlencode(form.as_query()) or "all" if wanted.after is not None else ""
    return render(request, "ui/failures.html", context)


def _next_query(form: FailureFilterForm, found: FailureList) -> str:
    key = found.next_key
    if key is None:
        return ""
    micros = (key.last_at - _EPOCH) // dt.timedelta(microseconds=1)
    after = ".".join(filter(None, (str(micros), str(key.id), key.partition)))
    return urlencode({**form.as_query(), "after": after})


def _cause(form: FailureFilterForm, code: str, documents: int, *, is_part: bool) -> Mapping[str, object]:
    says = ngettext("%(n)s document", "%(n)s documents", documents) % {"n": formats.number(documents)}
    return {
        "code": code or formats.UNKNOWN,
        "meaning": explain_code(code),
        "documents": _("at least %(n)s") % {"n": says} if is_part else says,
        "query": urlencode({**form.as_query(), "code": code}),
        "is_current": form.cleaned_data["code"] == code,
    }


def _row(line: FailureLine, *, partition: str, now: dt.datetime) -> Mapping[str, object]:
    """Return the cells of a group. `partition` is the partition that has it, "" for this one."""
    return {
        "key": key_in(partition, line.id),
        "partition": partition,
        "code": line.code or formats.UNKNOWN,
        "meaning": explain_code(line.code),
        "host": line.host,
        "host_address": host_address(line.host_id, partition=partition),
        "job": line.job_name,
        "job_address": reverse("job", args=[line.job_id]),
        "failed": formats.number(line.failed),
        "failed_address": documents_address(job=line.job_id, state="failed", host=line.host, code=line.code)
        if line.failed
        else "",
        "times": formats.number(line.times),
        "first": formats.age(line.first_at, now=now),
        "last": formats.age(line.last_at, now=now),
        "sample": line.sample,
        "sample_address": reverse("document", args=[line.job_id, line.sample_hash]),
        "trend": _trend(line),
        "trend_says": _("Failures of the last %(days)d days, each bar %(hours)d hours; at most %(most)s in one bar")
        % {
            "days": (len(line.trend) * STEP).days,
            "hours": STEP // dt.timedelta(hours=1),
            "most": formats.number(max(line.trend)),
        },
    }


def _trend(line: FailureLine) -> list[Mapping[str, str]]:
    """Return a mark for each step of time. The step with the most failures has the full height."""
    most = max(line.trend)
    return [
        {"tone": "failed" if times else "quiet", "size": str(1 + round(7 * times / most)) if times else "1"}
        for times in line.trend
    ]
