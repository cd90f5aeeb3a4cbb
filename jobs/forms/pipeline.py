"""
The form of a job's pipeline. It has a part for each stage, and a field for the stage that feeds each output. It needs
no scripts.

The form may be sent to add a stage. The page then shows it again with an empty stage of the chosen kind, and stores
nothing. The order of stages on the page does not matter: a stage may have a later stage as its input.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from jobs.connectors.schema import Field, FieldKind
from jobs.connectors.transformation import registry
from jobs.connectors.transformation.base import TransformationKind
from jobs.connectors.transformation.pipeline import MOST_STAGES, SOURCE, PipelineWanted

_SETTING: Final = "setting_"
# Names of the button that adds a stage, and of the field with its kind.
_ADD: Final = "add_stage"
_ADD_KIND: Final = "add_kind"
# Value of an output that follows the last stage.
_END: Final = ""


class _Lines(forms.CharField):
    """A field with a list of texts, one a line."""

    widget = forms.Textarea(attrs={"rows": 3, "spellcheck": "false"})

    def prepare_value(self, value: object) -> object:
        return "\n".join(value) if isinstance(value, list | tuple) else value

    def to_python(self, value: str | None) -> list[str]:  # type: ignore[override]
        return [line.strip() for line in (value or "").splitlines() if line.strip()]


class StageForm(forms.Form):
    """The part of one stage. `PipelineForm` adds the fields of its kind."""

    use_required_attribute = False

    kind = forms.CharField(widget=forms.HiddenInput)
    # The name of the stage when the form was shown. Inputs of other stages refer to this name.
    was = forms.CharField(required=False, widget=forms.HiddenInput)
    name = forms.CharField(label=_("Name"), max_length=100, required=False)
    input = forms.ChoiceField(label=_("Follows"), required=False)
    remove = forms.BooleanField(label=_("Remove this stage"), required=False)

    @property
    def kind_name(self) -> str:
        return str(self["kind"].value() or "")

    @property
    def label(self) -> object:
        kind = registry.installed().get(self.kind_name)
        return kind.label if kind else self.kind_name

    @property
    def help(self) -> object:
        kind = registry.installed().get(self.kind_name)
        return kind.help if kind else ""

    def settings(self) -> dict[str, Any]:
        """Return the values of the kind's fields, without empty values."""
        said = {
            name.removeprefix(_SETTING): value for name, value in self.cleaned_data.items() if name.startswith(_SETTING)
        }
        return {name: value for name, value in said.items() if value not in (None, "", [], False)}


class PipelineForm:
    """The form of a whole pipeline, which is the stored one or the one that was sent."""

    def __init__(
        self, wanted: PipelineWanted, *, outputs: Sequence[tuple[int, str]], data: QueryDict | None = None
    ) -> None:
        self._outputs = outputs
        self._data = data
        self.problems: list[str] = []
        if data is None:
            given = [
                {
                    "kind": stage.kind,
                    "was": stage.name,
                    "name": stage.name,
                    "input": stage.input,
                    **{f"{_SETTING}{name}": value for name, value in stage.settings.items()},
                }
                for stage in wanted.stages
            ]
            self.stages = [self._stage(number, kind=one["kind"], initial=one) for number, one in enumerate(given)]
        else:
            said = data.get("count", "")
            count = min(int(said), MOST_STAGES) if said.isdecimal() and len(said) < 5 else 0
            self.stages = [
                self._stage(number, kind=data.get(f"s{number}-kind", ""), data=data) for number in range(count)
            ]
        ends = {f"o{output}": wanted.outputs.get(output, _END) for output, _ in outputs}
        self.ends = forms.Form(data, initial=ends)
        self._offer()

    def _stage(
        self, number: int, *, kind: str, data: QueryDict | None = None, initial: dict[str, Any] | None = None
    ) -> StageForm:
        found = registry.installed().get(kind)
        fields = {f"{_SETTING}{field.name}": _form_field(field) for field in (found.settings.fields if found else ())}
        made: StageForm = type("StageForm", (StageForm,), fields)(data, prefix=f"s{number}", initial=initial)
        return made

    def _offer(self) -> None:
        """Offer the stages as inputs of other stages and of outputs. They have the names that the page showed."""
        names = [str(stage["was"].value() or stage["name"].value() or "") for stage in self.stages]
        choices = [(SOURCE, _("the source")), *((name, name) for name in names if name)]
        for own, stage in zip(names, self.stages, strict=True):
            stage.fields["input"] = forms.ChoiceField(
                label=_("Follows"), required=False, choices=[choice for choice in choices if choice[0] != own]
            )
        for output, name in self._outputs:
            self.ends.fields[f"o{output}"] = forms.ChoiceField(
                label=name, required=False, choices=[(_END, _("the last stage")), *choices]
            )

    @property
    def kinds(self) -> Iterable[TransformationKind]:
        """Return the kinds that a stage can have."""
        return registry.installed().values()

    def was_asked_for_a_stage(self) -> bool:
        """True if the form was sent to add a stage, and not to be stored."""
        return self._data is not None and _ADD in self._data

    def add_stage(self) -> None:
        """
        Add an empty stage of the chosen kind behind the last one. If that is not possible, add a problem to the form.
        """
        kind = self._data.get(_ADD_KIND, "") if self._data is not None else ""
        if kind not in registry.installed() or len(self.stages) >= MOST_STAGES:
            self.problems.append(gettext("Choose a kind of stage. A pipeline has at most 50 stages."))
            return
        names = {str(stage["name"].value()) for stage in self.stages} | {SOURCE}
        name = next(
            one for one in (kind, *(f"{kind} {number}" for number in range(2, MOST_STAGES + 3))) if one not in names
        )
        last = str(self.stages[-1]["was"].value() or self.stages[-1]["name"].value()) if self.stages else SOURCE
        initial = {"kind": kind, "was": name, "name": name, "input": last}
        self.stages.append(self._stage(len(self.stages), kind=kind, initial=initial))
        self._offer()

    def is_valid(self) -> bool:
        # All parts are checked, even after an invalid one, so that each part shows its problems.
        results = [stage.is_valid() for stage in self.stages if not _is_removed(stage)]
        return all([self.ends.is_valid(), *results])

    def value(self) -> dict[str, Any]:
        """
        Return the pipeline of a valid form. If the input of a stage no longer exists, the stage follows the input of
        that input.
        """
        kept = [stage for stage in self.stages if not _is_removed(stage)]
        names: dict[str, str] = {
            stage.cleaned_data["was"] or stage.cleaned_data["name"]: stage.cleaned_data["name"] for stage in kept
        }
        removed = {
            str(stage["was"].value() or stage["name"].value()): str(stage["input"].value() or SOURCE)
            for stage in self.stages
            if _is_removed(stage)
        }

        def present(name: str) -> str:
            for _step in range(MOST_STAGES):
                name = removed.get(name, name)
            return names.get(name, name)

        self._order = _in_order(
            kept, {id(stage): stage.cleaned_data["was"] or stage.cleaned_data["name"] for stage in kept}
        )
        return {
            "stages": [
                {
                    "name": stage.cleaned_data["name"],
                    "kind": stage.cleaned_data["kind"],
                    "input": present(stage.cleaned_data["input"] or SOURCE),
                    "settings": stage.settings(),
                }
                for stage in self._order
            ],
            "outputs": {
                name.removeprefix("o"): present(end) for name, end in self.ends.cleaned_data.items() if end != _END
            },
        }

    def show(self, problems: Mapping[str, Sequence[str]]) -> None:
        """Show the problems of the stored job beside the fields that they concern, or above all."""
        for place, sentences in problems.items():
            steps = place.removeprefix("pipeline.").split(".")
            form: forms.Form | None = None
            field = ""
            if steps[0] == "stages" and len(steps) > 2 and steps[1].isdecimal() and int(steps[1]) < len(self._order):
                form = self._order[int(steps[1])]
                field = f"{_SETTING}{steps[3]}" if steps[2] == "settings" and len(steps) > 3 else steps[2]
            elif steps[0] == "outputs" and len(steps) > 1:
                form, field = self.ends, f"o{steps[1]}"
            if form is not None and field in form.fields:
                form.add_error(field, list(sentences))
            else:
                self.problems += sentences


def _is_removed(stage: StageForm) -> bool:
    return bool(stage.is_bound and stage["remove"].value())


def _in_order(stages: Sequence[StageForm], names: Mapping[int, str]) -> list[StageForm]:
    """Return the stages in an order in which each stage comes after its input. Stages that form a circle come last."""
    left, placed = list(stages), {SOURCE}
    order: list[StageForm] = []
    known = set(names.values())
    while left:
        found = next(
            (
                stage
                for stage in left
                if (before := stage.cleaned_data["input"] or SOURCE) in placed or before not in known
            ),
            None,
        )
        if found is None:
            return order + left
        left.remove(found)
        order.append(found)
        placed.add(names[id(found)])
    return order


def _form_field(field: Field) -> forms.Field:
    facts: dict[str, Any] = {"label": field.label, "help_text": field.help, "required": False}
    match field.kind:
        case FieldKind.LINES:
            return _Lines(**facts)
        case FieldKind.CHOICE:
            return forms.ChoiceField(choices=[("", _("default")), *field.choices], **facts)
        case FieldKind.TRUTH:
            return forms.BooleanField(**facts)
        case FieldKind.WHOLE:
            return forms.IntegerField(**facts)
        case FieldKind.NUMBER:
            return forms.FloatField(**facts)
        case FieldKind.RECORDS:
            return forms.JSONField(**facts)
        case _:
            return forms.CharField(**facts)
