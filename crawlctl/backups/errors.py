"""Errors of backups, as sentences for the operator."""


class BackupError(Exception):
    """The backup or the restore was not done. The message says why, and what to do."""


class Unusable(BackupError):
    """The request cannot be fulfilled as it is. Nothing was done."""


class Damaged(BackupError):
    """A stored backup is incomplete or changed."""
