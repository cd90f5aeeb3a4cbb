"""A fetcher that reports a document's requests to the history and the pace."""

import time
from collections.abc import Mapping

from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.kind import Pace
from jobs.connectors.repository.web.fetch import Fetcher, FetchFailed, IsWanted, Response


class RecordedFetches:
    """
    Fetches with `fetcher`, and records each request as a "fetch" of the document that needed it.

    The pace is notified when a request has left, because the source's minimum gap begins at that moment. That may be
    long after the permission, because a connection may have to be opened first.

    All requests that the document needs may take `seconds` together, including robots.txt, logins and redirects.
    Waiting for the pace does not count.
    """

    def __init__(self, fetcher: Fetcher, activity: Activity, pace: Pace, *, seconds: float) -> None:
        self._fetcher = fetcher
        self._seconds_left = seconds
        self._activity = activity
        self._pace = pace

    async def fetch(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        is_wanted: IsWanted,
        most_bytes: int | None = None,
        form: Mapping[str, str] | None = None,
        keeps_exchange: bool = False,
    ) -> Response:
        """
        Fetch an address and return the response, with the raw exchange if `keeps_exchange`.

        Raises:
            FetchFailed: the request gave no complete response.
        """
        if self._seconds_left <= 0:
            raise FetchFailed("TOO_SLOW", "all requests of this document together took too long")
        began = time.monotonic()
        self._pace.request_leaves(url)
        try:
            response = await self._fetcher.fetch(
                url,
                headers=headers,
                is_wanted=is_wanted,
                most_bytes=most_bytes,
                form=form,
                keeps_exchange=keeps_exchange,
                most_seconds=self._seconds_left,
                before_sent=self._pace.request_goes,
                on_sent=self._pace.request_sent,
                on_read=self._pace.bytes_read,
            )
        except FetchFailed as failure:
            self._record(url, began, code=failure.code, description=failure.detail)
            raise
        finally:
            self._pace.request_sent()
            self._seconds_left -= time.monotonic() - began
        self._record(url, began, code=str(response.status), size=response.bytes_read)
        return response

    def _record(self, url: str, began: float, *, code: str, description: str = "", size: int = 0) -> None:
        self._activity.record(
            "fetch",
            began=began,
            seconds=time.monotonic() - began,
            bytes=size,
            entity=url,
            result_code=code,
            result_description=description,
        )
