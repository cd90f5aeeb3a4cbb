"""
Checks of proofs. Each check sends up to two requests, so the number of checks is limited for each host and for the
server.
"""

import datetime as dt
import threading
import time
from typing import Final

from jobs.models import WebmasterLimit
from jobs.settings.webmasters import KEEP_LIMITS
from jobs.verbs import webmasters as verbs
from jobs.webmasters.dns_proof import problem_of_record
from jobs.webmasters.figures import forget_figures
from jobs.webmasters.file_proof import problem_of_file
from jobs.webmasters.limit_requests import LimitRequest, file_path, name_without_port, record_name
from nodes.database.clock import read_clock
from nodes.errors import Refused
from nodes.settings.running import current

# Shortest time between two checks of one host, and between two checks of a process (seconds).
GAP_OF_HOST: Final = 10.0
GAP_OF_PROCESS: Final = 0.5
# Largest number of simultaneous checks. Each check occupies a thread of the web server.
_AT_ONCE: Final = 2


Proof = WebmasterLimit.Proof


class TooOften(Refused):
    """A check came too soon after the check before it."""

    code = "too_often"


class _Pace:
    """Limits the rate of checks: keeps the moments of the last checks of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_host: dict[str, float] = {}
        self._last = float("-inf")

    def begin(self, host: str) -> None:
        """
        Note the begin of a check.

        Raises:
            TooOften: the last check of this host, or of this process, was too recent.
        """
        with self._lock:
            now = time.monotonic()
            self._by_host = {name: at for name, at in self._by_host.items() if at + GAP_OF_HOST > now}
            if host in self._by_host or self._last + GAP_OF_PROCESS > now:
                raise TooOften(f"A check was made a moment ago. Try again in {GAP_OF_HOST:g} seconds.")
            self._by_host[host] = self._last = now

    def forget(self) -> None:
        with self._lock:
            self._by_host, self._last = {}, float("-inf")


_PACE: Final = _Pace()
_PLACES: Final = threading.BoundedSemaphore(_AT_ONCE)
forget_checks: Final = _PACE.forget


def check(wanted: LimitRequest, proof: Proof) -> str:
    """
    Check a proof. If it is valid, apply the requested limit and return ''. Otherwise, return the problem as a sentence.

    Raises:
        TooOften: the last check was too recent.
        Refused: the limit cannot be applied.
        ControlledElsewhere: this is not the control partition.
    """
    if not _PLACES.acquire(blocking=False):
        raise TooOften("Other checks are running. Try again in a few seconds.")
    try:
        _PACE.begin(name_without_port(wanted.host))
        problem = _problem(wanted, proof)
    finally:
        _PLACES.release()
    if not problem:
        _put_in_force(wanted, proof)
        forget_figures()
    return problem


def _problem(wanted: LimitRequest, proof: Proof) -> str:
    if proof is Proof.FILE:
        return problem_of_file(wanted.host, file_path(wanted), wanted.token)
    name = record_name(wanted.host)
    return (
        problem_of_record(name, wanted.token) if name else "A host that is an address has no DNS record. Use the file."
    )


def _put_in_force(wanted: LimitRequest, proof: Proof) -> None:
    if wanted.lifts:
        verbs.lift(wanted.host, proof=proof)
        return
    lasts = dt.timedelta(days=current()[KEEP_LIMITS])
    verbs.put_in_force(wanted.host, gap=wanted.gap, proof=proof, token=wanted.token, lasts=lasts, now=read_clock())
