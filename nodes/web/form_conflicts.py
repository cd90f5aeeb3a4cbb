"""
Edit forms that do not overwrite a change that their user did not see.

An edit form is sent with a mark of the stored values that it was opened with. If other values are stored by then, the
form stores nothing: it comes back with the entries of its user, a sentence, and the mark of the present values. Sent
again, it is stored. A request without a mark, such as one of a script, is not compared.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from django.db.models import Model, QuerySet
from django.forms.models import model_to_dict
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

# Name of the hidden field.
SEEN: Final = "seen"
CHANGED: Final[Promise] = _(
    "This was changed after you opened the form, so nothing was stored. Open the page in another tab to see the present "
    "values. To replace them, save again."
)
_LENGTH: Final = 20


class SeenForm:
    """
    The part of a form that compares the mark. A model form of a new object, and a form without `stored`, has none.

    A form may have a method `further_compared_values`: it returns further values that its user relies on.
    """

    # The stored object of a form that is no model form.
    stored: Any = None

    @property
    def mark(self) -> str:
        """Return the mark of the present values; '' without a stored object."""
        form: Any = self
        stored = getattr(form, "instance", form.stored)
        if stored is None or not stored.pk:
            return ""
        shown = {name: form.get_initial_for_field(field, name) for name, field in form.fields.items()}
        also = form.further_compared_values() if hasattr(form, "further_compared_values") else None
        return mark_of([shown, also, [_rows(formset) for formset in getattr(stored, "opened_with", ())]])

    def clean(self) -> dict[str, Any]:
        form: Any = self
        if (mark := self.mark) and form.data.get(SEEN, mark) != mark:
            form.add_error(None, CHANGED)
        values: dict[str, Any] = super().clean() or {}  # type: ignore[misc]  # that of the form
        return values


def mark_of(values: object) -> str:
    """Return a mark that differs for different values."""
    return sha256(json.dumps(_plain(values), sort_keys=True).encode()).hexdigest()[:_LENGTH]


def _rows(formset: Any) -> list[Any]:  # noqa: ANN401 (a formset of any model)
    """Return the stored rows of a formset, as its forms show them."""
    return [[row.pk, model_to_dict(row, fields=formset.form.base_fields)] for row in formset.get_queryset()]


def _plain(value: object) -> object:
    match value:
        case Model():
            return str(value.pk)
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case QuerySet() | set() | frozenset():
            return sorted(str(_plain(each)) for each in value)
        case list() | tuple():
            plain = [_plain(each) for each in value]
            # The database returns related rows in any order.
            return sorted(map(str, plain)) if all(isinstance(each, Model) for each in value) else plain
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)
