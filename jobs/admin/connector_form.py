"""
Form fields that are generated from a connector's schema (`jobs.connectors.schema`).

A form has the fields of one connector at a time: the connector of the stored object, the selected one, or the only one.
The hidden field `built_for` names this connector. If the form is sent with another selection, the page returns the form
with the fields of the selected connector. With scripts, a selection redraws the form immediately (static/js/redraw.js).
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol, TypeVar, cast

from django import forms
from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from jobs.admin.records import RecordForm, Records
from jobs.connectors.schema import Field, FieldKind, Schema
from jobs.connectors.stored_secrets import mask


class FormConnector(Protocol):
    """
    The part of a connector that a form uses: a name, and a schema in the attribute that the form's `section` names.
    """

    @property
    def name(self) -> str: ...


BUILT_FOR: Final = "built_for"


class Lines(forms.CharField):
    """A form field with a list of texts, one a line."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}), **kwargs)

    def prepare_value(self, value: object) -> object:
        return "\n".join(value) if isinstance(value, list | tuple) else value

    def to_python(self, value: str | list[str] | None) -> list[str]:  # type: ignore[override]
        if isinstance(value, list):
            # A field that cannot be changed now gives the stored value instead of a text.
            return value
        return [line.strip() for line in (value or "").splitlines() if line.strip()]

    def run_validators(self, value: list[str]) -> None:
        # The validators need a text: they would not find a NUL in a list.
        super().run_validators("\n".join(value))

    def has_changed(self, initial: Sequence[str] | None, data: str | None) -> bool:
        return list(initial or []) != self.to_python(data)


class ConnectorForm(forms.ModelForm):  # type: ignore[type-arg]
    """
    A form with the fields of the connector `form_connector`. The JSON column that `section` names stores the values of
    these fields.

    The field named `chooser` selects the connector. Without a selection, or if the connector is not installed,
    `form_connector` is None. The form then has no fields of a connector, and the stored value stays.
    """

    form_connector: ClassVar[FormConnector | None] = None
    section: ClassVar[str]
    chooser: ClassVar[str]
    built_for = forms.CharField(required=False, widget=forms.HiddenInput)

    class Media:
        js = (forms.Script("js/redraw.js", type="module"),)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sent_for = self.data.get(BUILT_FOR)
        name = self.form_connector.name if self.form_connector else ""
        if self._sent_for not in {None, name}:
            # The selection has changed, so this form has the fields of the newly selected connector.
            data = cast(QueryDict, self.data).copy()
            data[BUILT_FOR] = name
            self.data = data
            self._is_another = True
        else:
            self._is_another = False
        self.fields[BUILT_FOR].initial = name
        if self.chooser in self.fields:
            self.fields[self.chooser].widget.attrs["data-redraws"] = "true"
        for field, value in mask(getattr(self.instance, self.section)).items():
            if f"{self.section}_{field}" in self.fields:
                self.fields[f"{self.section}_{field}"].initial = value

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        if self._is_another and self.chooser in self.fields:
            self.add_error(self.chooser, _("The settings of this choice differ. Check them, then save again."))
        return values

    def column_value(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return the value of the column from a valid form, without empty values. Stored values that have no field stay.
        """
        generated = [field.name for field in schema_of(self.form_connector, self.section).fields]
        kept = {name: value for name, value in getattr(self.instance, self.section).items() if name not in generated}
        said = {name: values.get(f"{self.section}_{name}") for name in generated}
        return kept | {name: value for name, value in said.items() if value not in (None, "", [], False)}

    def add_problems(self, problems: Mapping[str, Sequence[str]]) -> None:
        """Show sentences beside the fields that they concern, or above all fields."""
        for name, sentences in problems.items():
            place = name.removeprefix(f"{self.section}.")
            field, _dot, inside = place.partition(".")
            known = next((known for known in (f"{self.section}_{field}", name) if known in self.fields), None)
            where = f"{_place_in_words(inside)}: " if inside and known else ""
            self.add_error(known, [f"{where}{sentence}" for sentence in sentences])


_Form = TypeVar("_Form", bound=ConnectorForm)


def form_for(base: type[_Form], kind: FormConnector | None) -> type[_Form]:
    """Return the form class with a field for each field of this connector."""
    fields = {f"{base.section}_{field.name}": _form_field(field) for field in schema_of(kind, base.section).fields}
    return type(base.__name__, (base,), {**fields, "form_connector": kind})


def fieldset_for(title: str | Promise, kind: FormConnector | None, *, section: str) -> tuple[Any, ...]:
    """Return the fieldset of an admin page with the fields of this connector; an empty list if it has none."""
    names = tuple(f"{section}_{field.name}" for field in schema_of(kind, section).fields)
    return ((title, {"fields": names}),) if names else ()


def _place_in_words(place: str) -> str:
    """Return a place inside of records with numbers from 1: `0.fields.1.secret` becomes `1 fields 2 secret`."""
    return " ".join(str(int(step) + 1) if step.isdecimal() else step for step in place.split("."))


def schema_of(kind: FormConnector | None, section: str) -> Schema:
    schema: Schema = getattr(kind, section) if kind else Schema(())
    return schema


def _form_field(field: Field) -> forms.Field:
    facts: dict[str, Any] = {"label": field.label, "help_text": field.help, "required": field.is_required}
    match field.kind:
        case FieldKind.TEXT:
            return forms.CharField(widget=UnfoldAdminTextInputWidget, **facts)
        case FieldKind.SECRET:
            # A field with the mask of a stored secret sends the mask unchanged. The verb then keeps the secret.
            widget = UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}, render_value=True)
            return forms.CharField(widget=widget, **facts)
        case FieldKind.LINES:
            return Lines(**facts)
        case FieldKind.CHOICE:
            choices = [("", _("default")), *field.choices]
            return forms.ChoiceField(choices=choices, widget=UnfoldAdminSelectWidget, **facts)
        case FieldKind.TRUTH:
            return forms.BooleanField(widget=UnfoldBooleanSwitchWidget, **(facts | {"required": False}))
        case FieldKind.WHOLE:
            return forms.IntegerField(
                widget=UnfoldAdminIntegerFieldWidget,
                min_value=None if field.least is None else int(field.least),
                max_value=None if field.most is None else int(field.most),
                **facts,
            )
        case FieldKind.NUMBER:
            return forms.FloatField(
                widget=UnfoldAdminIntegerFieldWidget, min_value=field.least, max_value=field.most, **facts
            )
        case FieldKind.RECORDS:
            assert field.records is not None
            generated = {inner.name: _form_field(inner) for inner in field.records.fields}
            return Records(type("Record", (RecordForm,), generated), **facts)
