"""
The recovery of a copy along a timeline, and the reservation of unused timelines. The number of its timeline
distinguishes a restored database from all others of its server.

PostgreSQL gives a restored server the next timeline for which it finds no history. Two restores of one backup would get
the same number, and nodes that used the first restored database would not notice the second. So each restore reserves
its number in the store, and lets the server find a history of each lower number.
"""

import datetime as dt
import json
import tempfile
from pathlib import Path
from typing import Final

from crawlctl.backups import wal
from crawlctl.backups.restorable_moments import Way
from crawlctl.backups.sealing import Sealer
from nodes.stores.port import KeyTaken, Store, StoreRefused, digest_of

# Name of the folder with histories and segments, in the data directory, which is the current directory of the server.
_FOLDER: Final = "crawlctl-recovery"
# Largest number of digits in the number of a timeline.
_DIGITS: Final = 10
_RECOVERY: Final = {
    "restore_command": f'test -f "{_FOLDER}/%f" && cp --sparse=always "{_FOLDER}/%f" "%p"',
    "recovery_target_action": "promote",
    # Without this, the server would count as ready while it still recovers.
    "hot_standby": "off",
}


def next_timeline(store: Store, way: Way) -> int:
    """Return the lowest number of a timeline that nothing in the store uses."""
    system = way.backup.system
    names = (listed.key.rsplit("/", 1)[1] for listed in store.list(f"{wal.RESTORES}/{system}/"))
    taken = {int(name) for name in names if name.isdecimal() and len(name) <= _DIGITS}
    for listed in store.list(f"{wal.FOLDER}/{system}/"):
        name = listed.key.rsplit("/", 1)[1]
        if wal.HISTORY_NAME.fullmatch(name):
            taken.add(int(name[:8], 16))
    return max(taken | {way.timeline, way.backup.timeline}) + 1


def reserve_timeline(store: Store, way: Way, *, now: dt.datetime) -> int:
    """
    Return a timeline that no other restore from this store has.

    A store that refuses writes still allows restores, each with the lowest number that the store does not show.
    """
    folder = f"{wal.RESTORES}/{way.backup.system}"
    number = next_timeline(store, way)
    with tempfile.TemporaryDirectory(prefix="crawlctl-") as place:
        path = Path(place) / "reserved"
        path.write_text(json.dumps({"backup": way.backup.name, "at": now.astimezone(dt.UTC).isoformat()}) + "\n")
        while True:
            try:
                store.put(f"{folder}/{number}", path, sha256=digest_of(path), only_if_absent=True)
            except KeyTaken:
                number += 1
            except StoreRefused:
                return number
            else:
                return number


def prepare_recovery(
    data: Path, *, store: Store, way: Way, until: dt.datetime | None, timeline: int, sealer: Sealer
) -> dict[str, str]:
    """
    Let the server of this data directory recover along the way, and continue on a new timeline. Return the options of
    the server.

    Raises:
        Damaged: a segment of the log is missing or was changed.
        Unusable: the log is sealed, and the passphrase is missing or wrong.
    """
    folder = data / _FOLDER
    folder.mkdir()
    # The first segment that closed after the moment is still needed, and later ones are not.
    for segment in way.segments:
        wal.fetch_segment(store, segment, folder / segment.name, sealer=sealer, segment_bytes=way.backup.segment_bytes)
        if until is not None and segment.reached is not None and segment.reached > until:
            break
    if way.timeline != way.backup.timeline:
        path = folder / f"{way.timeline:08X}.history"
        path.write_bytes(wal.history_text(store, way.backup.system, way.timeline))
    for number in range(way.timeline + 1, timeline):
        (folder / f"{number:08X}.history").write_text(f"{number - 1}\t0/0\treserved by a restore\n")
    (data / "recovery.signal").touch()
    if until is not None:
        target = {"recovery_target_time": until.isoformat()}
    elif way.segments:
        target = {}
    else:
        target = {"recovery_target": "immediate"}
    return {**_RECOVERY, **target, "recovery_target_timeline": str(way.timeline)}


def finish_recovery(data: Path) -> None:
    for path in (data / _FOLDER).iterdir():
        path.unlink()
    (data / _FOLDER).rmdir()


def end_of(history: bytes) -> int:
    """Return the position at which the last ancestor in a history ended."""
    lines = [line.split() for line in history.decode().splitlines() if line.strip() and not line.startswith("#")]
    return wal.position(lines[-1][1])
