"""
Rules that keep pages out of the index: by content type, by length, and by their text.

A page that these rules exclude leaves the outputs. Its links still count, as in ManifoldCF: a job may read lists of
pages without indexing them.
"""

import re
from collections.abc import Sequence
from typing import Final

from jobs.connectors.repository.base import Content
from jobs.connectors.repository.web.scope import BadPattern, compile_pattern
from jobs.connectors.schema import BadSpecification

_WORD: Final = r"[A-Za-z0-9!#$&^_.+-]+"
_TYPE: Final = re.compile(rf"{_WORD}/(?:{_WORD}|\*)")


class IndexRules:
    """
    The rules of one job. `types` are content types such as text/html or text/*. If `types` is empty, all types are
    indexed. `max_bytes` limits the body; None means no limit. A page whose title or text matches a pattern of
    `exclude_text` is not indexed.

    Raises:
        BadSpecification: a content type or a pattern is invalid.
    """

    def __init__(
        self, *, types: Sequence[str] = (), max_bytes: int | None = None, exclude_text: Sequence[str] = ()
    ) -> None:
        self._types = {_checked(name) for name in types}
        self._max_bytes = max_bytes
        try:
            self._exclude_text = [compile_pattern(pattern) for pattern in exclude_text]
        except BadPattern as error:
            raise BadSpecification("exclude_text", str(error)) from None

    def why_not(self, content: Content, *, length: int) -> str | None:
        """Return the result code of a page that is not to be indexed; None if it is. Its body has `length` bytes."""
        if self._types and self._types.isdisjoint(_names_of(content.content_type)):
            return "EXCLUDED_TYPE"
        if self._max_bytes is not None and length > self._max_bytes:
            return "EXCLUDED_LENGTH"
        if any(pattern.search(content.title) or pattern.search(content.text) for pattern in self._exclude_text):
            return "EXCLUDED_TEXT"
        return None


def _checked(name: str) -> str:
    if _TYPE.fullmatch(name) is None:
        raise BadSpecification("content_types", f"{name!r} is not a content type; write text/html or text/*")
    return name.lower()


def _names_of(content_type: str) -> tuple[str, str]:
    """Return the type as it is, and its pattern for any subtype, such as text/*."""
    name = content_type.lower()
    return name, f"{name.partition('/')[0]}/*"
