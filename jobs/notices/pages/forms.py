"""The forms of channels and rules. The fields of a channel are drawn from the schema of its kind."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django import forms
from django.utils.translation import gettext_lazy as _

from jobs.connectors.schema import Field, FieldKind
from jobs.models import Job
from jobs.notices.channels.registry import ChannelKind
from jobs.notices.models import NotificationChannel, NotificationRule
from jobs.notices.topics import TOPICS
from jobs.notices.verbs import shown_configuration
from nodes.api.parsing import json_in
from nodes.membership.changes import MASK
from nodes.web.form_conflicts import SeenForm

_LONGEST: Final = 4_000


class ChannelForm(SeenForm, forms.Form):
    """The parts of a channel. A secret that is left empty stays as it is."""

    use_required_attribute = False

    name = forms.CharField(max_length=200, label=_("Name"), strip=False)

    def __init__(self, kind: ChannelKind, *, stored: NotificationChannel | None = None, data: Any = None) -> None:  # noqa: ANN401 (Django's)
        super().__init__(data, initial=_initial_of_channel(stored))
        self._kind, self.stored = kind, stored
        shown = shown_configuration(stored) if stored else {}
        for field in kind.schema.fields:
            self.fields[f"configuration.{field.name}"] = _drawn(field, shown.get(field.name))
        self.fields["most_an_hour"] = forms.IntegerField(label=_("Messages an hour"), initial=20)
        self.fields["retry_policy"] = forms.CharField(
            required=False,
            label=_("Retry policy"),
            widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
            help_text=_("JSON. If empty, 6 retries follow, the first one after 30 seconds."),
        )
        self.fields["is_enabled"] = forms.BooleanField(required=False, label=_("Enabled"), initial=True)

    def clean_retry_policy(self) -> object:
        said = self.cleaned_data["retry_policy"].strip()
        if not said:
            return None
        try:
            return json_in(said)
        except ValueError:
            raise forms.ValidationError(_("This is not JSON.")) from None

    def facts(self) -> dict[str, Any]:
        """Return the parts of the channel, as arguments of verbs."""
        values = self.cleaned_data
        configuration = {
            field.name: value
            for field in self._kind.schema.fields
            if (value := self._value(field, values.get(f"configuration.{field.name}"))) not in (None, "")
        }
        facts = {"name": values["name"], "configuration": configuration, "most_an_hour": values["most_an_hour"]}
        if values["retry_policy"] is not None:
            facts["retry_policy"] = values["retry_policy"]
        return {**facts, "is_enabled": values["is_enabled"]}

    def _value(self, field: Field, value: object) -> object:
        if field.kind is FieldKind.SECRET and not value and self.stored and field.name in self.stored.configuration:
            return MASK
        if field.kind is FieldKind.LINES:
            return [line.strip() for line in str(value or "").splitlines() if line.strip()]
        return value


class RuleForm(SeenForm, forms.Form):
    """The parts of a rule."""

    use_required_attribute = False

    name = forms.CharField(max_length=200, label=_("Name"), strip=False)
    topics = forms.MultipleChoiceField(
        choices=list(TOPICS.items()),
        required=False,
        label=_("Topics"),
        widget=forms.CheckboxSelectMultiple,
        help_text=_("If none is chosen, the rule sends all lines of the attention list."),
    )
    channels = forms.ModelMultipleChoiceField(
        NotificationChannel.objects.all(), required=False, label=_("Channels"), widget=forms.CheckboxSelectMultiple
    )
    job = forms.CharField(
        max_length=200,
        required=False,
        label=_("Only this job"),
        help_text=_("Name of a job. If empty, the rule applies to all jobs."),
    )
    minutes = forms.IntegerField(
        required=False,
        label=_("Limit (minutes)"),
        help_text=_(
            "Required for the topics “A running job processes no document” and “A run takes long”. "
            "Other topics ignore it."
        ),
    )
    remind_after = forms.IntegerField(required=False, label=_("Reminder after (minutes)"))
    notifies_of_end = forms.BooleanField(required=False, label=_("Message when a condition ends"), initial=True)
    is_enabled = forms.BooleanField(required=False, label=_("Enabled"), initial=True)

    def __init__(self, *, stored: NotificationRule | None = None, data: Any = None) -> None:  # noqa: ANN401 (Django's)
        super().__init__(data, initial=_initial_of_rule(stored))
        self.stored = stored

    def clean_job(self) -> int | None:
        name = self.cleaned_data["job"].strip()
        if not name:
            return None
        job = Job.objects.filter(name=name).first()
        if job is None:
            raise forms.ValidationError(_("No job has the name %(name)s.") % {"name": name})
        return job.pk

    def facts(self) -> dict[str, Any]:
        """Return the parts of the rule, as arguments of verbs."""
        return {**self.cleaned_data, "channels": [channel.pk for channel in self.cleaned_data["channels"]]}


def add_problems(form: forms.Form, problems: Mapping[str, Sequence[str]]) -> None:
    """Show the problems of a refused form at their fields."""
    for name, sentences in problems.items():
        known = name if name in form.fields else name.partition(".")[0]
        form.add_error(known if known in form.fields else None, list(sentences))


def _drawn(field: Field, shown: object) -> forms.Field:
    facts: dict[str, Any] = {"required": False, "label": field.label, "help_text": field.help}
    match field.kind:
        case FieldKind.SECRET:
            if shown:
                facts["help_text"] = _("A value is stored. Leave the field empty to keep it.")
            return forms.CharField(**facts, strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "off"}))
        case FieldKind.LINES:
            lines = "\n".join(shown) if isinstance(shown, list) else ""
            return forms.CharField(
                **facts, initial=lines, max_length=_LONGEST, widget=forms.Textarea(attrs={"rows": 3})
            )
        case FieldKind.CHOICE:
            return forms.ChoiceField(**facts, choices=field.choices, initial=shown)
        case FieldKind.WHOLE:
            return forms.IntegerField(**facts, initial=shown)
        case _:
            return forms.CharField(**facts, initial=shown, max_length=_LONGEST)


def _initial_of_channel(stored: NotificationChannel | None) -> dict[str, Any]:
    if stored is None:
        return {}
    return {
        "name": stored.name,
        "most_an_hour": stored.most_an_hour,
        "retry_policy": json.dumps(stored.retry_policy),
        "is_enabled": stored.is_enabled,
    }


def _initial_of_rule(stored: NotificationRule | None) -> dict[str, Any]:
    if stored is None:
        return {}
    names = ("name", "topics", "minutes", "remind_after", "notifies_of_end", "is_enabled")
    return {
        **{name: getattr(stored, name) for name in names},
        "channels": list(stored.channels.values_list("pk", flat=True)),
        "job": stored.job.name if stored.job else "",
    }
