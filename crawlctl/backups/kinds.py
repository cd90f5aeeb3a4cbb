"""The kind of tasks that makes a backup. A setting names the store, so no argument can name another store."""

from collections.abc import Mapping
from typing import Any, Final

from django.db import connection

from crawlctl.backups.descriptions import Backup
from crawlctl.backups.verbs import find_new_backup, given_passphrase, make_backup, prune, store_of_setting
from nodes.stores.port import Store
from nodes.tasks.context import TaskContext
from nodes.tasks.kinds import Kind
from nodes.tasks.models import Task


def back_up(context: TaskContext, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """
    Make a backup, then delete old ones if the arguments say how many to keep.

    A retry continues with the backup that an earlier attempt made. Otherwise each attempt that fails to delete old
    backups would make a new one, and so the backups of earlier days would be deleted.

    Raises:
        Unusable, BackupError, StoreError
    """
    lines: list[str] = []

    def announce(line: str) -> None:
        lines.append(line)
        context.report({"step": line})

    store = store_of_setting()
    backup = _of_earlier_attempt(context, store) if context.retry_number else None
    if backup is None:
        backup = make_backup(store, passphrase=given_passphrase(), announce=announce)
    if "keep" in arguments:
        prune(store, keep=arguments["keep"], announce=announce)
    return {"backup": backup.name, "store": store.address, "bytes": backup.data.size}


def _of_earlier_attempt(context: TaskContext, store: Store) -> Backup | None:
    """Return the backup that an earlier attempt of the task stored; None if there is none."""
    task = Task.objects.filter(pk=context.task).first()
    if task is None:
        return None
    with connection.cursor() as cursor:
        cursor.execute("SELECT split_part(nodes_incarnation(), '/', 1)")
        ((system,),) = cursor.fetchall()
    return find_new_backup(store, system=system, since=task.created_at)


BACKUP: Final = Kind(
    name="backup",
    title="Back up the database to CRAWLCTL_BACKUP_STORE, and delete old backups",
    run=back_up,
    properties={"keep": {"type": "integer", "minimum": 1, "maximum": 10_000}},
    retry_policy={"policy": "times", "times": 3, "seconds": 300},
)
KINDS: Final = (BACKUP,)
