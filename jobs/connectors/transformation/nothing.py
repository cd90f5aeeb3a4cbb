"""A stage that passes on each document unchanged. Other stages and outputs can branch there."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.utils.translation import gettext_lazy as _

from jobs.connectors.schema import NOTHING as NO_SETTINGS
from jobs.connectors.transformation.base import Item, Stage, TransformationKind


class PassesOn(Stage):
    """A stage that changes nothing."""

    description: Final = "null"

    def transform(self, item: Item) -> Sequence[Item]:
        return (item,)


def _open(_values: Mapping[str, Any]) -> PassesOn:
    return PassesOn()


NOTHING: Final = TransformationKind(name="null", label=_("No change"), settings=NO_SETTINGS, open=_open)
