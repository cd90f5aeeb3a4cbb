"""Reading ahead: a thread reads the next rows from the database while the caller processes the rows before them."""

import queue
import threading
from collections.abc import Generator, Iterable
from typing import Final, TypeVar

_T = TypeVar("_T")

# Largest number of items that wait for the caller.
_MOST: Final = 2


class _End:
    """The end of the items, with the error that ended them."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error


def read_ahead(items: Iterable[_T]) -> Generator[_T]:
    """
    Yield the items. A separate thread reads at most two items ahead.

    The connection of the items belongs to the thread until this iterator ends or is closed. An error of the items is
    raised here.
    """
    waiting: queue.Queue[_T | _End] = queue.Queue(_MOST)
    is_over = threading.Event()

    def read() -> None:
        error: Exception | None = None
        try:
            for item in items:
                waiting.put(item)
                if is_over.is_set():
                    break
        except Exception as raised:  # noqa: BLE001 (the caller gets it)
            error = raised
        waiting.put(_End(error))

    reader = threading.Thread(target=read, name="read-ahead", daemon=True)
    reader.start()
    item: _T | _End | None = None
    try:
        while not isinstance(item := waiting.get(), _End):
            yield item
    finally:
        is_over.set()
        while not isinstance(item, _End):
            item = waiting.get()
        reader.join()
    if item.error is not None:
        raise item.error
