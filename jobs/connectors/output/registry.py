"""The kinds of outputs there are, and what a connection may say to each."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Final, Protocol

from jobs.connectors.output.base import ConfigurationError, Output
from jobs.connectors.output.jsonl import JsonLinesConfiguration, JsonLinesOutput
from jobs.connectors.output.null import NullConfiguration, NullOutput
from jobs.connectors.output.search import SearchConfiguration, SearchOutput

# What a job writes to when nobody said anything else.
DEFAULT_OUTPUT: Final = "search"


Configuration = SearchConfiguration | JsonLinesConfiguration | NullConfiguration


@dataclass(frozen=True, slots=True)
class OutputKind:
    """
    A connector: the name that people see, its typed configuration, and how one is opened.

    One that `hears_of_ends` is told when a run has ended (`job_complete`); the others have nothing to do then.
    """

    label: str
    configuration: type[Any]
    open: Callable[..., Output]
    hears_of_ends: bool = False


OUTPUTS: Final[Mapping[str, OutputKind]] = {
    "search": OutputKind("Search index", SearchConfiguration, SearchOutput),
    "jsonl": OutputKind("JSON lines", JsonLinesConfiguration, JsonLinesOutput),
    "null": OutputKind("Nothing kept", NullConfiguration, NullOutput),
}


class StoredOutput(Protocol):
    """A row of the output connections, however it was read."""

    @property
    def id(self) -> int: ...

    @property
    def connector(self) -> str: ...

    @property
    def configuration(self) -> object: ...


@dataclass(frozen=True, slots=True)
class OutputWanted:
    """An output as a command names it: what its connection is to be, stored under `name`."""

    name: str
    connector: str
    configuration: dict[str, Any]


def is_installed(connector: str) -> bool:
    return connector in OUTPUTS


def hears_of_ends(connector: str) -> bool:
    """Whether an output of this connector is to be told of the end of a run; one that is not installed is not."""
    return is_installed(connector) and OUTPUTS[connector].hears_of_ends


def check_configuration(connector: str, configuration: object) -> Configuration:
    """
    Return the typed configuration of a connection.

    Raises:
        ConfigurationError: there is no such connector, a key is unknown or missing, or a value cannot be.
    """
    kind = OUTPUTS.get(connector)
    if kind is None:
        raise ConfigurationError("connector", f"there is no output {connector!r}; there are {', '.join(OUTPUTS)}")
    if not isinstance(configuration, Mapping):
        raise ConfigurationError("configuration", "must be an object")
    known = {field.name: field for field in fields(kind.configuration)}
    for name in configuration:
        if name not in known:
            there_are = f"there are {', '.join(known)}" if known else f"{connector} has nothing to configure"
            raise ConfigurationError(str(name), f"unknown; {there_are}")
    for name, field in known.items():
        if name not in configuration and field.default is MISSING:
            raise ConfigurationError(name, "missing")
    typed: Configuration = kind.configuration(**configuration)
    return typed


def open_output(stored: StoredOutput) -> Output:
    """
    Set up the output of a stored connection; nothing is opened or written yet.

    Raises:
        ConfigurationError: the connection cannot be what it says.
    """
    configuration = check_configuration(stored.connector, stored.configuration)
    return OUTPUTS[stored.connector].open(id=stored.id, configuration=configuration)


def parse_output(text: str) -> OutputWanted:
    """
    Read what a command was given: `search`, `null` or `jsonl:PATH`.

    A relative path is one from here, and two spellings of one file are one output.

    Raises:
        ConfigurationError: it is none of these.
    """
    connector, colon, path = text.partition(":")
    if connector == "jsonl" and path:
        file = Path(path)
        # What cannot be a path is left to the check below, which has a sentence for it.
        if path.isprintable() and not path.endswith("/"):
            path = str(file.parent.resolve() / file.name)
        wanted = OutputWanted(f"jsonl:{path}", "jsonl", {"path": path})
    elif connector in {"search", "null"} and not colon:
        wanted = OutputWanted(connector, connector, {})
    else:
        raise ConfigurationError("output", f"there is no output {text!r}; write search, null or jsonl:PATH")
    check_configuration(wanted.connector, wanted.configuration)
    return wanted
