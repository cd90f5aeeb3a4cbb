"""
What several pages show is read once for all that are read at one moment.

Whoever reads many pages right after each other (the live pages' bridge) does so `at` one `Moment`: what one of them has read
that others need, too, is kept for these. Outside of a moment everything is read anew.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Final, TypeVar

_T = TypeVar("_T")
_Kept = dict[str, dict[Any, Any]]

_PRESENT: Final[ContextVar[_Kept | None]] = ContextVar("what was read at this moment", default=None)


class Moment:
    """What was read so far, while pages are read together."""

    def __init__(self) -> None:
        self._kept: _Kept = {}

    @contextmanager
    def present(self) -> Iterator[None]:
        """Read what was not yet read, in this thread, until the block ends."""
        token = _PRESENT.set(self._kept)
        try:
            yield
        finally:
            _PRESENT.reset(token)


def kept(what: str) -> dict[Any, Any]:
    """What of this kind was read at this moment, by its key, to be looked into and added to."""
    present = _PRESENT.get()
    return {} if present is None else present.setdefault(what, {})


def once_a_moment(read: Callable[[], _T]) -> Callable[[], _T]:
    """Let a function that reads return at one moment what it has read before."""

    @wraps(read)
    def reading() -> _T:
        found: dict[None, _T] = kept(read.__qualname__)
        if None not in found:
            found[None] = read()
        return found[None]

    return reading
