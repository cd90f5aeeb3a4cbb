"""The effective settings of this process: from its command line and environment, and the stored settings in use."""

from collections.abc import Iterable
from typing import Any

import psycopg
from django.conf import settings

from nodes.settings import versions
from nodes.settings.declaration import read_options
from nodes.settings.effective import Effective


class _Process:
    """The settings in use. The object is replaced as a whole, so threads see the old settings or the new ones."""

    taken_up: Effective | None = None


_process = _Process()


def current() -> Effective:
    """
    Return the settings of this process. Before it has used stored settings, these are the settings of its environment.
    """
    return _process.taken_up or Effective(table=settings.CRAWLCTL_SETTINGS, environment=settings.CRAWLCTL_ENVIRONMENT)


def read_given(options: Iterable[str]) -> Effective:
    """
    Return the settings of a process before it reads the database: those of its command line and environment.

    Raises:
        InvalidSettings, SettingError: an option names an unknown setting or has an invalid value.
    """
    table = settings.CRAWLCTL_SETTINGS
    return Effective(table=table, command_line=read_options(table, options), environment=settings.CRAWLCTL_ENVIRONMENT)


def together(given: Effective, connection: psycopg.Connection[Any]) -> Effective:
    """
    Return the settings with which a process would start: the given ones together with the stored ones.

    Raises:
        InvalidSettings: the two contradict each other.
    """
    stored = versions.read_newest(connection, table=settings.CRAWLCTL_SETTINGS)
    started = given.starting_with(stored.values, version=stored.version)
    started.check()
    return started


def start_with(given: Effective, connection: psycopg.Connection[Any]) -> Effective:
    """
    Start to use the given and the stored settings in this process. Return them.

    Raises:
        InvalidSettings: the two contradict each other.
    """
    _process.taken_up = together(given, connection)
    return _process.taken_up


def take_up_newest(connection: psycopg.Connection[Any]) -> Effective:
    """Use the newest stored settings, as far as a running process can. Return the effective settings."""
    return _take_up(versions.read_newest(connection, table=settings.CRAWLCTL_SETTINGS))


def follow_newest() -> None:
    """Use the newest stored settings in a process that is not a node, read over Django's connection."""
    stored = versions.newest(settings.CRAWLCTL_SETTINGS)
    if stored.version != current().version:
        _take_up(stored)


def _take_up(stored: versions.Stored) -> Effective:
    _process.taken_up = current().taking_up(stored.values, version=stored.version)
    return _process.taken_up
