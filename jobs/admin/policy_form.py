"""
The form of a throttle policy and its rules.

The policy's form checks the fields of the policy itself. The formset of its rules, which is checked after it, lets
`jobs.policies` check the whole. It can also preview the effect of a change: then nothing is stored, and the page
returns with the result.
"""

from dataclasses import fields
from itertools import takewhile
from typing import Any, ClassVar, Final

from django import forms
from django.core.exceptions import PermissionDenied, ValidationError
from django.forms import BaseInlineFormSet
from django.forms.models import construct_instance
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldBooleanSwitchWidget,
)

from jobs import policies
from jobs.admin.drawn import Lines
from jobs.models import ThrottlePolicy, ThrottleRule
from jobs.policies import InvalidPolicy, PolicyNotAllowed
from jobs.policy_checks import RuleWanted
from jobs.queries.clock import read_clock
from jobs.queries.policy_preview import Preview
from jobs.throttling.windows import EVERY_DAY

PREVIEW: Final = "_preview"
EACH: Final = ("open_requests", "min_gap", "starts", "period", "bytes_per_second")
TOTAL: Final = ("total_open_requests", "total_starts", "total_period", "total_bytes_per_second")
WHERE: Final = ("holds_everywhere", "per_address", "spares_loopback", "time_zone")
_RULE: Final = tuple(one.name for one in fields(RuleWanted))
_DAYS: Final = (
    (1, _("Monday")),
    (2, _("Tuesday")),
    (3, _("Wednesday")),
    (4, _("Thursday")),
    (5, _("Friday")),
    (6, _("Saturday")),
    (7, _("Sunday")),
)
_LABELS: Final = {
    "open_requests": _("Open requests"),
    "min_gap": _("Least gap (seconds)"),
    "starts": _("Starts, at most"),
    "period": _("In each"),
    "bytes_per_second": _("Bytes a second"),
    "total_open_requests": _("Open requests"),
    "total_starts": _("Starts, at most"),
    "total_period": _("In each"),
    "total_bytes_per_second": _("Bytes a second"),
}


class _DecidedElsewhere(forms.ModelForm):  # type: ignore[type-arg]
    """A form whose columns `jobs.policies` checks together, with a sentence for each problem."""

    def _post_clean(self) -> None:
        """Replace the checks of the model: ranges, unique names, constraints of its table."""
        self.instance = construct_instance(self, self.instance, self._meta.fields)


def denied_first(policy: ThrottlePolicy) -> list[str]:
    """Return the patterns of the leading rules that only deny: the form shows them as a plain list."""
    rules = policies.rules_of(policy)
    return [rule.pattern for rule in takewhile(lambda rule: rule == _denial(rule.pattern) and rule.pattern, rules)]


def _denial(pattern: str) -> RuleWanted:
    return RuleWanted(pattern=pattern, denies=True)


class PolicyForm(_DecidedElsewhere):
    denied = Lines(
        label=_("Fetch nothing from"),
        help_text=_(
            "Hosts, one a line, such as www.example.com or *.example.com; their documents end as DENIED. They go before "
            "the rules. For administrators."
        ),
        required=False,
    )
    unlimited = forms.BooleanField(
        label=_("Without a pace"),
        help_text=_(
            "Needed where neither a gap, nor starts, nor bytes limit a host: it is asked as fast as it answers."
        ),
        required=False,
        widget=UnfoldBooleanSwitchWidget,
    )

    class Meta:
        model = ThrottlePolicy
        fields = ("name", *EACH, *TOTAL, *WHERE)
        labels: ClassVar = _LABELS
        help_texts: ClassVar = {
            "open_requests": _("To one host at the same time."),
            "min_gap": _("Between the starts of two requests to one host."),
            "starts": _("Evenly spread: 30 in each minute are one every 2 s. The longer of this and the gap holds."),
            "holds_everywhere": _(
                "For every host of the cluster, whatever policy its seeds have. To cap all hosts together and no single "
                "one, say 1000 open requests, a gap of 0 and no pace above. For administrators."
            ),
            "per_address": _("The limits of a host hold for all hosts at one address together, too."),
            "spares_loopback": _("Loopback addresses need no gap: nobody else is there to be spared."),
            "time_zone": _("Of the times of its rules, such as Europe/Berlin."),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields["denied"].initial = denied_first(self.instance)

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        if self.errors:
            return values
        wanted, denied = self.wanted(), [_denial(pattern) for pattern in dict.fromkeys(values["denied"])]
        try:
            policies.rehearse(self.instance.pk, **wanted, rules=denied, everywhere=True)
        except InvalidPolicy as invalid:
            for name, sentences in invalid.problems.items():
                self.add_error("denied" if name.startswith("rules") else name, sentences)
        else:
            # The formset checks the rules only if these are set.
            self.instance.wanted, self.instance.denied = wanted, denied
        return values

    def wanted(self) -> dict[str, Any]:
        """Return the fields of the policy itself, as `jobs.policies` takes them."""
        return {name: self.cleaned_data[name] for name in ("unlimited", *self.Meta.fields)}


class RuleForm(_DecidedElsewhere):
    place = forms.IntegerField(
        label=_("Place"),
        help_text=_("The first rule that matches holds."),
        required=False,
        min_value=1,
        widget=UnfoldAdminIntegerFieldWidget,
    )
    days = forms.TypedMultipleChoiceField(
        label=_("Days"),
        coerce=int,
        choices=_DAYS,
        initial=EVERY_DAY,
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
    )

    class Meta:
        model = ThrottleRule
        fields = _RULE
        labels: ClassVar = {
            **_LABELS,
            "pattern": _("Hosts"),
            "from_time": _("From"),
            "to_time": _("Until"),
            "denies": _("Fetch nothing"),
            "total_open_requests": _("Open requests, of all hosts together"),
            "total_starts": _("Starts, to all hosts together"),
            "total_bytes_per_second": _("Bytes a second, of all hosts together"),
        }
        help_texts: ClassVar = {
            "pattern": _("www.example.com, or *.example.com, which is not example.com itself. Empty: all."),
            "from_time": _("Empty, both: the whole day."),
            "to_time": _("Before the beginning: on the next day."),
            "open_requests": _("Empty: as the policy says."),
            "denies": _("With times, documents wait until these are over; without, they end as DENIED."),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields["place"].initial = self.instance.position + 1

    def wanted(self) -> RuleWanted:
        """Return the rule of a valid form."""
        said = {name: self.cleaned_data[name] for name in _RULE}
        return RuleWanted(**(said | {"days": tuple(said["days"])}))


class RuleFormSet(BaseInlineFormSet):  # type: ignore[type-arg]
    """The rules of a policy. It checks the policy as a whole, and previews a change."""

    may_limit_everywhere: ClassVar[bool] = False
    preview: Preview | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs["instance"].pk:
            shown_above = len(denied_first(kwargs["instance"]))
            kwargs["queryset"] = kwargs["queryset"].filter(position__gte=shown_above)
        super().__init__(*args, **kwargs)

    def is_valid(self) -> bool:
        """False for a preview, so that it is never stored."""
        return super().is_valid() and self.preview is None

    def clean(self) -> None:
        super().clean()
        wanted = getattr(self.instance, "wanted", None)
        if wanted is None or any(self.errors):
            return
        filled = self._filled()
        rules = self.wanted_rules()
        try:
            if PREVIEW in self.data:
                self.preview = policies.preview(
                    self.instance.pk,
                    **wanted,
                    rules=rules,
                    everywhere=self.may_limit_everywhere,
                    now=read_clock(),
                )
                return
            policies.rehearse(self.instance.pk, **wanted, rules=rules, everywhere=self.may_limit_everywhere)
        except InvalidPolicy as invalid:
            self._show(invalid, filled)
        except PolicyNotAllowed as refused:
            raise PermissionDenied(str(refused)) from None

    def wanted_rules(self) -> list[RuleWanted]:
        """Return the rules of the denied lines and of the filled forms, in their order."""
        return [*self.instance.denied, *(form.wanted() for form in self._filled())]

    def _filled(self) -> list[RuleForm]:
        forms_: list[Any] = [form for form in self.forms if form not in self.deleted_forms and form.cleaned_data]
        last = len(forms_) + 1
        return sorted(forms_, key=lambda form: form.cleaned_data["place"] or last)

    def _show(self, invalid: InvalidPolicy, filled: list[RuleForm]) -> None:
        """Show sentences beside the fields that they concern, or above all rules."""
        above: list[str] = []
        for name, sentences in invalid.problems.items():
            part, _dot, rest = name.partition(".")
            place, _dot, column = rest.partition(".")
            if part == "rules" and place:
                filled[int(place) - len(self.instance.denied)].add_error(column or "pattern", sentences)
            else:
                above += sentences
        if above:
            raise ValidationError(above)
