"""The time of the last good backup, which is the modification time of a file. The metric reads it."""

from jobs.queries.backups import file_of_last_backup


def note_backup() -> None:
    """Note that a good backup was made now."""
    path = file_of_last_backup()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
