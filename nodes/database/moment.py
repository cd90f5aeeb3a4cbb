"""
Readings that several pages share, when the pages are read at one moment.

The live pages' bridge reads many pages right after each other `at` one `Moment`: readings that several of them need
are cached for it. Without a moment, every page reads the database itself.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Final, TypeVar

_T = TypeVar("_T")
_Kept = dict[str, dict[Any, Any]]

_PRESENT: Final[ContextVar[_Kept | None]] = ContextVar("readings of this moment", default=None)


class Moment:
    """The readings so far, while pages are read together."""

    def __init__(self) -> None:
        self._kept: _Kept = {}

    @contextmanager
    def present(self) -> Iterator[None]:
        """Use this moment's readings in this thread until the block ends."""
        token = _PRESENT.set(self._kept)
        try:
            yield
        finally:
            _PRESENT.reset(token)


def kept(what: str) -> dict[Any, Any]:
    """Return the readings of this kind at this moment, by their keys; the caller may add to them."""
    present = _PRESENT.get()
    return {} if present is None else present.setdefault(what, {})


def once_a_moment(read: Callable[[], _T]) -> Callable[[], _T]:
    """Wrap a reading function so that it returns its first result for the rest of a moment."""

    @wraps(read)
    def reading() -> _T:
        found: dict[None, _T] = kept(read.__qualname__)
        if None not in found:
            found[None] = read()
        return found[None]

    return reading
