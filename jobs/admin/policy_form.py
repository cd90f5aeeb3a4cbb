"""
The form of a throttle policy and its rules.

The policy's form checks the fields of the policy itself. After it, the formset of the rules lets `jobs.verbs.policies`
check the policy as a whole. The formset can also rehearse a change: it then stores nothing, and the page shows the
result.
"""

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

from jobs.admin.connector_form import Lines
from jobs.admin.rehearse_button import REHEARSE
from jobs.checks.policies import RuleWanted
from jobs.lifecycle.limits import LIMITS, TOTALS
from jobs.models import ThrottlePolicy, ThrottleRule
from jobs.queries.rehearsals.policies import Preview
from jobs.throttling.windows import EVERY_DAY
from jobs.verbs import policies
from nodes.database.clock import read_clock
from nodes.errors import Invalid, NotAllowed

WHERE: Final = ("applies_everywhere", "per_address", "skips_loopback", "time_zone")
_RULE: Final = ("pattern", "days", "from_time", "to_time", *LIMITS, "denies")
_DAYS: Final = (
    (1, _("Monday")),
    (2, _("Tuesday")),
    (3, _("Wednesday")),
    (4, _("Thursday")),
    (5, _("Friday")),
    (6, _("Saturday")),
    (7, _("Sunday")),
)
_LABELS_OF_EACH: Final = {
    "open_requests": _("Open requests"),
    "min_gap": _("Minimum gap (seconds)"),
    "starts": _("Maximum starts"),
    "period": _("Period of the starts"),
    "bytes_per_second": _("Bytes per second"),
}
_LABELS: Final = {**_LABELS_OF_EACH, **{name: _LABELS_OF_EACH[name.removeprefix("total_")] for name in TOTALS}}
_LABELS_OF_ALL: Final = {
    "total_open_requests": _("Open requests to all hosts"),
    "total_starts": _("Maximum starts to all hosts"),
    "total_bytes_per_second": _("Bytes per second from all hosts"),
}


class _DecidedElsewhere(forms.ModelForm):  # type: ignore[type-arg]
    """
    A form without checks by Django's model. `jobs.verbs.policies` checks its columns, with a sentence for each problem.
    """

    def _post_clean(self) -> None:
        """Set the values of the model without its checks of ranges, unique names and constraints."""
        self.instance = construct_instance(self, self.instance, self._meta.fields)


def denied_first(policy: ThrottlePolicy) -> list[str]:
    """
    Return the patterns of the rules before the first one that does more than deny. The form shows these patterns as a
    plain list.
    """
    rules = policies.rules_of(policy)
    return [rule.pattern for rule in takewhile(lambda rule: rule == _denial(rule.pattern) and rule.pattern, rules)]


def _denial(pattern: str) -> RuleWanted:
    return RuleWanted(pattern=pattern, denies=True)


class PolicyForm(_DecidedElsewhere):
    denied = Lines(
        label=_("Denied hosts"),
        help_text=_(
            "Hosts, one per line, such as www.example.com or *.example.com. Their documents end as DENIED. These denials precede the rules. "
            "Administrators only."
        ),
        required=False,
    )
    unlimited = forms.BooleanField(
        label=_("No rate limit"),
        help_text=_(
            "Required if neither a gap nor starts nor bytes limit the requests to a host. Requests then follow each other without delay."
        ),
        required=False,
        widget=UnfoldBooleanSwitchWidget,
    )

    class Meta:
        model = ThrottlePolicy
        fields = ("name", *LIMITS, *WHERE)
        labels: ClassVar = _LABELS
        help_texts: ClassVar = {
            "open_requests": _("Simultaneous requests to one host."),
            "min_gap": _("Seconds between two request starts to one host."),
            "starts": _(
                "Request starts are spread evenly: 30 per minute means one every 2 s. The longer of this delay and the gap applies."
            ),
            "applies_everywhere": _(
                "Applies to every host of the cluster, in addition to the policies of the seeds. To limit only "
                "the total, set 1000 open requests, a gap of 0 and no rate limit above. Administrators only."
            ),
            "per_address": _("The limits per host also apply to all hosts at one IP address together."),
            "skips_loopback": _("Skip the delay for loopback addresses."),
            "time_zone": _("Time zone of the rules, such as Europe/Berlin."),
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
        except Invalid as invalid:
            for name, sentences in invalid.problems.items():
                self.add_error("denied" if name.startswith("rules") else name, sentences)
        else:
            # The formset checks the rules only if these attributes are set.
            self.instance.wanted, self.instance.denied = wanted, denied
        return values

    def wanted(self) -> dict[str, Any]:
        """Return the fields of the policy itself, as `jobs.verbs.policies` takes them."""
        return {name: self.cleaned_data[name] for name in ("unlimited", *self.Meta.fields)}


class RuleForm(_DecidedElsewhere):
    place = forms.IntegerField(
        label=_("Place"),
        help_text=_("Position of the rule. The first matching rule applies."),
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
            "denies": _("Deny"),
            **_LABELS_OF_ALL,
        }
        help_texts: ClassVar = {
            "pattern": _(
                "Host pattern, such as www.example.com or *.example.com (not example.com itself). If empty, all hosts match."
            ),
            "from_time": _("If both times are empty, the rule applies all day."),
            "to_time": _("An end before the beginning is on the next day."),
            "open_requests": _("If empty, the limit of the policy applies."),
            "denies": _("If the rule has times, documents wait until these end. Otherwise they end as DENIED."),
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
    """The rules of a policy. This form set checks the policy as a whole, and rehearses a change."""

    may_limit_everywhere: ClassVar[bool] = False
    preview: Preview | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs["instance"].pk:
            shown_above = len(denied_first(kwargs["instance"]))
            kwargs["queryset"] = kwargs["queryset"].filter(position__gte=shown_above)
        super().__init__(*args, **kwargs)

    def is_valid(self) -> bool:
        """False for a rehearsal, so that it is never stored."""
        return super().is_valid() and self.preview is None

    def clean(self) -> None:
        super().clean()
        wanted = getattr(self.instance, "wanted", None)
        if wanted is None or any(self.errors):
            return
        filled = self._filled()
        rules = self.wanted_rules()
        try:
            if REHEARSE in self.data:
                self.preview = policies.preview(
                    self.instance.pk,
                    **wanted,
                    rules=rules,
                    everywhere=self.may_limit_everywhere,
                    now=read_clock(),
                )
                return
            policies.rehearse(self.instance.pk, **wanted, rules=rules, everywhere=self.may_limit_everywhere)
        except Invalid as invalid:
            self._show(invalid, filled)
        except NotAllowed as refused:
            raise PermissionDenied(str(refused)) from None

    def wanted_rules(self) -> list[RuleWanted]:
        """Return the rules of the denied lines and of the filled forms, in their order."""
        return [*self.instance.denied, *(form.wanted() for form in self._filled())]

    def _filled(self) -> list[RuleForm]:
        forms_: list[Any] = [form for form in self.forms if form not in self.deleted_forms and form.cleaned_data]
        last = len(forms_) + 1
        return sorted(forms_, key=lambda form: form.cleaned_data["place"] or last)

    def _show(self, invalid: Invalid, filled: list[RuleForm]) -> None:
        """Show each problem beside its field, or above all rules if the problem is not about a single field."""
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
