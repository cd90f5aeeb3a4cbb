"""A service beside the work of this process: it is tended by a thread, and ends with who asked for it."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from crawlctl.supervisor import Service, Supervisor

_TICK: Final = 0.2
_STOPS_WITHIN: Final = 5.0

logger = logging.getLogger(__name__)


@contextmanager
def run_beside(service: Service) -> Iterator[None]:
    """
    Run a service until the block ends; whenever it dies that is logged, and it is started again.

    Its death touches nothing in this process, and the death of this process ends it, however that comes.
    """
    supervisor = Supervisor(say=logger.error)
    supervisor.start(service)
    stopping = threading.Event()
    thread = threading.Thread(target=_tend, args=(supervisor, stopping), name=f"tending {service.name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
        supervisor.stop(within=_STOPS_WITHIN)


def _tend(supervisor: Supervisor, stopping: threading.Event) -> None:
    while not stopping.wait(_TICK):
        try:
            supervisor.tend()
        except OSError as error:
            # No process can be had just now; it is still due at the next tick.
            logger.error("a service cannot be started: %s", error)  # noqa: TRY400 - no defect of ours
            stopping.wait(1.0)
