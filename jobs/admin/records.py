"""
A form field for a list of records: a small form for each record.

After the existing records there is an empty form, so that a record can be added without scripts. Scripts
(static/js/records.js) add as many as are needed. Empty fields are not stored. A ticked record is removed. The fields of
a record may again be such a list.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldBooleanWidget

# Largest number of records that are read from a request. No page needs more.
_MOST: Final = 200
_REMOVE: Final = "-remove"


class RecordForm(forms.Form):
    """The form of one record. A schema generates its fields."""

    use_required_attribute = False

    def __init__(
        self, data: Mapping[str, Any] | None = None, *, prefix: str, initial: dict[str, Any] | None = None
    ) -> None:
        super().__init__(data, prefix=prefix, initial=initial)
        if data is not None or initial is not None:
            self.fields[_REMOVE] = forms.BooleanField(label=_("Remove"), required=False, widget=UnfoldBooleanWidget())

    @property
    def has_values(self) -> bool:
        return self.has_changed() and not self[_REMOVE].value()

    def filled_values(self) -> dict[str, Any]:
        """Return the values of a valid form, without empty values."""
        return {
            name: value
            for name, value in self.cleaned_data.items()
            if name != _REMOVE and value not in (None, "", [], False)
        }


class RecordsWidget(forms.Widget):
    """Renders a form for each record, and passes the forms that were sent to its field."""

    class Media:
        js = (forms.Script("js/records.js", type="module"),)

    def __init__(self, form: type[RecordForm]) -> None:
        super().__init__()
        self._form = form

    def render(self, name: str, value: object, attrs: object = None, renderer: object = None) -> SafeString:
        shown = self._shown(name, value)
        forms_ = [*shown, self._form(prefix=f"{name}-{len(shown)}")]
        return render_to_string("admin/jobs/records.html", {"name": name, "forms": forms_})

    def value_from_datadict(self, data: Mapping[str, Any], files: object, name: str) -> list[RecordForm] | None:
        count = data.get(f"{name}-count", "")
        if not count.isdecimal():
            return None
        sent = [self._form(data, prefix=f"{name}-{number}") for number in range(min(int(count[:4]), _MOST))]
        while sent and not sent[-1].has_values:
            sent.pop()
        return sent

    def value_omitted_from_data(self, data: Mapping[str, Any], files: object, name: str) -> bool:
        return f"{name}-count" not in data

    def id_for_label(self, id_: str | None) -> str:
        """Return "", because a label cannot point to several fields."""
        return ""

    def _shown(self, name: str, value: Any) -> list[RecordForm]:  # noqa: ANN401 (sent or stored values)
        return [
            given if isinstance(given, RecordForm) else self._form(prefix=f"{name}-{number}", initial=given)
            for number, given in enumerate(value or ())
        ]


class Records(forms.Field):
    """A field with a list of records as its value. Each record is a dict by field name."""

    def __init__(self, form: type[RecordForm], **kwargs: Any) -> None:
        super().__init__(widget=RecordsWidget(form), **kwargs)

    def to_python(self, value: Sequence[Any] | None) -> list[dict[str, Any]]:
        found = []
        wrong = []
        for place, given in enumerate(value or (), start=1):
            if not isinstance(given, RecordForm):
                # A field that cannot be changed now gives the stored value.
                found.append(given)
            elif given.has_values and given.is_valid():
                found.append(given.filled_values())
            elif given.has_values:
                wrong.append(place)
        if wrong:
            raise ValidationError(
                _("Check the entries with the numbers %(places)s."),
                params={"places": ", ".join(str(place) for place in wrong)},
            )
        return found

    def has_changed(self, initial: Sequence[Any] | None, data: Sequence[Any] | None) -> bool:
        return self.to_python(initial) != [
            given.filled_values() for given in data or () if given.has_values and given.is_valid()
        ]
