"""
The age of the last backup, and the state of the copied write-ahead log. `crawlctl backup`, or a script of the operator,
touches a file after each backup, and the time of this file counts.
"""

import datetime as dt
import json
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db import connection

# Name of the file in the folder `VAR_DIR` that is used if the setting names no file.
_DEFAULT_NAME: Final = "last-backup"


def file_of_last_backup() -> Path:
    return Path(settings.CRAWLCTL_BACKUP_FILE) if settings.CRAWLCTL_BACKUP_FILE else settings.VAR_DIR / _DEFAULT_NAME


def age_of_last_backup() -> float | None:
    """
    Return the age of the last backup in seconds.

    Return infinity if the setting names a file that does not exist, and None if there is neither a setting nor a backup
    on this machine.
    """
    try:
        return max(0.0, time.time() - file_of_last_backup().stat().st_mtime)
    except OSError:
        return float("inf") if settings.CRAWLCTL_BACKUP_FILE else None


@dataclass
class LogState:
    """
    The state of the copy of the write-ahead log on this machine. Times are in UTC, in the form of ISO 8601.

    `reached` is the moment up to which the log is stored, `gap_at` the time of the last gap, `problem` the present
    problem.
    """

    store: str = ""
    system: str = ""
    segment: str = ""
    reached: str = ""
    gap_at: str = ""
    problem: str = ""

    @classmethod
    def read(cls, path: Path) -> "LogState | None":
        """Return the state in the file; None if there is none, or if it is damaged."""
        try:
            said = json.loads(path.read_text())
            state = cls(**{field.name: str(said[field.name]) for field in fields(cls)})
            moments = [dt.datetime.fromisoformat(moment) for moment in (state.reached, state.gap_at) if moment]
            return state if all(moment.tzinfo is not None for moment in moments) else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None


def file_of_log_state() -> Path:
    path: Path = settings.VAR_DIR / "wal" / "state.json"
    return path


# Time at which the server itself archived its last file of the log, with a program such as pgBackRest. No row: it
# archives nothing.
_ARCHIVER: Final = """
SELECT last_archived_time FROM pg_stat_archiver WHERE current_setting('archive_mode') <> 'off'
"""


# Time for which the state of the archiver is cached, for the metrics and the attention list (seconds).
_REUSED_FOR: Final = 5.0
_last_reading: list[tuple[float, tuple[dt.datetime | None] | None]] = []


def _read_archiver() -> tuple[dt.datetime | None] | None:
    """
    Return the time at which the server archived its last file of the log; None if the server archives nothing. The
    result may be a few seconds old.
    """
    now = time.monotonic()
    if not _last_reading or now - _last_reading[0][0] > _REUSED_FOR:
        with connection.cursor() as cursor:
            cursor.execute(_ARCHIVER)
            _last_reading[:] = [(now, cursor.fetchone())]
    return _last_reading[0][1]


def is_log_copied() -> bool:
    """
    True if crawlctl copies the write-ahead log or should copy it, from the embedded server or by `backup ship`.
    """
    return bool(settings.CRAWLCTL_BACKUP_STORE) and (not settings.CRAWLCTL_DATABASE_URL or file_of_log_state().exists())


def age_of_log(*, now: dt.datetime) -> float | None:
    """
    Return the age of the stored write-ahead log in seconds: infinite if nothing is stored yet, and None if neither
    crawlctl nor the server stores it.
    """
    if is_log_copied():
        state = LogState.read(file_of_log_state())
        reached = dt.datetime.fromisoformat(state.reached) if state and state.reached else None
    elif not settings.CRAWLCTL_DATABASE_URL:
        return None
    else:
        row = _read_archiver()
        if row is None:
            return None
        reached = row[0]
    return float("inf") if reached is None else max(0.0, (now - reached).total_seconds())


# Read with SQL, because the model of drills belongs to an application that this one must not import.
_LAST_DRILL: Final = """
SELECT at, is_good, coalesce(report -> 'missing' ->> 0, '') FROM drill_drill
 WHERE fault = 'restore' ORDER BY at DESC, id DESC LIMIT 1
"""


def last_drill() -> tuple[dt.datetime, bool, str] | None:
    """Return the time of the last drill of a restore, whether it succeeded, and why it failed; None without one."""
    with connection.cursor() as cursor:
        cursor.execute(_LAST_DRILL)
        row: tuple[dt.datetime, bool, str] | None = cursor.fetchone()
    return row
