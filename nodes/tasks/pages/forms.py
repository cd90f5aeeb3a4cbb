"""The forms of a new task and of a template. `nodes.tasks.verbs` checks the values, and names each problem."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from django import forms
from django.utils.translation import gettext_lazy as _

from nodes.errors import Invalid
from nodes.tasks.kinds import Kind
from nodes.tasks.models import GENERIC, TaskFacts, TaskTemplate
from nodes.tasks.pages.fields import PREFIX, JsonField, argument_fields, moment_field
from nodes.web.form_conflicts import SeenForm


class PartsForm(forms.Form):
    """The parts of a task that its creator chooses, and the arguments of its kind."""

    use_required_attribute = False
    # Fields that the page shows before the arguments.
    first: ClassVar[tuple[str, ...]] = ()
    # The form field that shows a problem, by the name of the problem or by the part of this name before the first dot.
    places: ClassVar[Mapping[str, str]] = {}

    group = forms.CharField(required=False, label=_("Group"))
    tags = forms.CharField(
        required=False, label=_("Tags"), help_text=_("Words for finding the task, separated by spaces.")
    )
    retry_policy = JsonField(label=_("Retry policy"))

    def __init__(self, kind: Kind, data: Any = None, *, initial: Mapping[str, Any] | None = None) -> None:
        super().__init__(data, initial=dict(initial or {}), label_suffix="")
        self.kind = kind
        own = self.fields
        self.fields = {
            **{name: own[name] for name in self.first},
            **argument_fields(kind),
            **{name: field for name, field in own.items() if name not in self.first},
        }
        self.fields["group"].help_text = _(
            "Only workers of this group execute the task. If empty, the group is %(generic)s."
        ) % {"generic": GENERIC}
        policy = json.dumps(dict(kind.retry_policy))
        self.fields["retry_policy"].help_text = _("JSON. If empty: %(policy)s.") % {"policy": policy}

    def wanted(self) -> dict[str, Any]:
        """Return the parts of a valid form."""
        given = {
            name.removeprefix(PREFIX): value
            for name, value in self.cleaned_data.items()
            if name.startswith(PREFIX) and value not in (None, "", [])
        }
        return {
            "kind": self.kind.name,
            "arguments": given,
            "group": self.cleaned_data["group"],
            "tags": self.cleaned_data["tags"].replace(",", " ").split(),
            "retry_policy": self.cleaned_data["retry_policy"],
        }

    def show(self, invalid: Invalid) -> None:
        """Show each problem at its field."""
        for name, sentences in invalid.problems.items():
            self._show(name, sentences)

    def _show(self, name: str, sentences: Iterable[str]) -> None:
        first, _dot, rest = name.partition(".")
        argument = f"{PREFIX}{rest.partition('.')[0]}"
        place = argument if first == "arguments" and rest else self.places.get(name, self.places.get(first, first))
        inside = rest.partition(".")[2] if place == argument else rest if place == first else ""
        for sentence in sentences:
            text = f"{inside}: {sentence}" if inside else sentence
            self.add_error(place if place in self.fields else None, text)


class TaskForm(PartsForm):
    """A task to run."""

    urn = forms.CharField(required=False, label=_("Name"), help_text=_("A name of your choice."))
    at = moment_field(label=_("Date"), help_text=_("Time in UTC. If empty, now."))

    def wanted(self) -> dict[str, Any]:
        return {**super().wanted(), "urn": self.cleaned_data["urn"], "at": self.cleaned_data["at"]}


class TemplateForm(SeenForm, PartsForm):
    """A template to create or to change."""

    first = ("urn", "cron", "time_zone", "every_minutes", "unique")
    places = {
        "schedule": "cron",
        "schedule.cron": "cron",
        "schedule.time_zone": "time_zone",
        "schedule.every_minutes": "every_minutes",
    }

    urn = forms.CharField(required=False, label=_("Name (required)"))
    cron = forms.CharField(
        required=False,
        label=_("Cron expression"),
        help_text=_("Five fields, such as 14 2 * * *. If empty, set an interval in minutes below."),
    )
    time_zone = forms.CharField(
        required=False, label=_("Time zone"), help_text=_("Such as Europe/Berlin. If empty, UTC.")
    )
    every_minutes = forms.IntegerField(
        required=False,
        min_value=1,
        label=_("Interval in minutes, instead of a cron expression"),
        widget=forms.NumberInput({"min": 1}),
    )
    unique = forms.BooleanField(required=False, label=_("Skip a run while the last task has not ended"))

    def __init__(self, kind: Kind, data: Any = None, *, template: TaskTemplate | None = None) -> None:
        super().__init__(kind, data, initial=None if template is None else _facts(template))
        self.stored = template
        if template is not None:
            # The name is the key: another name would create another template.
            self.fields["urn"].disabled = True

    def wanted(self) -> dict[str, Any]:
        values = self.cleaned_data
        parts = {"cron": values["cron"], "time_zone": values["time_zone"], "every_minutes": values["every_minutes"]}
        schedule = {name: value for name, value in parts.items() if value not in (None, "")}
        return {**super().wanted(), "urn": values["urn"], "schedule": schedule, "unique": values["unique"]}


def copied(task: TaskFacts | TaskTemplate) -> dict[str, Any]:
    """Return the values of a form that repeats the parts of a task."""
    arguments = {f"{PREFIX}{name}": value for name, value in dict(task.arguments).items()}
    return {**arguments, "group": task.group, "tags": " ".join(task.tags), "retry_policy": task.retry_policy}


def _facts(template: TaskTemplate) -> dict[str, Any]:
    return {**copied(template), **template.schedule, "urn": template.urn, "unique": template.unique}
