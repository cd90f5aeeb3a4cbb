"""What stands in for a source that cannot be set up here: its documents are put off, and nothing is lost."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import psycopg

from jobs.connectors.repository.base import Activity, Document
from jobs.connectors.repository.kind import Asked, BinKind, Database, Pace

# Seconds until a document is tried again: by another worker, or when the connector is back.
_PUT_OFF: Final = 10.0

# Its documents name nothing, so no such bin is ever made.
MISSING_BINS: Final = BinKind(namespace="", asks_first=False, requests=1, gap=0.0)


class MissingConnector:
    max_depth: Final = None

    def interval_of(self, identifier: str) -> float | None:
        return None

    async def process(self, document: Document, activity: Activity, pace: Pace) -> None:
        activity.retry_later(code="NO_CONNECTOR", after=_PUT_OFF)


class MissingRuntime:
    def open(self, asked: Asked) -> MissingConnector:
        return MissingConnector()

    async def prepare(self, documents: Mapping[str, float], database: Database) -> None:
        return

    has_news = False

    def store(self, connection: psycopg.Connection[Any]) -> Callable[[str], bool]:
        return _is_about_nothing

    async def close(self) -> None:
        return


def _is_about_nothing(_identifier: str) -> bool:
    return False
