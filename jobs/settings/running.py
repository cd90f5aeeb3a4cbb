"""What this process runs with: what it was told when it started, and stored settings that it has taken up."""

from collections.abc import Iterable
from typing import Any

import psycopg
from django.conf import settings

from jobs.settings.table import TABLE
from nodes.settings import versions
from nodes.settings.declaration import read_options
from nodes.settings.effective import Effective


class _Process:
    """Replaced as a whole: threads see the settings of before or of after."""

    taken_up: Effective | None = None


_process = _Process()


def current() -> Effective:
    """The settings of this process. One that is no node has taken up no stored ones."""
    return _process.taken_up or Effective(table=TABLE, environment=settings.CRAWLCTL_ENVIRONMENT)


def told(options: Iterable[str]) -> Effective:
    """
    What a process knows of its settings before it has asked the database: what its command line and environment say.

    Raises:
        InvalidSettings, SettingError: an option names no setting, or a value that it cannot have.
    """
    return Effective(table=TABLE, command_line=read_options(TABLE, options), environment=settings.CRAWLCTL_ENVIRONMENT)


def together(given: Effective, connection: psycopg.Connection[Any]) -> Effective:
    """
    What a process would start with that was told this, beside what is stored.

    Raises:
        InvalidSettings: the two contradict each other.
    """
    stored = versions.read_newest(connection, table=TABLE)
    started = given.starting_with(stored.said, version=stored.version)
    started.check()
    return started


def start_with(given: Effective, connection: psycopg.Connection[Any]) -> Effective:
    """
    Let this process run with what it was told and what is stored.

    Raises:
        InvalidSettings: the two contradict each other.
    """
    _process.taken_up = together(given, connection)
    return _process.taken_up


def take_up_newest(connection: psycopg.Connection[Any]) -> Effective:
    """Go on with the newest stored settings, as far as a running process can."""
    return _take_up(versions.read_newest(connection, table=TABLE))


def follow_newest() -> None:
    """Go on with the newest stored settings in a process that is no node; asks over Django's connection."""
    stored = versions.newest(TABLE)
    if stored.version != current().version:
        _take_up(stored)


def _take_up(stored: versions.Stored) -> Effective:
    _process.taken_up = current().taking_up(stored.said, version=stored.version)
    return _process.taken_up
