"""The language stage, which finds the language of a text."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from django.utils.translation import gettext_lazy as _

from jobs.connectors.schema import Field, FieldKind, Schema
from jobs.connectors.transformation.base import Item, Runs, Stage, TransformationKind
from jobs.extraction.language import language_of

# Version of the code of this stage. It is part of the description, and grows when results change.
_RULES: Final = 1

_SETTINGS: Final = Schema(
    (
        Field(
            name="replace",
            kind=FieldKind.TRUTH,
            label=_("Replace"),
            help=_(
                "Replace the language that a document names. Without this, the stage sets the language only "
                "in documents that name none."
            ),
        ),
    )
)


class LanguageFinder(Stage):
    def __init__(self, values: Mapping[str, Any]) -> None:
        self._replaces = bool(values.get("replace", False))
        self.description = f"language {_RULES} {json.dumps(self._replaces)}"

    def transform(self, item: Item) -> Sequence[Item]:
        if not item.text or (item.language and not self._replaces):
            return (item,)
        found = language_of(item.text)
        return (replace(item, language=found) if found else item,)


LANGUAGE: Final = TransformationKind(
    name="language",
    label=_("Language"),
    help=_("Finds the language of a text."),
    settings=_SETTINGS,
    open=LanguageFinder,
    # The detector is a library in C++ and the text is untrusted, so this stage runs in a child process.
    runs_in=Runs.IN_PROCESS,
)
