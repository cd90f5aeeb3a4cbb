"""Errors of backups, as sentences for the operator."""


class BackupError(Exception):
    """The backup or the restore failed. The message gives the reason and the next step."""


class Unusable(BackupError):
    """The request cannot be fulfilled as it is. Nothing was done."""


class Damaged(BackupError):
    """A stored backup is incomplete or changed."""
