"""Form fields of tasks: types of fields, and one field for each argument of a kind, made of its JSON schema."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from django import forms
from django.utils.translation import gettext_lazy as _

from nodes.api.parsing import json_in
from nodes.tasks.kinds import Kind

PREFIX: Final = "argument-"
_JSON_ROWS: Final = 4
_LONGEST: Final = 100_000


class MomentInput(forms.DateTimeInput):
    """An input for a moment with its date, to the second."""

    input_type = "datetime-local"

    def __init__(self) -> None:
        super().__init__(attrs={"step": 1}, format="%Y-%m-%dT%H:%M:%S")


moment_field = partial(forms.DateTimeField, required=False, widget=MomentInput)


class JsonField(forms.CharField):
    """Text that is JSON. An empty text is None."""

    def __init__(self, **facts: Any) -> None:
        attributes = {"rows": _JSON_ROWS, "spellcheck": "false"}
        super().__init__(required=False, max_length=_LONGEST, widget=forms.Textarea(attributes), **facts)

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) or value is None else json.dumps(value, ensure_ascii=False, indent=1)

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return None
        super().run_validators(text)
        try:
            return json_in(text)
        except ValueError:
            raise forms.ValidationError(_("This is not JSON.")) from None

    def run_validators(self, value: Any) -> None:
        """Do nothing: `to_python` has already applied the validators to the text."""


class Lines(forms.CharField):
    """A list of texts, one a line. An empty text is None."""

    def __init__(self, **facts: Any) -> None:
        super().__init__(required=False, max_length=_LONGEST, widget=forms.Textarea({"rows": _JSON_ROWS}), **facts)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(map(str, value)) if isinstance(value, list | tuple) else value

    def to_python(self, value: Any) -> Any:
        return [line.strip() for line in (super().to_python(value) or "").splitlines() if line.strip()] or None

    def run_validators(self, value: list[str] | None) -> None:
        # The inherited validators check a text, and would not find a NUL in a list.
        super().run_validators("\n".join(value or ()))


class JsonChoice(forms.TypedChoiceField):
    """A choice between JSON values, which the page shows as JSON."""

    def prepare_value(self, value: Any) -> Any:
        offered = {str(key) for key, _label in list(self.choices)}  # type: ignore[arg-type]  # always a list here
        return value if value is None or (isinstance(value, str) and value in offered) else json.dumps(value)


def argument_fields(kind: Kind) -> dict[str, forms.Field]:
    """Return a field for each argument of a kind, by its name with the prefix."""
    return {
        f"{PREFIX}{name}": _field(name, schema, is_required=name in kind.required)
        for name, schema in kind.properties.items()
    }


def _field(name: str, schema: Mapping[str, Any], *, is_required: bool) -> forms.Field:
    facts: dict[str, Any] = {"label": _label(name, schema, is_required), "help_text": schema.get("description", "")}
    if "default" in schema:
        facts["initial"] = schema["default"]
    field = _field_of_type(schema, facts)
    if is_required:
        # The verb checks the arguments. This only helps a browser to find an empty field earlier.
        field.widget.attrs["required"] = True
    return field


def _field_of_type(schema: Mapping[str, Any], facts: dict[str, Any]) -> forms.Field:
    if "enum" in schema:
        return _choice(schema["enum"], facts)
    match _type(schema):
        case "boolean":
            return _choice([True, False], facts)
        case "integer":
            return forms.IntegerField(required=False, widget=_number(schema, step="1"), **facts)
        case "number":
            return forms.FloatField(required=False, widget=_number(schema, step="any"), **facts)
        case "string":
            return forms.CharField(required=False, max_length=schema.get("maxLength", _LONGEST), strip=False, **facts)
        case "array" if _type(schema.get("items", {})) == "string" and "enum" in schema["items"]:
            choices = [(one, one) for one in schema["items"]["enum"]]
            return forms.MultipleChoiceField(
                required=False, choices=choices, widget=forms.CheckboxSelectMultiple, **facts
            )
        case "array" if _type(schema.get("items", {})) == "string":
            facts["help_text"] = facts["help_text"] or _("One a line.")
            return Lines(**facts)
        case _:
            facts["help_text"] = facts["help_text"] or _("JSON.")
            return JsonField(**facts)


def _choice(values: list[Any], facts: dict[str, Any]) -> forms.Field:
    words = {"true": _("yes"), "false": _("no")}
    choices = [(text, words.get(text, value)) for value in values for text in [json.dumps(value)]]
    return JsonChoice(required=False, choices=[("", "—"), *choices], coerce=json.loads, empty_value=None, **facts)


def _number(schema: Mapping[str, Any], *, step: str) -> forms.NumberInput:
    bounds = {"min": schema.get("minimum"), "max": schema.get("maximum")}
    return forms.NumberInput({"step": step, **{name: bound for name, bound in bounds.items() if bound is not None}})


def _type(schema: Mapping[str, Any]) -> str:
    """Return the first type of a schema other than null; "" if it names none."""
    named = schema.get("type", "")
    names = [named] if isinstance(named, str) else [name for name in named if name != "null"]
    return names[0] if names else ""


def _label(name: str, schema: Mapping[str, Any], is_required: bool) -> str:  # noqa: FBT001 (a fact of the argument)
    label = str(schema.get("title") or name.replace("_", " ").capitalize())
    return _("%(label)s (required)") % {"label": label} if is_required else label
