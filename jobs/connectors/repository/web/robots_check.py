"""The check of robots.txt before the request for each document."""

import logging
from typing import Final

from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.base import Document, RetryLimit
from jobs.connectors.repository.kind import Pace
from jobs.connectors.repository.web.fetch import Fetches, FetchFailed
from jobs.connectors.repository.web.robots import RobotsAnswer, RobotsKind, RobotsTable
from jobs.connectors.repository.web.specification import WebSpecification
from jobs.connectors.repository.web.urls import origin_of

logger = logging.getLogger(__name__)

# The number of retries is not limited, because the specification limits their time.
_NO_ATTEMPTS: Final = RetryLimit(cause="robots")


class RobotsCheck:
    """The check of one job's documents. The jobs of a process share `robots`."""

    def __init__(self, robots: RobotsTable, specification: WebSpecification) -> None:
        self._robots = robots
        self._name = specification.robots_name_asked
        self._headers = {"User-Agent": specification.user_agent}
        self._longest_wait = specification.robots_wait

    async def allows(self, document: Document, activity: Activity, pace: Pace, fetcher: Fetches) -> bool:
        """True if robots.txt allows a request for the document. Otherwise its ending has been reported."""
        origin = origin_of(document.identifier)
        try:
            answer = await self._robots.ask(origin, fetcher=fetcher, headers=self._headers, pace=pace)
        except FetchFailed as failure:
            if failure.code != "TOO_SLOW":
                raise
            # The document itself was not requested. A robots.txt that is too slow is retried, like one that does not
            # arrive.
            raise FetchFailed("DEADLINE", f"robots.txt: {failure.detail}") from failure
        if answer.kind is RobotsKind.UNREACHABLE:
            self._wait(answer, origin, document, activity)
            return False
        try:
            allowed = self._robots.rules(origin, name=self._name).allows(document.identifier)
        except Exception:
            # The rules of the site are unknown, so the document must not be requested.
            logger.exception("defect while reading robots.txt of %s", origin)
            activity.failed(code="PROTOCOL")
            return False
        if not allowed:
            activity.no_document(code="ROBOTS")
        return allowed

    def _wait(self, answer: RobotsAnswer, origin: str, document: Document, activity: Activity) -> None:
        waited = max(document.failing_for, self._robots.unreachable_for(origin))
        left = self._longest_wait - waited
        if left <= 0:
            activity.out_of_reach(code="ROBOTS_UNREACHABLE")
            return
        after = max(answer.retry_after or 0.0, float(2 ** min(document.failures_of(_NO_ATTEMPTS.cause), 4)))
        after = max(min(after, left), 1.0)
        activity.back_off(after)
        activity.retry_later(code="ROBOTS_UNREACHABLE", after=after, limit=_NO_ATTEMPTS)
