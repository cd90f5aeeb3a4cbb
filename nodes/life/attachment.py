"""Attached processes: they end when the process that started them ends, even after a kill."""

import os
import threading
from collections.abc import Callable


def call_when_orphaned(callback: Callable[[], object]) -> None:
    """
    Call `callback`, in a thread, when standard input ends: the process at its other end has exited.

    The thread reads the descriptor: a thread that sleeps in sys.stdin holds its lock when the interpreter ends, which
    is fatal. It is a thread because epoll cannot wait for a file or /dev/null.
    """

    def read_to_the_end() -> None:
        while os.read(0, 4096):
            pass
        callback()

    threading.Thread(target=read_to_the_end, name="attachment", daemon=True).start()
