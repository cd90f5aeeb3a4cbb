"""The kind of tasks that makes a backup. Its place is that of the setting, so no argument can name another one."""

from collections.abc import Mapping
from typing import Any, Final

from crawlctl.backups.verbs import given_passphrase, make_backup, prune, store_of_setting
from nodes.tasks.context import TaskContext
from nodes.tasks.kinds import Kind


def back_up(context: TaskContext, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """
    Make a backup, then delete old ones if the arguments say how many to keep.

    Raises:
        Unusable, BackupError, StoreError
    """
    said: list[str] = []

    def announce(line: str) -> None:
        said.append(line)
        context.report({"step": line})

    store = store_of_setting()
    backup = make_backup(store, passphrase=given_passphrase(), announce=announce)
    if "keep" in arguments:
        prune(store, keep=arguments["keep"], announce=announce)
    return {"backup": backup.name, "store": store.address, "bytes": backup.data.size}


BACKUP: Final = Kind(
    name="backup",
    title="Back up the database to CRAWLCTL_BACKUP_STORE, and delete old backups",
    run=back_up,
    properties={"keep": {"type": "integer", "minimum": 1, "maximum": 10_000}},
    retry_policy={"policy": "times", "times": 3, "seconds": 300},
)
KINDS: Final = (BACKUP,)
