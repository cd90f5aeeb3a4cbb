"""Lag of the search index behind the documents that were written to it."""

import datetime as dt
from collections.abc import Iterable
from typing import Final

from jobs.models import SearchDocument
from jobs.queries.frequent_queries import FrequentQuery
from nodes.database.shared_results import cached_in_moment

_NOT_FOUND_YET: Final = FrequentQuery(
    lambda: SearchDocument.objects.filter(vector=None).order_by("written_at").values_list("written_at")[:1]
)


@cached_in_moment
def read_search_lag() -> dt.datetime | None:
    """Return the time of the oldest text that is not in the index yet; None if the index is complete."""
    return next((written_at for (written_at,) in _NOT_FOUND_YET.rows()), None)


def longest_lag(lags: Iterable[dt.datetime | None]) -> dt.datetime | None:
    """
    Return the time of the oldest text that is not in the index of its partition yet; None if all indexes are complete.
    """
    return min((lag for lag in lags if lag is not None), default=None)
