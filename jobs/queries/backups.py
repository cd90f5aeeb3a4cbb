"""The age of the last backup, by the file that `crawlctl backup` or a script of the operator touches."""

import time
from pathlib import Path
from typing import Final

from django.conf import settings

# Name of the file in the folder of `VAR_DIR`, if the setting names none.
_USUAL: Final = "last-backup"


def file_of_last_backup() -> Path:
    return Path(settings.CRAWLCTL_BACKUP_FILE) if settings.CRAWLCTL_BACKUP_FILE else settings.VAR_DIR / _USUAL


def age_of_last_backup() -> float | None:
    """
    Return the age of the last backup in seconds: infinite if the file of the setting does not exist, and None without
    a setting and a backup on this machine.
    """
    try:
        return max(0.0, time.time() - file_of_last_backup().stat().st_mtime)
    except OSError:
        return float("inf") if settings.CRAWLCTL_BACKUP_FILE else None
