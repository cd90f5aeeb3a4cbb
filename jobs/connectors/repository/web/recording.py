"""Requests that the history hears of: a fetcher as one document sees it."""

import time
from collections.abc import Mapping

from jobs.connectors.repository.base import Activity
from jobs.connectors.repository.web.fetch import Fetches, FetchFailed, IsWanted, Response


class RecordedFetches:
    """Asks as `fetcher` does, and records each request as a "fetch" of the document that needed it."""

    def __init__(self, fetcher: Fetches, activity: Activity) -> None:
        self._fetcher = fetcher
        self._activity = activity

    async def fetch(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        is_wanted: IsWanted,
        most_bytes: int | None = None,
        form: Mapping[str, str] | None = None,
    ) -> Response:
        """
        Raises:
            FetchFailed
        """
        began = time.monotonic()
        try:
            response = await self._fetcher.fetch(
                url, headers=headers, is_wanted=is_wanted, most_bytes=most_bytes, form=form
            )
        except FetchFailed as failure:
            self._record(url, began, code=failure.code, description=failure.detail)
            raise
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
