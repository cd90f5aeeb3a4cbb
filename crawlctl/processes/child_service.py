"""
A service as a child of a process with other work: a thread restarts the service if it ends, and it ends with its
caller.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from crawlctl.processes.supervisor import Service, Supervisor

_TICK: Final = 0.2
_STOPS_WITHIN: Final = 5.0

logger = logging.getLogger(__name__)


@contextmanager
def run_beside(service: Service) -> Iterator[None]:
    """
    Run a service until the block ends. If the service dies, log that and start it again.

    The death of the service does not affect this process. The death of this process ends the service, even after a
    kill.
    """
    supervisor = Supervisor(write_line=logger.error)
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
            # The system can start no process now. The service is still due at the next tick.
            logger.error("a service cannot be started: %s", error)  # noqa: TRY400 - no defect of ours
            stopping.wait(1.0)
