"""
The map of slots: the partition of each slot.

The control partition notes the map and sends it to the others. Each partition notes the map that it applies, so that
a new subscription, which forgets received facts, changes nothing. Each new map has a new epoch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, LiteralString

import psycopg

from jobs.partitions.facts import FactSender, own_fact, send_fact, sent_fact
from jobs.partitions.placement import SLOTS, Placement, even_owner

KIND: Final = "slots"
KEY: Final = f"{KIND}:all"
# The map that this database applies, as a part of other statements. Null before the first note.
MAP: Final[LiteralString] = """
SELECT body FROM jobs_partitionfact WHERE source = target AND key = 'slots:all' ORDER BY number DESC LIMIT 1
"""
# A worker reads a job again, with its map of slots, when it gets a claim with a newer revision.
_RENEW_JOBS: Final[LiteralString] = """
UPDATE jobs_job SET revision = revision + 1 WHERE id IN (SELECT job_id FROM jobs_partitionedjob)
"""
# All seeds are read again: until now, another partition read the seeds of moved hosts, and its version of them may be
# older.
_READ_SEEDS_AGAIN: Final[tuple[LiteralString, LiteralString]] = (
    """
UPDATE jobs_seed AS seed
   SET seeding_version = '', seeded_run = CASE WHEN job.phase = 'active' THEN 0 ELSE seed.seeded_run END
  FROM jobs_partitionedjob AS known JOIN jobs_job AS job ON job.id = known.job_id
 WHERE seed.job_id = job.id AND seed.removed_at IS NULL
""",
    """
UPDATE jobs_job SET unread = unread + 1 WHERE phase = 'active' AND id IN (SELECT job_id FROM jobs_partitionedjob)
""",
)


@dataclass(frozen=True, slots=True)
class SlotMap:
    """The partition of each slot. The map of epoch 0 is not stored: all partitions have equal parts."""

    epoch: int
    owners: tuple[str, ...]

    @classmethod
    def even(cls, names: Sequence[str]) -> "SlotMap":
        """Return the first map: each partition has an equal part of all slots."""
        return cls(0, tuple(even_owner(slot, names) for slot in range(SLOTS)))

    @classmethod
    def from_json(cls, body: Mapping[str, Any] | None, names: Sequence[str]) -> "SlotMap":
        """Return a noted map; without a note, return the initial map of these partitions."""
        if body is None:
            return cls.even(names)
        return cls(body["epoch"], tuple(name for name, amount in body["owners"] for _ in range(amount)))

    def as_json(self) -> dict[str, Any]:
        """Return the map as ranges of consecutive slots: [partition, number of slots]."""
        return {"epoch": self.epoch, "owners": [[name, len(list(run))] for name, run in groupby(self.owners)]}

    def slots_of(self, name: str) -> list[int]:
        return [slot for slot, owner in enumerate(self.owners) if owner == name]


def read_map(connection: psycopg.Connection[Any], names: Sequence[str]) -> SlotMap:
    """Return the map that this database applies."""
    return SlotMap.from_json(own_fact(connection, KEY), names)


def has_map(connection: psycopg.Connection[Any]) -> bool:
    """True if this database has noted a map. Before that, it does not know which hosts it has."""
    return own_fact(connection, KEY) is not None


def keep_map(connection: psycopg.Connection[Any], placement: Placement) -> bool:
    """
    Send the map to the other partitions, or adopt the first received one; return True if this database has a new map.

    A later map comes with a move, which holds the jobs first (`jobs.partitions.moving`).
    """
    noted = own_fact(connection, KEY)
    stated: Mapping[str, Any] | None
    if placement.is_control:
        stated = noted or SlotMap.even(placement.names).as_json()
        FactSender(connection, placement.here, KIND).send_all(placement, KEY, stated)
    else:
        stated = sent_fact(connection, placement.control, placement.here, KEY)
    if stated is None or noted is not None:
        return False
    with connection.transaction():
        send_fact(connection, placement.here, placement.here, KEY, stated)
        connection.execute(_RENEW_JOBS)
    return True


def adopt_map(connection: psycopg.Connection[Any], placement: Placement, new: SlotMap) -> None:
    """Adopt the map of a move. Call it in a transaction, while all jobs are held."""
    send_fact(connection, placement.here, placement.here, KEY, new.as_json())
    connection.execute(_RENEW_JOBS)
    for statement in _READ_SEEDS_AGAIN:
        connection.execute(statement)
