"""Attached processes: those that end when the process that started them is gone, however it went."""

import os
import threading
from collections.abc import Callable


def call_when_orphaned(callback: Callable[[], object]) -> None:
    """
    Call `callback`, in a thread, when standard input ends: whoever held its other end is gone.

    By descriptor, because a thread that sleeps in sys.stdin holds its lock when the interpreter ends,
    which is fatal; in a thread, because epoll cannot wait for a file or /dev/null.
    """

    def read_to_the_end() -> None:
        while os.read(0, 4096):
            pass
        callback()

    threading.Thread(target=read_to_the_end, name="attachment", daemon=True).start()
