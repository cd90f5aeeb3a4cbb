"""
The contract of transformations, which are the stages of a job's pipeline.

A transformation gets a document between its source and the outputs. It changes the document, passes it on as it is, or
refuses it. A refused document is removed from all outputs behind this stage. The page of the document shows the reason.

A transformation is pure: the result depends only on the item and on the settings. It does no I/O. It is synchronous,
and several threads may use it at the same time. A kind that `runs_in` a process runs in a limited child process: a file
that kills, blocks or fills the child ends as EXTRACTION_FAILED, and the worker continues. A kind that asks a server
runs in the loop of the worker.

`description` names everything on which the result depends, apart from the item. It is part of the version of a document
in each output behind the stage. If it changes, the next run reads the documents again and writes them to these outputs.
A release that changes the results of a kind changes its description, for example by a number of its rules.

A plugin names a `TransformationKind` as its entry point, in the group `crawlctl.transformation_connectors`.
"""

import datetime as dt
import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from django.utils.functional import Promise

from jobs.connectors.metadata import Metadata
from jobs.connectors.schema import Schema

# The result code of a document whose stage failed, or whose child process died, took too long or used too much memory.
EXTRACTION_FAILED: Final = "EXTRACTION_FAILED"


@dataclass(frozen=True, slots=True)
class Item:
    """
    A document between two stages.

    `text` is "" as long as no stage has read the `body`. `body` has the bytes of the source, or None if the source keeps
    none. A stage that has read the body replaces it by None, or passes it on for a later stage. `content_type` is a
    media type in lower case without parameters, and `charset` the character set that the source names. `originated_at`
    is the date that the source gives. `component` names a part of the document, such as an attachment; "" is the
    document itself. `note` has sentences for people about what the text lacks, such as pages that cannot be read.
    """

    url: str
    content_type: str
    charset: str = ""
    text: str = ""
    body: bytes | None = None
    title: str = ""
    description: str = ""
    language: str = ""
    originated_at: dt.datetime | None = None
    metadata: Metadata = field(default_factory=dict)
    component: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """
    A document that a stage does not pass on. `code` is a result code in capitals, such as EXCLUDED_TYPE. `reason` is a
    sentence for people, with the values that decided it.
    """

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document before its body is read. `length` is in bytes, or None if the source does not give it."""

    url: str
    content_type: str
    length: int | None = None


class Unavailable(Exception):
    """
    A server or another service that a stage needs cannot answer now. The message is a sentence for people.

    This error says nothing about the document, which is read again after `retry_after` seconds.
    """

    def __init__(self, sentence: str, *, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(sentence)


class Transformation(Protocol):
    """A stage with its settings, which changes, passes on or refuses documents."""

    @property
    def description(self) -> str:
        """Return everything, apart from the item, on which the result of `transform` depends."""

    def reads(self, candidate: Candidate) -> bool:
        """
        True if this stage makes a text of the bytes of this document.

        The source then reads a body that it would skip otherwise, such as a PDF, and passes it on as `Item.body`.
        """

    def why_not(self, candidate: Candidate) -> Refused | None:
        """
        Return the reason why the stage refuses this document, if it is known without the body; otherwise None.
        """

    def transform(self, item: Item) -> Sequence[Item] | Refused:
        """
        Return the document, followed by its components if it has any, or the refusal of the document.

        The first item is the document itself. An item that the stage does not change is returned as it is. An exception
        is a defect: the document ends as EXTRACTION_FAILED. A stage that `runs_in` the loop implements
        `transform_async` instead.
        """


class AsyncTransformation(Transformation, Protocol):
    """A stage that asks a server: the worker awaits it in its event loop. It bounds its own requests."""

    async def transform_async(self, item: Item) -> Sequence[Item] | Refused:
        """
        Return the result, as `transform` does.

        Raises:
            Unavailable: the server does not answer now.
        """


class ReadsBodies(Protocol):
    """The part of a pipeline that a source uses: the types whose bytes the pipeline reads."""

    def reads(self, candidate: Candidate) -> bool:
        """
        True if a stage makes a text of the bytes of this document, and an output gets that text because no earlier
        stage refuses the document.
        """


class Runs(enum.Enum):
    """The place where a transformation runs."""

    # In a thread of the worker, or in its loop if the document is small: for filters and changes that take less than a
    # millisecond for most documents.
    IN_THREAD = enum.auto()
    # In a child process with limits of time and memory: for everything that parses a file.
    IN_PROCESS = enum.auto()
    # In the event loop of the worker, by `transform_async`: for stages that ask a server.
    IN_LOOP = enum.auto()


class Stage:
    """The defaults of a transformation: it reads no bytes, and refuses no document before its body is read."""

    def reads(self, candidate: Candidate) -> bool:
        return False

    def why_not(self, candidate: Candidate) -> Refused | None:
        return None


def no_problems(_values: Mapping[str, Any]) -> Mapping[str, list[str]]:
    """Return no problems: the kind has nothing to judge beyond its schema."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformationKind:
    """
    An installed kind of transformations, identified by its `name`.

    `settings` has the fields of a stage. `open` gets the typed values by name, in which absent fields are missing, and
    must not fail for values without problems. `judge` returns the problems that only the kind can find in typed values,
    by field.
    """

    name: str
    label: str | Promise
    help: str | Promise = ""
    settings: Schema
    open: Callable[[Mapping[str, Any]], Transformation]
    judge: Callable[[Mapping[str, Any]], Mapping[str, list[str]]] = no_problems
    runs_in: Runs = Runs.IN_THREAD

    def check(self, settings: object) -> dict[str, list[str]]:
        """
        Return the problems of a stage's settings, by field. Problems that concern no single setting have the field "".
        """
        if not isinstance(settings, Mapping):
            return {"": ["Settings are an object."]}
        found = self.settings.problems(settings)
        return found or {name: said for name, said in self.judge(self.settings.read(settings)).items() if said}
