"""
Query results that several pages share if the pages are read at the same moment.

The bridge of live pages reads many pages right after each other within one `Moment`. Results that several of these
pages need are cached in this moment. Without a moment, every page reads the database itself.
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
    """The cached results, while pages are read together."""

    def __init__(self) -> None:
        self._kept: _Kept = {}

    @contextmanager
    def present(self) -> Iterator[None]:
        """Use the cached results of this moment in this thread until the block ends."""
        token = _PRESENT.set(self._kept)
        try:
            yield
        finally:
            _PRESENT.reset(token)


def kept(what: str) -> dict[Any, Any]:
    """
    Return the cached results of this kind, by their keys. The caller adds its own results. Outside of a moment nothing
    is cached.
    """
    present = _PRESENT.get()
    return {} if present is None else present.setdefault(what, {})


def cached_in_moment(read: Callable[[], _T]) -> Callable[[], _T]:
    """Wrap a function that reads the database: within a moment it runs once, and then returns its first result."""

    @wraps(read)
    def reading() -> _T:
        found: dict[None, _T] = kept(read.__qualname__)
        if None not in found:
            found[None] = read()
        return found[None]

    return reading
