"""
The kinds of outputs, and the configuration of each.

Plugins are entry points of the group `crawlctl.output_connectors`, or named in the setting CRAWLCTL_OUTPUTS. A kind
that cannot be found is *missing*: its jobs wait until it is back.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from jobs.connectors.output.base import Output
from jobs.connectors.output.jsonl import JSON_LINES, JsonLinesConfiguration, JsonLinesOutput
from jobs.connectors.output.lost_lines import memory_of
from jobs.connectors.output.null import NullConfiguration, NullOutput
from jobs.connectors.output.search import SearchConfiguration, SearchOutput
from jobs.connectors.plugins import added
from jobs.connectors.roots import why_not_written
from jobs.connectors.schema import NOTHING, BadSpecification, Schema

# The output of a job that names no output.
DEFAULT_OUTPUT: Final = "search"


@dataclass(frozen=True, slots=True)
class OutputKind:
    """
    A kind of output: its name, its label, its configuration fields, and the functions that read a configuration and
    open an output.

    `read` converts the values, given by name and typed, to the `configuration` for `open`. It raises BadSpecification
    for invalid values. Only if `hears_of_ends` is true, `job_complete` is called at the end of a run.
    """

    name: str
    label: str | Promise
    configuration: Schema
    read: Callable[..., Any]
    open: Callable[..., Output]
    hears_of_ends: bool = False


_BUILT_IN: Final = (
    OutputKind("search", _("Search index"), NOTHING, SearchConfiguration, SearchOutput),
    OutputKind("jsonl", _("JSON lines"), JSON_LINES, JsonLinesConfiguration, JsonLinesOutput),
    OutputKind("null", _("No output (discard)"), NOTHING, NullConfiguration, NullOutput),
)
_GROUP: Final = "crawlctl.output_connectors"


def installed() -> Mapping[str, OutputKind]:
    """Return all kinds by name, the built-in ones first."""
    return _load(settings.CRAWLCTL_OUTPUTS)


@functools.cache
def _load(named: tuple[str, ...]) -> Mapping[str, OutputKind]:
    found = {kind.name: kind for kind in _BUILT_IN}
    for kind in added(group=_GROUP, named=named):
        found.setdefault(kind.name, kind)
    return found


class StoredOutput(Protocol):
    """The columns of an output connection, from the ORM or from a query."""

    @property
    def id(self) -> int: ...

    @property
    def connector(self) -> str: ...

    @property
    def configuration(self) -> object: ...

    @property
    def is_confined(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class OutputWanted:
    """An output as a command names it: the facts of its connection, which is stored under `name`."""

    name: str
    connector: str
    configuration: dict[str, Any]


def is_installed(connector: str) -> bool:
    return connector in installed()


def hears_of_ends(connector: str) -> bool:
    """True if `job_complete` must be called for outputs of this connector; False if it is not installed."""
    kind = installed().get(connector)
    return kind is not None and kind.hears_of_ends


def check_configuration(connector: str, configuration: object) -> Any:  # noqa: ANN401 (each connector's own)
    """
    Return the typed configuration of a connection.

    Raises:
        BadSpecification: the connector is unknown, a key is unknown or missing, or a value is invalid.
    """
    kind = installed().get(connector)
    if kind is None:
        raise BadSpecification(
            "connector", f"there is no output connector {connector!r}; choose one of: {', '.join(installed())}"
        )
    if not isinstance(configuration, Mapping):
        raise BadSpecification("configuration", "must be an object")
    return kind.read(**kind.configuration.read(configuration))


def open_output(stored: StoredOutput) -> Output:
    """
    Construct the output of a stored connection. Nothing is opened or written yet.

    Raises:
        BadSpecification: the stored configuration is invalid.
    """
    configuration = check_configuration(stored.connector, stored.configuration)
    output = installed()[stored.connector].open(id=stored.id, configuration=configuration)
    if isinstance(output, JsonLinesOutput):
        output.remember_in(memory_of(stored.id, output.path))
        if stored.is_confined:
            output.confine(why_not_written)
    return output


def parse_output(text: str) -> OutputWanted:
    """
    Parse a command's argument: `search`, `null` or `jsonl:PATH`.

    A relative path starts at the working directory. Two spellings of one file are one output.

    Raises:
        BadSpecification: the text is none of these.
    """
    connector, colon, path = text.partition(":")
    if connector == "jsonl" and path:
        file = Path(path)
        # An invalid path is not changed here, so that the check below reports it.
        if path.isprintable() and not path.endswith("/"):
            path = str(file.parent.resolve() / file.name)
        wanted = OutputWanted(f"jsonl:{path}", "jsonl", {"path": path})
    elif connector in {"search", "null"} and not colon:
        wanted = OutputWanted(connector, connector, {})
    else:
        raise BadSpecification("output", f"there is no output {text!r}; write search, null, jsonl:PATH or jsonl:-")
    check_configuration(wanted.connector, wanted.configuration)
    return wanted
