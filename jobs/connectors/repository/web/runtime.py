"""The state that web jobs share in one process: connections, and robots.txt answers."""

import datetime as dt
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg

from jobs.connectors.repository.kind import Database, Runtime, SourceSettings
from jobs.connectors.repository.web.connector import WebConnector
from jobs.connectors.repository.web.fetch import Fetcher
from jobs.connectors.repository.web.robots import RobotsAnswer, RobotsKind, RobotsTable
from jobs.connectors.repository.web.specification import WebSpecification
from jobs.connectors.repository.web.stored_robots import read_robots, write_robots
from jobs.connectors.repository.web.urls import origin_of

_ROBOTS_LIFETIME: Final = dt.timedelta(hours=24)


class WebRuntime(Runtime):
    """The shared state of web jobs. `reads` is a function that returns the specification of a job's settings."""

    def __init__(self, reads: Callable[[SourceSettings], WebSpecification]) -> None:
        self._reads = reads
        self.robots = RobotsTable()
        self._fetchers: dict[bool, Fetcher] = {}
        # Answers that this worker fetched, until they are certainly stored: a failed write is repeated.
        self._to_store: dict[str, RobotsAnswer] = {}

    def open(self, source: SourceSettings) -> WebConnector:
        specification = self._reads(source)
        fetcher = self.fetcher(allow_private_networks=specification.allow_private_networks)
        return self.new_connector(
            specification, fetcher=fetcher, robots=self.robots, keeps_exchanges=source.keeps_archive
        )

    def new_connector(self, specification: WebSpecification, **options: Any) -> WebConnector:
        """Return the connector that fetches by a specification."""
        return WebConnector(specification, **options)

    def fetcher(self, *, allow_private_networks: bool) -> Fetcher:
        """Return the fetcher with or without access to private networks. It is created at the first use."""
        if allow_private_networks not in self._fetchers:
            self._fetchers[allow_private_networks] = Fetcher(allow_private_networks=allow_private_networks)
        return self._fetchers[allow_private_networks]

    async def prepare(self, documents: Mapping[str, float], database: Database) -> None:
        """
        Load the robots.txt answers that other workers fetched since the run began. Missing ones are fetched later.
        """
        wanted: dict[str, float] = {}
        for url, began in documents.items():
            if not (origin := _origin_of(url)):
                continue
            self.robots.forget_older(origin, than=began)
            if self.robots.known(origin) is None:
                wanted[origin] = max(began, wanted.get(origin, began))
        if not wanted:
            return
        now = time.monotonic()
        for stored in await database.run(partial(read_robots, origins=wanted)):
            if now - stored.age >= wanted[stored.origin]:
                answer = RobotsAnswer(RobotsKind(stored.answer["kind"]), text=stored.answer["text"])
                self.robots.learn(stored.origin, answer, lives_for=stored.lives_for, age=stored.age)

    @property
    def has_news(self) -> bool:
        return self.robots.has_fetched or bool(self._to_store)

    def address_of(self, identifier: str) -> str | None:
        host = urlsplit(identifier).hostname or ""
        found = (fetcher.address_of(host) for fetcher in self._fetchers.values())
        return next((address for address in found if address is not None), None)

    async def find_address(self, identifier: str) -> str | None:
        host = urlsplit(identifier).hostname or ""
        fetcher = next(iter(self._fetchers.values()), None)
        return None if fetcher is None else await fetcher.find_address(host)

    def store(self, connection: psycopg.Connection[Any]) -> Callable[[str], bool]:
        self._to_store |= self.robots.take_fetched()
        if not self._to_store:
            return super().store(connection)
        stored_origins = frozenset(self._to_store)
        answers = {
            origin: {"kind": answer.kind.value, "text": answer.text} for origin, answer in self._to_store.items()
        }
        write_robots(connection, answers=answers, lifetime=_ROBOTS_LIFETIME)
        self._to_store.clear()
        return lambda url: _origin_of(url) in stored_origins

    async def close(self) -> None:
        for fetcher in self._fetchers.values():
            await fetcher.close()


def _origin_of(url: str) -> str:
    """Return the origin of an address; '' for an identifier that is not an address."""
    try:
        return origin_of(url)
    except ValueError:
        return ""
