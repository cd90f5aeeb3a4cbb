"""Measures how long texts wait until a search can find them, as any client of the database sees it during a crawl."""

import threading
from typing import Self

import psycopg

_INTERVAL = 0.25

# Query for the age of the text that has waited longest. A count of a long backlog is slow, so it is made only at the
# end.
_OLDEST = """
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(written_at)), 0)::float FROM jobs_searchdocument WHERE vector IS NULL
"""
_LEFT = "SELECT count(*) FROM jobs_searchdocument WHERE vector IS NULL"


class Lag:
    """An observer while the block runs. `longest` is in seconds; `left` counts the texts not findable at its end."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lag", daemon=True)
        self.longest = 0.0
        self.left = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with psycopg.connect(self._address, autocommit=True) as connection:
            is_over = False
            while not is_over:
                is_over = self._stop.wait(_INTERVAL)
                (oldest,) = connection.execute(_OLDEST).fetchall()
                self.longest = max(self.longest, oldest[0])
            (left,) = connection.execute(_LEFT).fetchall()
            self.left = left[0]
