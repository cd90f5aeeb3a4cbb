"""The placeholder of a connector that is not installed here. It postpones all documents, so none is lost."""

from typing import Final

from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.base import Document
from jobs.connectors.repository.kind import BinKind, Pace, Runtime, SourceSettings

# Delay until a document is tried again, perhaps by a worker that has the connector (seconds).
_PUT_OFF: Final = 10.0

# A missing connector reports no references, so no bin with this namespace is ever created.
MISSING_BINS: Final = BinKind(namespace="", asks_first=False, requests=1, gap=0.0)


class MissingConnector:
    max_depth: Final = None

    def interval_of(self, identifier: str) -> float | None:
        return None

    async def process(self, document: Document, activity: Activity, pace: Pace) -> None:
        activity.retry_later(code="NO_CONNECTOR", after=_PUT_OFF)


class MissingRuntime(Runtime):
    def open(self, source: SourceSettings) -> MissingConnector:
        return MissingConnector()
