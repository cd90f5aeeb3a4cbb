"""The filter forms of the lists of tasks. Their values are part of the address of a page, and of its topic."""

import datetime as dt
from typing import Any, ClassVar, Final

from django import forms
from django.http import QueryDict
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _

from nodes.tasks import kinds
from nodes.tasks.names import GROUP, is_group
from nodes.tasks.pages.fields import moment_field
from nodes.tasks.queries import Key, TaskFilter
from nodes.tasks.retrying import Why
from nodes.web.filters import FilterForm

STATE_WORDS: Final = {"waiting": _("waiting"), "assigned": _("assigned"), "running": _("running")}
WHY_WORDS: Final = {
    Why.DONE.value: _("done"),
    Why.CANCELLED.value: _("cancelled"),
    Why.TRIED_TOO_MANY_TIMES.value: _("tried too many times"),
    Why.NON_RETRIABLE_EXCEPTION.value: _("non-retriable exception"),
    Why.NOT_SCHEDULED_BY_RETRY_POLICY.value: _("no retry by its policy"),
}


class TaskFilterForm(FilterForm):
    """Filters of any list of tasks."""

    narrowing: ClassVar[tuple[str, ...]] = ("group", "kind", "tag")

    group = forms.CharField(required=False, max_length=64, label=_("Group"), strip=True)
    kind = forms.ChoiceField(required=False, label=_("Kind"))
    tag = forms.CharField(required=False, max_length=64, label=_("Tag"), strip=True)
    after = forms.CharField(required=False, max_length=150, widget=forms.HiddenInput)

    def __init__(self, given: QueryDict) -> None:
        super().__init__(given, label_suffix="")
        names = dict.fromkeys([*kinds.installed(), *filter(str.isprintable, filter(None, given.getlist("kind")))])
        kind: Any = self.fields["kind"]
        kind.choices = [("", _("any kind")), *((name, name) for name in names)]

    def clean_group(self) -> str:
        return _name(self.cleaned_data["group"])

    def clean_tag(self) -> str:
        return _name(self.cleaned_data["tag"])

    def clean_after(self) -> Key | None:
        value = self.cleaned_data["after"]
        if not value:
            return None
        moment, _comma, place = value.partition(",")
        number, _comma, partition = place.partition(",")
        try:
            at = parse_datetime(moment)
            key = int(number)
        except ValueError:
            at, key = None, -1
        if at is None or at.tzinfo is None or not 0 <= key < 2**63:
            raise forms.ValidationError(_("Invalid page of the list. Start from the first page."))
        return Key(at, key, partition)

    @property
    def key(self) -> Key | None:
        """Return the key after which this page begins; None for the first page. The form must be valid."""
        found: Key | None = self.cleaned_data["after"]
        return found

    def as_filter(self) -> TaskFilter:
        """Return the filter that the form describes. The form must be valid."""
        return TaskFilter(**{name: self.cleaned_data[name] for name in self.narrowing})

    def as_query(self, **more: str) -> str:
        """Return the filters that are set, for the address of another page of the same list."""
        query = QueryDict(mutable=True)
        for name in self.narrowing:
            if self.cleaned_data[name]:
                query[name] = self.data[name].strip()
        query.update(more)
        return query.urlencode()


class ScheduledFilterForm(TaskFilterForm):
    """Filters of scheduled tasks."""

    narrowing = (*TaskFilterForm.narrowing, "state")

    state = forms.ChoiceField(required=False, label=_("State"), choices=[("", _("any state")), *STATE_WORDS.items()])


class ArchivedFilterForm(TaskFilterForm):
    """Filters of ended tasks."""

    narrowing = (*TaskFilterForm.narrowing, "why", "since")

    why = forms.ChoiceField(required=False, label=_("Reason"), choices=[("", _("any reason")), *WHY_WORDS.items()])
    since = moment_field(label=_("Ended since"))


def key_as_text(key: Key) -> str:
    """Return the text for the address of a page that begins after this key."""
    place = f"{key.at.astimezone(dt.UTC).isoformat()},{key.number}"
    return f"{place},{key.partition}" if key.partition else place


def _name(name: str) -> str:
    if name and not is_group(name):
        raise forms.ValidationError(_("This must be %(form)s."), params={"form": GROUP})
    return name
