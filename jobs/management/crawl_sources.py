"""
Finds the source that `manage.py crawl` reads: the connector for its addresses, and a connection with this connector.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from jobs.connectors.repository import registry
from jobs.connectors.repository.archive.kind import ARCHIVE
from jobs.connectors.repository.archive.places import read_place
from jobs.connectors.repository.base import hash_of
from jobs.connectors.repository.filesystem.kind import FILE_SYSTEM
from jobs.connectors.repository.filesystem.paths import path_of
from jobs.connectors.repository.kind import BadIdentifier, RepositoryKind, SourceSettings
from jobs.connectors.repository.web.kind import WEB
from jobs.models import RepositoryConnection
from jobs.verbs import connections

_MOST_NAME = 200
# Kinds of sources on the disks of this machine, with the names of their connections.
_ON_THIS_MACHINE: Final[Mapping[RepositoryKind, str]] = {FILE_SYSTEM: "files", ARCHIVE: "archives"}


class CrawlRefused(Exception):
    """The requested crawl is impossible. Nothing was changed."""


def kind_of(urls: Sequence[str], *, named: str | None) -> RepositoryKind:
    """
    Return the kind of source with this name. Without a name, return the kind that the addresses mean.

    Raises:
        CrawlRefused: there is no connector of this name, or the addresses mean different sources.
    """
    if named is not None:
        try:
            return registry.find(named)
        except registry.UnknownConnector as unknown:
            raise CrawlRefused(str(unknown)) from None
    if urls and all(_means(ARCHIVE, url) for url in urls):
        return ARCHIVE
    are_files = {url.strip().lower().startswith(("file:", "archive:")) for url in urls}
    if are_files == {True, False}:
        raise CrawlRefused("Files, archives and web addresses need separate crawls. Crawl them one after the other.")
    if are_files == {True}:
        archives = [url for url in urls if url.strip().lower().startswith("archive:")]
        if archives:
            _directory_at(ARCHIVE, archives[0])
            raise CrawlRefused(
                "Files, archives and web addresses need separate crawls. Crawl them one after the other."
            )
        return FILE_SYSTEM
    if not any(_means(WEB, url) for url in urls):
        for kind in registry.installed().values():
            if all(_means(kind, url) for url in urls):
                return kind
    return WEB


def repository_of(
    kind: RepositoryKind, urls: Sequence[str], *, configuration: Mapping[str, Any]
) -> RepositoryConnection:
    """
    Return the connection of this kind with this configuration. Store it first if there is none.

    A connection to files or archives may only read the directories of the addresses.

    Raises:
        CrawlRefused: the source cannot be read, or the configuration is refused.
    """
    if kind in _ON_THIS_MACHINE and not configuration:
        configuration = {"roots": sorted({_directory_at(kind, url) for url in urls})}
        if problem := kind.status(configuration):
            raise CrawlRefused(problem)
        name = f"{_ON_THIS_MACHINE[kind]} in {', '.join(configuration['roots'])}"
    else:
        # Each configuration has a separate connection. The name does not show the configuration, because it may
        # contain a password.
        digest = hash_of(json.dumps(configuration, sort_keys=True))[:8] if configuration else ""
        name = f"{kind.name} {digest}".rstrip()
    if len(name) > _MOST_NAME:
        name = f"{name[: _MOST_NAME - 33]} {hash_of(name)}"
    if problems := registry.check(kind, SourceSettings(configuration=configuration)).problems:
        said = " ".join(sentence for sentences in problems.values() for sentence in sentences)
        raise CrawlRefused(
            f"The connector {kind.name} refused its settings: {said} Set fields with --field NAME=VALUE."
        )
    defaults = {"connector": kind.name, "configuration": kind.configuration.sealed(configuration)}
    # Another crawl may be storing the same connection at this moment.
    stored = RepositoryConnection.objects.get_or_create(name=name, defaults=defaults)[0]
    return connections.remove_confinement(stored, configuration=configuration, made_by="crawl")


def read_fields(kind: RepositoryKind, given: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """
    Return the fields of a connection and of a job from texts `NAME=VALUE`, for this kind of source.

    Raises:
        CrawlRefused: a text is not `NAME=VALUE`, or the kind has no such field.
    """
    configuration: dict[str, Any] = {}
    specification: dict[str, Any] = {}
    of_job = {field.name: field for field in kind.specification.fields}
    of_connection = {field.name: field for field in kind.configuration.fields}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise CrawlRefused(f"--field is {text!r}: write NAME=VALUE.")
        if name in of_job:
            specification[name] = of_job[name].parse(value)
        elif name in of_connection:
            configuration[name] = of_connection[name].parse(value)
        else:
            there_are = ", ".join(sorted({*of_job, *of_connection})) or "none"
            raise CrawlRefused(
                f"--field {name}: unknown field of the connector {kind.name}. Known fields: {there_are}."
            )
    return configuration, specification


def _means(kind: RepositoryKind, url: str) -> bool:
    try:
        kind.canonical(url)
    except BadIdentifier:
        return False
    return True


def _directory_at(kind: RepositoryKind, url: str) -> str:
    """
    Return the directory that an address of files or archives means; for a single file, the directory of the file.
    """
    try:
        path = read_place(url).path if kind is ARCHIVE else path_of(FILE_SYSTEM.canonical(url))
    except BadIdentifier as error:
        raise CrawlRefused(str(error)) from None
    directory = path.rpartition(b"/")[0] or b"/" if Path(os.fsdecode(path)).is_file() else path
    return directory.decode("utf-8", "surrogateescape")
