"""
Form fields for tables that may have very many rows: they offer the newest rows, and the row chosen in the address.
"""

from collections.abc import Iterable
from typing import Any, Final

from django.forms import ModelChoiceField
from django.utils.translation import gettext as _

_OFFERED: Final = 100


def offer_few(field: "ModelChoiceField[Any]", *, chosen: Iterable[str]) -> None:
    """Limit the offered rows of a form field; the `chosen` row is offered even beyond the limit."""
    every = field.queryset
    assert every is not None
    newest = dict(every.order_by("-pk").values_list("pk", "name")[: _OFFERED + 1])
    has_more = len(newest) > _OFFERED
    if has_more:
        newest.popitem()
    known = {int(one) for one in chosen if one.isdecimal() and len(one) < 19}
    offered = newest | dict(every.filter(pk__in=known - newest.keys()).values_list("pk", "name") if known else ())
    choices: list[Any] = sorted(offered.items(), key=lambda one: one[1])
    if field.empty_label is not None:
        choices.insert(0, ("", field.empty_label))
    if has_more:
        # A heading without choices below it, which cannot be chosen.
        choices.append((_("Only the newest 100 are listed. For another one, begin at its own page."), []))
    field.choices = choices
