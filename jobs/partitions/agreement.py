"""
The settings of partitions, compared with the notes that the databases keep.

At its first start, each database notes the name of its partition, the names of all partitions, the number of slots, and
its identity. A daemon compares its settings with the note of its database, and with those of the other databases.
"""

import logging
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, LiteralString

import psycopg

from jobs.partitions.facts import own_fact, send_fact
from jobs.partitions.placement import SLOTS, BadPartitions, Placement
from jobs.partitions.slots import KEY, SlotMap
from jobs.partitions.this_partition import addresses, placement

logger = logging.getLogger(__name__)

# Key of the fact in which a database notes its own partition, and the names of all.
_NAMES: Final = "names:all"
# Key of the fact with the identities of the other databases, by partition.
_KNOWN: Final = "known:all"
# Lets one process at a time write the note, so that a database never has two identities.
_ALONE: Final[LiteralString] = "SELECT pg_advisory_xact_lock(hashtextextended('crawlctl partition note', 0))"
_FORGET_JOBS: Final[LiteralString] = "DELETE FROM jobs_partitionedjob"
# Longest wait (seconds) for the database of another partition.
_CONNECT_WITHIN: Final = 3

Note = Mapping[str, Any]


def check_partitions(connection: psycopg.Connection[Any]) -> None:
    """
    Check that the settings fit the partition that this database has been since its first start, and note it.

    Raises:
        BadPartitions: a setting contradicts another setting or the database; the message names the setting.
    """
    stated = placement()
    with connection.transaction():
        before = own_fact(connection, _NAMES)
        if stated is None:
            if before is not None and _is_alone(before):
                # The other partitions were removed, so no run waits for them.
                connection.execute(_FORGET_JOBS)
            elif before is not None:
                raise BadPartitions(
                    f"CRAWLCTL_PARTITION is not set, but this database is partition {before['here']} of "
                    f"{', '.join(before['names'])}. Set CRAWLCTL_PARTITION and CRAWLCTL_PARTITIONS to these."
                )
            return
        _compare_with_own(stated, before)
        if before is None or "identity" not in before:
            connection.execute(_ALONE)
            before = own_fact(connection, _NAMES)
        if before is None or "identity" not in before:
            note = {"here": stated.here, "names": list(stated.names), "slots": SLOTS, "identity": str(uuid.uuid4())}
            send_fact(connection, stated.here, stated.here, _NAMES, note)


def _is_alone(note: Note) -> bool:
    """
    True if this database is the only partition that is left. False for a removed partition, which has given its hosts
    away.
    """
    return tuple(note["names"]) == (note["here"],) and "leaving" not in note


def check_other_partitions(connection: psycopg.Connection[Any]) -> None:
    """
    Compare the settings with the notes of the other databases. Leave out databases that do not answer.

    Raises:
        BadPartitions: they disagree; the message names the setting.
    """
    stated = placement()
    own = own_fact(connection, _NAMES)
    if stated is None or own is None:
        return
    known = dict(own_fact(connection, _KNOWN) or {})
    for name, address in addresses().items():
        note = _read_note(name, address)
        if note is not None:
            compare(stated, own, name, note, known=known.get(name))
            known[name] = note["identity"]
    send_fact(connection, stated.here, stated.here, _KNOWN, known)


def add(connection: psycopg.Connection[Any], name: str) -> bool:
    """
    Add the partition `name`, without slots, to the partitions that this database notes. Return False if it is noted
    already.

    Raises:
        BadPartitions: the settings do not name the new partition last, after the known ones.
    """
    stated = placement()
    noted = own_fact(connection, _NAMES)
    if stated is None or noted is None:
        raise BadPartitions("This database is not one of several partitions yet. Start its daemons first.")
    before = tuple(noted["names"])
    if name in before:
        return False
    if stated.names != (*before, name):
        raise BadPartitions(
            f"CRAWLCTL_PARTITIONS names {', '.join(stated.names)}. Set it to {', '.join((*before, name))}, with the new "
            "partition at the end."
        )
    with connection.transaction():
        if own_fact(connection, KEY) is None:
            # Store the first map now: later it would be computed from the longer list of names.
            send_fact(connection, stated.here, stated.here, KEY, SlotMap.even(before).as_json())
        return send_fact(connection, stated.here, stated.here, _NAMES, {**noted, "names": [*before, name]})


def noted_names(connection: psycopg.Connection[Any]) -> Note | None:
    """Return the note of a database about its partition and the names of all; None before its first start."""
    return own_fact(connection, _NAMES)


def note_names(connection: psycopg.Connection[Any], *, leaving: str = "", removed: str = "") -> None:
    """
    Note in a database that a partition is `leaving`, or that it is `removed` and no longer among the names.

    The removed partition notes that it is alone, so its main manager no longer makes an exchange.
    """
    noted = own_fact(connection, _NAMES)
    if noted is None:
        return
    here_ = noted["here"]
    if leaving:
        changed = {**noted, "leaving": leaving} if leaving in noted["names"] else noted
    elif removed == here_:
        changed = {**noted, "names": [here_], "leaving": here_}
    else:
        left = [name for name in noted["names"] if name != removed]
        changed = {key: value for key, value in noted.items() if key != "leaving"} | {"names": left}
        known = dict(own_fact(connection, _KNOWN) or {})
        if known.pop(removed, None) is not None:
            send_fact(connection, here_, here_, _KNOWN, known)
    send_fact(connection, here_, here_, _NAMES, changed)


def without_leaving(connection: psycopg.Connection[Any], stated: Placement) -> Placement:
    """Return the placement without partitions that leave or have left, because no rows are exchanged with them."""
    noted = own_fact(connection, _NAMES)
    if noted is None:
        return stated
    if noted.get("leaving") == stated.here:
        return replace(stated, names=(stated.here,))
    present = {*noted["names"], stated.here} - {noted.get("leaving")}
    return replace(stated, names=tuple(name for name in stated.names if name in present))


def accept(connection: psycopg.Connection[Any], name: str) -> bool:
    """
    Forget the identity of a partition's database, so that the next start accepts a new database. Return True if the
    identity was known.
    """
    stated = placement()
    known = dict(own_fact(connection, _KNOWN) or {})
    if stated is None or known.pop(name, None) is None:
        return False
    return send_fact(connection, stated.here, stated.here, _KNOWN, known)


def compare(stated: Placement, own: Note, name: str, note: Note, *, known: str | None = None) -> None:
    """
    Compare the settings of this partition with the note of the database at the address of a partition.

    `known` is the identity that this database had at an earlier start.

    Raises:
        BadPartitions: they disagree; the message names the setting.
    """
    is_own_database = note["identity"] == own["identity"]
    if name == stated.here and not is_own_database:
        raise BadPartitions(
            f"DATABASE_URL and CRAWLCTL_PARTITIONS disagree: the address of {name} leads to another database than "
            f"DATABASE_URL. Correct the one that is wrong."
        )
    if name != stated.here and is_own_database:
        raise BadPartitions(
            f"CRAWLCTL_PARTITIONS is wrong: the address of {name} leads to the database of this partition, {stated.here}."
        )
    if note["here"] != name:
        raise BadPartitions(
            f"CRAWLCTL_PARTITIONS is wrong: the address of {name} leads to the database of partition {note['here']}."
        )
    if tuple(note["names"]) != stated.names:
        raise BadPartitions(
            f"CRAWLCTL_PARTITIONS disagrees with partition {name}: it is {', '.join(stated.names)} here, and "
            f"{', '.join(note['names'])} there. Give all partitions the same names in the same order."
        )
    if (slots := note.get("slots", SLOTS)) != SLOTS:
        raise BadPartitions(
            f"The number of slots disagrees with partition {name}: it is {SLOTS} here, and {slots} there. "
            "Run the same version of crawlctl in all partitions."
        )
    if known is not None and note["identity"] != known:
        raise BadPartitions(
            f"CRAWLCTL_PARTITIONS is wrong: the address of {name} leads to another database than before, perhaps of "
            f"another cluster. If {name} has a new database, run `crawlctl partition accept {name}`."
        )


def _compare_with_own(stated: Placement, before: Note | None) -> None:
    if before is None:
        return
    if before["here"] != stated.here:
        raise BadPartitions(
            f"CRAWLCTL_PARTITION is {stated.here}, but this database is partition {before['here']} of "
            f"{', '.join(before['names'])}. Set it to {before['here']}, or correct DATABASE_URL."
        )
    if tuple(before["names"]) != stated.names:
        raise BadPartitions(
            f"CRAWLCTL_PARTITIONS names {', '.join(stated.names)}, but this database is partition {before['here']} of "
            f"{', '.join(before['names'])}. A new partition stands at the end, and is added by `crawlctl partition add NAME`."
        )
    if (slots := before.get("slots", SLOTS)) != SLOTS:
        raise BadPartitions(
            f"This database divides hosts into {slots} slots, and this version of crawlctl into {SLOTS}. "
            "Run the version that the database was made with."
        )


def _read_note(name: str, address: str) -> Note | None:
    """Return the note of a database; None if it does not answer, or has not been a partition yet."""
    try:
        with psycopg.connect(address, autocommit=True, connect_timeout=_CONNECT_WITHIN) as other:
            note = own_fact(other, _NAMES)
    except psycopg.errors.UndefinedTable:
        return None
    except psycopg.Error as error:
        logger.warning("partition %s does not answer: its settings are not compared (%s)", name, str(error).strip())
        return None
    # A database of an earlier version has no identity yet.
    return note if note is not None and "identity" in note else None
