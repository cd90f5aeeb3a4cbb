"""The checks of a connection before it is stored: its name, its configuration, and the file of an output."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from django.db import connection as database

from jobs.connectors.confined import why_output_outside
from jobs.connectors.output.base import WritesFile
from jobs.connectors.output.registry import check_configuration, installed, open_output
from jobs.connectors.repository import registry
from jobs.connectors.repository.kind import SourceSettings
from jobs.connectors.schema import NOTHING, BadSpecification, Schema
from jobs.models import OutputConnection, RepositoryConnection
from nodes.errors import Invalid, NameTaken

Kind = type[RepositoryConnection] | type[OutputConnection]

# The lock that a transaction holds when it compares the files of all outputs.
_ONE_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(hashtext('crawlctl files of outputs'))"


def check_name(kind: Kind, name: str) -> None:
    """
    Check a new name of a connection.

    Raises:
        Invalid: the name is empty, or has characters that cannot be printed.
        NameTaken: another connection has the name.
    """
    if not name.strip() or not name.isprintable():
        raise Invalid({"name": ["The name of a connection needs printable characters, not only blanks."]})
    if kind.objects.filter(name=name).exists():
        raise NameTaken("connection", name)


def check_fields(kind: Kind, *, connector: str, configuration: Mapping[str, Any]) -> None:
    """
    Check a configuration by its connector.

    Raises:
        Invalid: the connector is not installed, or refuses the configuration. The error has the problems by field.
    """
    problems = _CHECKS[kind](connector, configuration)
    if problems:
        raise Invalid(problems)


def as_stored(kind: Kind, *, connector: str, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checked configuration with its secrets encrypted."""
    return schema_of(kind, connector).sealed(configuration)


def schema_of(kind: Kind, connector: str) -> Schema:
    """Return the fields of a connector; none if it is not installed."""
    if kind is OutputConnection:
        return installed()[connector].configuration if connector in installed() else NOTHING
    try:
        return registry.find(connector).configuration
    except registry.UnknownConnector:
        return NOTHING


def _check_repository(connector: str, configuration: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    try:
        kind = registry.find(connector)
    except registry.UnknownConnector as error:
        return {"connector": [str(error)]}
    # The connector checks the connection with a job that has no settings, so all problems are about the connection.
    problems = registry.check(kind, SourceSettings(configuration=configuration, is_confined=True)).problems
    known = {*(field.name for field in kind.configuration.fields), *configuration}
    return {f"configuration.{name}" if name in known else "configuration": said for name, said in problems.items()}


def _check_output(connector: str, configuration: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    if (kind := installed().get(connector)) is not None and isinstance(configuration, Mapping):
        problems = kind.configuration.problems(configuration)
        if problems:
            return {f"configuration.{name}": said for name, said in problems.items()}
    try:
        check_configuration(connector, configuration)
        if why := why_output_outside(connector, configuration):
            return {"configuration.path": [why]}
    except BadSpecification as error:
        about = error.field if error.field in {"connector", "configuration"} else f"configuration.{error.field}"
        return {about: [f"{error}."]}
    return {}


_CHECKS: Final[Mapping[type, Callable[[str, Mapping[str, Any]], Mapping[str, Sequence[str]]]]] = {
    RepositoryConnection: _check_repository,
    OutputConnection: _check_output,
}


def check_file(output: OutputConnection) -> None:
    """
    Check that no other output writes the file of this one. Until the caller's transaction ends, no other output can get
    it.

    Raises:
        Invalid: another output writes the file.
    """
    lock_files()
    if why := why_file_taken(output):
        raise Invalid({"configuration.path": [why]})


def lock_files() -> None:
    """
    Take the lock for comparisons of the files of outputs, so that no other transaction compares them before this one
    ends.
    """
    with database.cursor() as cursor:
        cursor.execute(_ONE_AT_A_TIME)


def why_file_taken(output: OutputConnection) -> str:
    """
    Return the reason why an output must not write its file, as a sentence; "" if it may, or writes none.

    If two outputs wrote one file, a document that is removed from one output would be missing in the file for both.
    """
    file = _file_of(output)
    if file is None:
        return ""
    others = OutputConnection.objects.exclude(pk=output.pk).order_by("name")
    taken = next((other.name for other in others if _file_of(other) == file), None)
    return (
        ""
        if taken is None
        else f"The output {taken} writes {file} already. Choose another file, or give jobs that output."
    )


def _file_of(output: OutputConnection) -> Path | None:
    """
    Return the normal path of the file that an output writes; None if it writes none, or its configuration is invalid.
    """
    try:
        opened = open_output(output)
    except BadSpecification:
        return None
    return Path(os.path.realpath(opened.path.parent)) / opened.path.name if isinstance(opened, WritesFile) else None
