"""
Base classes of most connectors: seeds are documents, and jobs share nothing in a worker.

A connector of your own derives from these two classes and adds the rest (docs/writing-a-connector.md). A connector that
needs more implements the protocols of `kind.py` itself.
"""

import abc
from collections.abc import Mapping
from typing import Any, Final, cast

from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.base import Document
from jobs.connectors.repository.kind import (
    BadIdentifier,
    BinKind,
    Checked,
    Pace,
    RepositoryConnector,
    RepositoryKind,
    Runtime,
    Seeding,
    SourceSettings,
)
from jobs.connectors.schema import NOTHING, Schema
from jobs.lifecycle.scan import Model


class SimpleConnector(abc.ABC):
    """Processes the documents of one job in one worker. The source demands no interval."""

    max_depth: int | None = None

    def interval_of(self, identifier: str) -> float | None:
        return None

    @abc.abstractmethod
    async def process(self, document: Document, activity: Activity, pace: Pace) -> None:
        """Report exactly one ending of the document."""


class SimpleKind(abc.ABC):
    """
    Base class of a kind of source. A derived class sets the attributes without a value, and the schemas if it has
    fields.
    """

    name: str
    label: str
    bins: BinKind
    model: Model = Model.ALL
    link_types: tuple[str, ...] = ("link",)
    configuration: Schema = NOTHING
    specification: Schema = NOTHING

    @abc.abstractmethod
    def canonical(self, typed: str) -> str:
        """
        Return the identifier of the document that this address means.

        Raises:
            BadIdentifier: the address means no document.
        """

    @abc.abstractmethod
    def bin_of(self, identifier: str) -> str:
        """Return the bin of a document. Documents of one bin share a pace."""

    @abc.abstractmethod
    def open(self, values: Mapping[str, Any]) -> RepositoryConnector:
        """Return a connector for a job with these values, typed by the fields."""

    def check(self, source: SourceSettings) -> Checked:
        problems = []
        for typed in source.seeds:
            try:
                self.canonical(typed)
            except BadIdentifier as error:
                problems.append(str(error))
        return Checked({"seeds": problems} if problems else {})

    def status(self, configuration: Mapping[str, Any]) -> str:
        return ""

    def seed(self, source: SourceSettings, seeding: Seeding, *, last_version: str) -> str:
        for typed in source.seeds:
            identifier = self.canonical(typed)
            seeding.add(identifier, bin=self.bin_of(identifier))
        return ""

    def runtime(self) -> Runtime:
        return _Runtime(self)


class _Runtime(Runtime):
    def __init__(self, kind: SimpleKind) -> None:
        self._kind: Final = kind

    def open(self, source: SourceSettings) -> RepositoryConnector:
        return self._kind.open(source.read(cast("RepositoryKind", self._kind)))
