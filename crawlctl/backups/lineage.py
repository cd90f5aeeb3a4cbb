"""
Unused numbers of timelines, by which a restored database differs from all others of its server.

PostgreSQL gives a restored server the next timeline for which it finds no history. Two restores of one backup would get
the same number, and nodes of the first one would not notice the second. So each restore reserves its number in the
store, and lets the server find a history of each lower number.
"""

import json
import tempfile
from pathlib import Path
from typing import Final

from crawlctl.backups.catalogue import Backup
from nodes.stores.port import KeyTaken, Store, StoreRefused, digest_of

_FOLDER: Final = "restores"
# Name of the folder with histories, in the data directory, which is the current directory of the server.
_HISTORIES: Final = "crawlctl-histories"
RECOVERY: Final = {
    "restore_command": f'test -f "{_HISTORIES}/%f" && cp "{_HISTORIES}/%f" "%p"',
    "recovery_target": "immediate",
    "recovery_target_action": "promote",
    "recovery_target_timeline": "current",
    # Otherwise the server counts as ready while it still recovers.
    "hot_standby": "off",
}


def reserve_timeline(store: Store, backup: Backup) -> int:
    """
    Return a timeline that no other restore from this store has.

    A store that refuses writes still allows restores, each with the lowest number that the store does not show.
    """
    folder = f"{_FOLDER}/{backup.system or 'unknown'}"
    taken = {int(listed.key.rsplit("/", 1)[1]) for listed in store.list(f"{folder}/")}
    number = max(taken | {backup.timeline}) + 1
    with tempfile.TemporaryDirectory(prefix="crawlctl-") as place:
        path = Path(place) / "reserved"
        path.write_text(json.dumps({"backup": backup.name}) + "\n")
        while True:
            try:
                store.put(f"{folder}/{number}", path, sha256=digest_of(path), only_if_absent=True)
            except KeyTaken:
                number += 1
            except StoreRefused:
                return number
            else:
                return number


def prepare_recovery(data: Path, *, backup: Backup, timeline: int) -> None:
    """Let the server of this data directory continue on the timeline, when it is started with `RECOVERY`."""
    histories = data / _HISTORIES
    histories.mkdir()
    for number in range(backup.timeline + 1, timeline):
        (histories / f"{number:08X}.history").write_text(f"{number - 1}\t0/0\treserved by a restore\n")
    (data / "recovery.signal").touch()


def finish_recovery(data: Path) -> None:
    for path in (data / _HISTORIES).iterdir():
        path.unlink()
    (data / _HISTORIES).rmdir()
