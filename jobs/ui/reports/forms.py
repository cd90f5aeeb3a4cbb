"""The forms of reports."""

import datetime as dt
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Final, cast

from django import forms
from django.core.validators import MinValueValidator
from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from jobs.models import Job, RepositoryConnection
from jobs.queries.few_choices import offer_few
from jobs.queries.reports.busiest import DEFAULT_INTERVAL, LONGEST_INTERVAL, SHORTEST_INTERVAL
from jobs.queries.reports.classes import EVERYTHING, ITSELF
from jobs.queries.reports.document_filter import StatusFilter
from jobs.queries.reports.document_states import State, Status
from jobs.queries.reports.history_filter import HistoryFilter, list_activities
from jobs.queries.reports.simple_history import SORTS
from jobs.words.reports import STATES, STATUSES
from nodes.api.strict import FIRST_MOMENT

_STRETCHES: Final = {
    "1": _("the last hour"),
    "4": _("the last 4 hours"),
    "24": _("the last day"),
    "168": _("the last week"),
    "720": _("the last 30 days"),
}
_LONGEST_POSITION: Final = 10_000


_pattern = partial(forms.CharField, required=False, max_length=1_000, strip=False)
_some = partial(forms.MultipleChoiceField, required=False)


class MomentInput(forms.DateTimeInput):
    """An input for a moment with its date, to the second."""

    input_type = "datetime-local"

    def __init__(self) -> None:
        super().__init__(attrs={"step": 1}, format="%Y-%m-%dT%H:%M:%S")


class FewLines(forms.SelectMultiple):
    def __init__(self) -> None:
        super().__init__(attrs={"size": 4})


_moment = partial(forms.DateTimeField, required=False, widget=MomentInput, validators=[MinValueValidator(FIRST_MOMENT)])


class ReportForm(forms.Form):
    """A report's form, filled from its address. Missing parameters have their defaults."""

    use_required_attribute = False
    defaults: ClassVar[Mapping[str, str]] = {}
    # Fields that do not count as filters in the message of an empty report: they leave no row out, or are about the
    # time.
    of_form: ClassVar[frozenset[str]] = frozenset(
        {"sort", "order", "identifier_class", "result_class", "interval", "now", "last", "since", "until"}
    )
    none_yet: ClassVar["Promise | str"] = ""

    after = forms.CharField(required=False, max_length=_LONGEST_POSITION, widget=forms.HiddenInput)

    def __init__(self, given: QueryDict) -> None:
        filled = given.copy()
        for name, value in self.defaults.items():
            filled.setdefault(name, value)
        super().__init__(filled, label_suffix="")
        for name, field in self.fields.items():
            if isinstance(field, forms.ModelChoiceField):
                offer_few(field, chosen=given.getlist(name))

    def as_query(self, **more: str) -> str:
        """Return the query string of the same report. `more` replaces parameters of this form."""
        query = QueryDict(mutable=True)
        for name in self.fields:
            values = [value for value in self.data.getlist(name) if value] if isinstance(self.data, QueryDict) else []
            if values and name != "after" and name not in more:
                query.setlist(name, values)
        query.update({name: value for name, value in more.items() if value})
        return query.urlencode()

    @property
    def found_nothing(self) -> str:
        """Return the sentence that a report without rows shows."""
        chosen = self.fields.keys() - self.of_form
        leaves_out = any(value for name in chosen for value in cast("QueryDict", self.data).getlist(name))
        return str(_("No rows match these filters.") if leaves_out else self.none_yet)

    def as_api_filter(self, *, now: dt.datetime) -> dict[str, Any]:
        """Return the filter of a valid form with the names and values of the API."""
        raise NotImplementedError

    def _more(self, *names: str) -> dict[str, Any]:
        """Return these fields as parameters, without empty ones."""
        return {name: self.cleaned_data[name] for name in names if self.cleaned_data.get(name)}


class HistoryForm(ReportForm):
    """The form of a report about an interval of the history. Moments are UTC."""

    defaults = {"last": "1"}
    none_yet = _("No activity in this time. Choose a longer time, or start a job.")

    repository = forms.ModelChoiceField(
        RepositoryConnection.objects.all(), required=False, label=_("Source"), empty_label=_("any source")
    )
    job = forms.ModelChoiceField(Job.objects.order_by("name"), required=False, label=_("Job"), empty_label=_("any job"))
    activity = _some(label=_("Activities"), widget=FewLines)
    last = forms.ChoiceField(choices=list(_STRETCHES.items()), required=False, label=_("Time"))
    since = _moment(label=_("Start (UTC), instead of “Time”"))
    until = _moment(label=_("End (UTC)"))
    entity = _pattern(label=_("Identifiers (regular expression)"))
    code = _pattern(label=_("Result codes (regular expression)"))

    def __init__(self, given: QueryDict) -> None:
        super().__init__(given)
        # Connectors can define activities, so each requested activity is a valid choice even if it is not in the list.
        asked = [name for name in given.getlist("activity") if "\0" not in name]
        named = dict.fromkeys([*list_activities(), *asked])
        activity: Any = self.fields["activity"]
        activity.choices = [(name, name) for name in named]

    def as_filter(self, *, now: dt.datetime) -> HistoryFilter:
        """Return the filter of a valid form."""
        asked = self.cleaned_data
        until = asked["until"] or now
        return HistoryFilter(
            since=asked["since"] or until - dt.timedelta(hours=int(asked["last"] or 1)),
            until=until,
            repository_id=asked["repository"].pk if asked["repository"] else None,
            job_id=asked["job"].pk if asked["job"] else None,
            activities=asked["activity"],
            entity=asked["entity"],
            code=asked["code"],
        )

    def as_api_filter(self, *, now: dt.datetime) -> dict[str, Any]:
        wanted = self.as_filter(now=now)
        named = {"repository": wanted.repository_id, "job": wanted.job_id}
        return {
            "since": wanted.since.isoformat(),
            "until": wanted.until.isoformat(),
            **{name: number for name, number in named.items() if number is not None},
            **self._more("activity", "entity", "code", "identifier_class", "interval", "result_class"),
        }

    def clean(self) -> None:
        since, until = self.cleaned_data.get("since"), self.cleaned_data.get("until")
        if since and until and since >= until:
            self.add_error("since", _("Choose a start before the end."))


class SimpleHistoryForm(HistoryForm):
    sort = forms.ChoiceField(choices=[(name, name) for name in SORTS], required=False, widget=forms.HiddenInput)
    order = forms.ChoiceField(choices=[("descending", ""), ("ascending", "")], required=False, widget=forms.HiddenInput)


class BusyForm(HistoryForm):
    defaults = {"last": "1", "identifier_class": EVERYTHING, "interval": f"{DEFAULT_INTERVAL.total_seconds():g}"}

    identifier_class = _pattern(label=_("Identifier class"))
    interval = forms.FloatField(
        min_value=SHORTEST_INTERVAL.total_seconds(),
        max_value=LONGEST_INTERVAL.total_seconds(),
        required=False,
        label=_("Interval (s)"),
    )

    @property
    def interval_asked(self) -> dt.timedelta:
        return dt.timedelta(seconds=self.cleaned_data["interval"] or DEFAULT_INTERVAL.total_seconds())


class HistogramForm(HistoryForm):
    defaults = {"last": "1", "identifier_class": EVERYTHING, "result_class": ITSELF}

    identifier_class = _pattern(label=_("Identifier class"))
    result_class = _pattern(label=_("Result class"))


class DocumentsForm(ReportForm):
    """The form of a report about documents: which documents, and at which moment they are due. Moments are UTC."""

    none_yet = _("No documents yet. Start a job to find documents.")

    repository = forms.ModelChoiceField(
        RepositoryConnection.objects.all(), required=False, label=_("Source"), empty_label=_("any source")
    )
    identifier = _pattern(label=_("Identifiers (regular expression)"))
    now = _moment(label=_("As of (UTC)"))
    job = forms.ModelMultipleChoiceField(Job.objects.order_by("name"), required=False, label=_("Jobs"), widget=FewLines)
    state = _some(label=_("States"), choices=list(STATES.items()), widget=FewLines)
    status = _some(label=_("Statuses"), choices=list(STATUSES.items()), widget=FewLines)

    def as_filter(self, *, now: dt.datetime) -> StatusFilter:
        """Return the filter of a valid form."""
        asked = self.cleaned_data
        return StatusFilter(
            now=asked["now"] or now,
            repository_id=asked["repository"].pk if asked["repository"] else None,
            job_ids=[job.pk for job in asked["job"]],
            states=[State(state) for state in asked["state"]],
            statuses=[Status(status) for status in asked["status"]],
            identifier=asked["identifier"],
        )

    def as_api_filter(self, *, now: dt.datetime) -> dict[str, Any]:
        wanted = self.as_filter(now=now)
        return {
            "now": wanted.now.isoformat(),
            **({} if wanted.repository_id is None else {"repository": wanted.repository_id}),
            **({"job": list(wanted.job_ids)} if wanted.job_ids else {}),
            **self._more("state", "status", "identifier", "identifier_class"),
        }


class QueueForm(DocumentsForm):
    defaults = {"identifier_class": EVERYTHING}

    identifier_class = _pattern(label=_("Identifier class"))
