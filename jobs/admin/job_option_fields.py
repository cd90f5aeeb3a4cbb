"""Form fields of the options of a job: its kind, intervals, schedule, hop limits, access rules and others."""

import datetime as dt
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from jobs.checks.job_options import GUARD, INTERVALS, MOST_VERSIONS
from jobs.connectors.repository.access_text import parse_rules, rules_in_words
from jobs.connectors.repository.freshness_goals import goals_in_words, parse_goals
from jobs.lifecycle.schedule import Window
from jobs.lifecycle.schedule_text import parse_span, parse_window, span_in_words, window_in_words
from jobs.models import Job

# Columns of a job in its form, in addition to the windows.
OPTION_FIELDS: Final = (
    "kind",
    *INTERVALS,
    "hop_mode",
    "hop_limits",
    *GUARD,
    "start_method",
    "archive",
    "kept_versions",
    "access_rules",
    "freshness_goals",
)


class SpanField(forms.CharField):
    """A field with a duration such as `1 d 12 h`. The value of an empty field is None."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, widget=UnfoldAdminTextInputWidget, **kwargs)

    def prepare_value(self, value: object) -> object:
        return span_in_words(value) if isinstance(value, dt.timedelta) else value

    def to_python(self, value: str | dt.timedelta | None) -> dt.timedelta | None:  # type: ignore[override]
        if isinstance(value, dt.timedelta):
            # A field that cannot be changed now gives the stored value instead of a text.
            return value
        try:
            return parse_span(value) if value and value.strip() else None
        except ValueError as error:
            raise ValidationError(str(error)) from None

    def has_changed(self, initial: dt.timedelta | None, data: str | None) -> bool:
        try:
            return initial != self.to_python(data)
        except ValidationError:
            return True


class _LinesField(forms.CharField):
    def __init__(self, *, rows: int = 3, **kwargs: Any) -> None:
        super().__init__(required=False, widget=UnfoldAdminTextareaWidget(attrs={"rows": rows}), **kwargs)

    def has_changed(self, initial: object, data: str | None) -> bool:
        try:
            return initial != self.to_python(data)
        except ValidationError:
            return True


class WindowsField(_LinesField):
    """A field with windows, one a line."""

    def prepare_value(self, value: object) -> object:
        return "\n".join(map(window_in_words, value)) if isinstance(value, list | tuple) else value

    def to_python(self, value: str | None) -> list[Window]:  # type: ignore[override]
        try:
            return [parse_window(line) for line in (value or "").splitlines() if line.strip()]
        except ValueError as error:
            raise ValidationError(str(error)) from None


class HopLimitsField(_LinesField):
    """A field with the hop limits by type of link, one a line: `link 3`."""

    def prepare_value(self, value: object) -> object:
        return "\n".join(f"{kind} {most}" for kind, most in value.items()) if isinstance(value, dict) else value

    def to_python(self, value: str | dict[str, int] | None) -> dict[str, int]:  # type: ignore[override]
        if isinstance(value, dict):
            return value
        limits = {}
        for line in filter(str.strip, (value or "").splitlines()):
            link_type, _space, most = line.strip().rpartition(" ")
            if not link_type or not most.isdecimal():
                raise ValidationError(
                    _("“%(line)s” is invalid. Write a link type and a number, such as “link 3”.") % {"line": line}
                )
            limits[link_type.strip()] = int(most)
        return limits


class AccessRulesField(_LinesField):
    """A field with access rules. Each rule has a line with a pattern, then a line for each token."""

    def prepare_value(self, value: object) -> object:
        return rules_in_words(value) if isinstance(value, list) else value

    def to_python(self, value: str | list[dict[str, Any]] | None) -> list[dict[str, Any]]:  # type: ignore[override]
        if isinstance(value, list):
            return value
        try:
            return parse_rules(value or "")
        except ValueError as error:
            raise ValidationError(str(error)) from None


class FreshnessGoalsField(_LinesField):
    """A field with freshness goals, one a line."""

    def prepare_value(self, value: object) -> object:
        return goals_in_words(value) if isinstance(value, list) else value

    def to_python(self, value: str | list[dict[str, Any]] | None) -> list[dict[str, Any]]:  # type: ignore[override]
        if isinstance(value, list):
            return value
        try:
            return parse_goals(value or "")
        except ValueError as error:
            raise ValidationError(str(error)) from None


class OptionsForm(forms.ModelForm):  # type: ignore[type-arg]
    """The part of a job's form with its times and limits."""

    recrawl_after = SpanField(
        label=_("Recrawl interval"),
        help_text=_(
            "For continuous jobs, such as 90 s, 15 min, 8 h or 1 d 12 h. If empty, documents are not crawled again."
        ),
    )
    recrawl_at_most = SpanField(
        label=_("Maximum recrawl interval"),
        help_text=_("Longest interval for documents that rarely change. If empty, the interval has no upper bound."),
    )
    expire_after = SpanField(
        label=_("Document expiration"),
        help_text=_(
            "Time since the last processing, or since the date in its feed or file. If empty, documents do not expire."
        ),
    )
    reseed_after = SpanField(label=_("Reseed interval"), help_text=_("If empty, the job reads its seeds once per run."))
    hop_limits = HopLimitsField(
        label=_("Hop limits"),
        help_text=_("Maximum hops from a seed: one link type per line, such as “link 3”. If empty, no limit applies."),
    )
    guard_documents = forms.IntegerField(
        label=_("Approval threshold (documents removed)"),
        help_text=_("Fewer removals need no approval, unless a seed is lost."),
        required=False,
        initial=lambda: Job().guard_documents,
        min_value=0,
        max_value=2**31 - 1,
        widget=UnfoldAdminIntegerFieldWidget,
    )
    kept_versions = forms.IntegerField(
        label=_("Kept versions"),
        help_text=_(
            "Number of versions of each document that are kept with their headers and texts. With 0, none is kept."
        ),
        required=False,
        initial=0,
        min_value=0,
        max_value=MOST_VERSIONS,
        widget=UnfoldAdminIntegerFieldWidget,
    )
    access_rules = AccessRulesField(
        rows=6,
        label=_("Access rules"),
        help_text=_(
            "Lines such as “for /private/” (RE2), each followed by lines such as “allow editors”, “deny interns” or “open”. The first pattern that "
            "is found in the address of a document replaces the access of its source. If empty, web pages are open to all users."
        ),
    )
    freshness_goals = FreshnessGoalsField(
        label=_("Freshness goals"),
        help_text=_(
            "For continuous jobs: one goal per line, such as “95 % of /news/ within 15 min” (RE2). The first "
            "pattern that is found in the address of a document applies. Each document is read again when this "
            "helps its goal most, and at the latest after the maximum recrawl interval."
        ),
    )
    windows = WindowsField(
        label=_("Windows"),
        help_text=_(
            "One window per line, such as “days of week 1-5; hours 22; open 8 h; zone Europe/Berlin; minimal”."
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields["windows"].initial = [window.times for window in self.instance.windows.all()]

    def chosen_options(self) -> dict[str, Any]:
        """Return the options of a valid form, as `jobs.verbs.editing` takes them."""
        values = self.cleaned_data
        said = {name: values[name] for name in ("windows", *OPTION_FIELDS)}
        # A page from before an upgrade may lack these fields. Missing fields keep their stored values.
        unsaid = [
            name
            for name in (*GUARD, "archive", "kept_versions", "access_rules", "freshness_goals")
            if self.fields[name].disabled or self._is_omitted(name)
        ]
        return {name: value for name, value in said.items() if name not in unsaid}

    def clean_guard_documents(self) -> int:
        given: int | None = self.cleaned_data["guard_documents"]
        if given is not None:
            return given
        if not self._is_omitted("guard_documents"):
            raise ValidationError(_("Write a whole number, 0 or greater."))
        stored: int = self.instance.guard_documents
        return stored

    def clean_kept_versions(self) -> int:
        given: int | None = self.cleaned_data["kept_versions"]
        return 0 if given is None else given

    def _is_omitted(self, name: str) -> bool:
        widget = self.fields[name].widget
        return bool(widget.value_omitted_from_data(self.data, self.files, self.add_prefix(name)))
