"""
The splitter: a stage that opens e-mails and archives, and passes on each of their parts as a component with its bytes.

A later stage, such as `tika`, reads the parts. The text extraction needs no splitter, because it reads parts itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.utils.translation import gettext_lazy as _

from jobs.connectors.schema import NOTHING as NO_SETTINGS
from jobs.connectors.transformation.base import Candidate, Item, Runs, Stage, TransformationKind
from jobs.connectors.transformation.extract import address_of
from jobs.extraction.budget import Limits
from jobs.extraction.extract import split
from jobs.extraction.kinds import may_have_parts

# Version of the code of this stage. It is part of the description, and grows when results change.
_RULES: Final = 2
_LIMITS: Final = Limits()


class Splitter(Stage):
    description: Final = f"split {_RULES}"

    def reads(self, candidate: Candidate) -> bool:
        return may_have_parts(candidate.content_type, candidate.url)

    def transform(self, item: Item) -> Sequence[Item]:
        if item.body is None or item.component or not may_have_parts(item.content_type, item.url):
            return (item,)
        parts = split(item.body, content_type=item.content_type, name=item.url.partition("?")[0], limits=_LIMITS)
        return (
            item,
            *(
                Item(
                    url=address_of(item, part.id),
                    content_type=part.content_type,
                    body=part.body,
                    title=part.name,
                    originated_at=item.originated_at,
                    component=part.id,
                )
                for part in parts
            ),
        )


def _open(_values: Mapping[str, Any]) -> Splitter:
    return Splitter()


SPLIT: Final = TransformationKind(
    name="split",
    label=_("Split into components"),
    help=_("Opens e-mails and archives, and passes on each part with its bytes to the next stages."),
    settings=NO_SETTINGS,
    open=_open,
    runs_in=Runs.IN_PROCESS,
)
