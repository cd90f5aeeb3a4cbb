"""A function that the event loop calls at a given moment."""

import asyncio
from collections.abc import Callable
from typing import Any


class Timer:
    """
    A call of a function at the moment `at`.

    This object keeps the moment, because uvloop's handle does not report the moment of a call that is due within half a
    millisecond.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, at: float, function: Callable[..., Any], *arguments: Any
    ) -> None:
        self.at = at
        self._handle = loop.call_at(at, function, *arguments)

    def cancel(self) -> None:
        self._handle.cancel()
