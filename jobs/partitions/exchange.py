"""
The exchange between partitions: PostgreSQL's logical replication.

Each partition publishes, for each other partition, its own rows of `jobs_partitionfact` and `jobs_foreignreference`
that name it, and subscribes to the rows that the others publish for it. Only inserts travel, in the order of their
commits and exactly once. A new subscription begins with a copy of all rows that still exist at the publisher.

A database that was restored from a backup lacks rows that it had received, and rows that others received from it. So
both directions begin again: it drops its own subscriptions, and the slots from which the others read. A subscription
whose slot no longer exists is made again.

A restored partition may also lack documents that no other partition sent in this run: it found them itself before the
linking document moved, or a move brought them. The other partitions still have links to these documents. So they offer
these links as references to a partition that subscribes again.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql

from jobs.partitions.facts import send_fact, sent_fact
from jobs.partitions.placement import Placement

logger = logging.getLogger(__name__)

_PUBLISHED: Final = ("jobs_partitionfact", "jobs_foreignreference")
_PUBLICATIONS: Final[LiteralString] = "SELECT pubname FROM pg_publication"
_SUBSCRIPTIONS: Final[LiteralString] = """
SELECT subname::text, subconninfo,
       EXISTS (SELECT FROM pg_stat_subscription AS worker
                WHERE worker.subid = subscription.oid AND worker.pid IS NOT NULL) AS is_receiving
  FROM pg_subscription AS subscription
 WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
# A replication slot that fell too far behind has lost rows.
_SLOT: Final[LiteralString] = "SELECT FROM pg_replication_slots WHERE slot_name = %s AND wal_status <> 'lost'"
_SLOTS: Final[LiteralString] = "SELECT slot_name::text FROM pg_replication_slots"
_END_READERS: Final[LiteralString] = """
SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = ANY(%s) AND active
"""
_DROP_SLOTS: Final[LiteralString] = """
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = ANY(%s)
"""
# Continue the numbers of rows from the microseconds since 1970, which are above all numbers of the lost rows.
_RAISE_NUMBERS: Final[LiteralString] = """
SELECT setval(pg_get_serial_sequence(name, 'number'), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
  FROM unnest(%s::text[]) AS name
"""
# Send links of the present runs to documents of a partition that were not sent to it as references. `tracks_depth` is
# taken from any sent reference, because it is the same in all references of a run.
_OFFER: Final[LiteralString] = """
INSERT INTO jobs_foreignreference
       (source, target, job_number, run_no, hash, identifier, bin, seed, depth, redirects, tracks_depth, found_on, edges)
SELECT %(here)s::text, link.target, known.number, link.run_no, link.hash, link.identifier, link.bin,
       coalesce(md5(seed.urls[1])::uuid, link.hash), link.depth, link.redirects,
       coalesce((SELECT tracks_depth FROM jobs_foreignreference AS sent
                  WHERE sent.job_number = known.number AND sent.run_no = job.run_no LIMIT 1), false),
       link.found_on, link.edges
  FROM jobs_partitionedjob AS known JOIN jobs_job AS job ON job.id = known.job_id AND job.phase = 'active'
  JOIN jobs_foreignlink AS link ON link.job_id = job.id AND link.run_no = job.run_no
  LEFT JOIN jobs_seed AS seed ON seed.id = link.seed_id
 WHERE link.target = %(target)s::text
   AND NOT EXISTS (SELECT FROM jobs_foreignreference AS sent
                    WHERE sent.source = %(here)s::text AND sent.target = link.target AND sent.job_number = known.number
                      AND sent.run_no = link.run_no AND sent.hash = link.hash)
"""
_INCARNATION: Final = "incarnation:exchange"
# Longest wait (seconds) for another partition. Short, because this process has other duties.
_CONNECT_WITHIN: Final = 3


@dataclass(frozen=True, slots=True)
class _Pair:
    """The names of the objects that carry rows from one partition to another."""

    source: str
    target: str

    @property
    def publication(self) -> str:
        return f"crawlctl_to_{self.target}"

    @property
    def subscription(self) -> str:
        return f"crawlctl_from_{self.source}"

    @property
    def slot(self) -> str:
        return f"crawlctl_{self.source}_to_{self.target}"


def keep_publications(connection: psycopg.Connection[Any], placement: Placement) -> int:
    """Make the missing publications for all other partitions; return the number of new publications."""
    present = {name for (name,) in connection.execute(_PUBLICATIONS)}
    wanted = [_Pair(placement.here, other) for other in placement.others]
    missing = [pair for pair in wanted if pair.publication not in present]
    for pair in missing:
        rows = sql.SQL(", ").join(
            sql.SQL("TABLE {} WHERE (source = {} AND target = {})").format(
                sql.Identifier(table), pair.source, pair.target
            )
            for table in _PUBLISHED
        )
        connection.execute(
            sql.SQL("CREATE PUBLICATION {} FOR {} WITH (publish = 'insert')").format(
                sql.Identifier(pair.publication), rows
            )
        )
    return len(missing)


def keep_subscriptions(connection: psycopg.Connection[Any], placement: Placement, addresses: Mapping[str, str]) -> int:
    """
    Subscribe to all other partitions that publish for this one; return the number of new and changed subscriptions.

    A partition that does not answer is tried again at the next call. The connection is in autocommit mode: a
    subscription makes a slot at the other server, and a rollback would not remove this slot.
    """
    present = {name: (address, is_receiving) for name, address, is_receiving in connection.execute(_SUBSCRIPTIONS)}
    made = 0
    for other in placement.others:
        pair = _Pair(other, placement.here)
        if pair.subscription not in present:
            made += _subscribe(connection, pair, addresses[other])
        elif present[pair.subscription][0] != addresses[other]:
            # The other database has a new address. Its replication slot moved with it, so no row is lost.
            connection.execute(
                sql.SQL("ALTER SUBSCRIPTION {} CONNECTION {}").format(
                    sql.Identifier(pair.subscription), addresses[other]
                )
            )
            made += 1
        elif not present[pair.subscription][1] and _has_lost_its_slot(pair, addresses[other]):
            logger.warning(
                "partition %s has no replication slot for this partition: this server subscribes again", other
            )
            _unsubscribe(connection, pair)
            made += _subscribe(connection, pair, addresses[other])
    return made


def begin_again_after_restore(connection: psycopg.Connection[Any], placement: Placement) -> bool:
    """
    If the database of this partition was restored, drop its subscriptions, and the replication slots from which others
    read.

    Return True if it was restored. `keep_subscriptions` then makes both again, with a copy of all rows that still
    exist.
    """
    row = connection.execute("SELECT nodes_incarnation()").fetchone()
    now = {"incarnation": row and row[0]}
    noted = sent_fact(connection, placement.here, placement.here, _INCARNATION)
    is_restored = noted is not None and noted != now
    if is_restored:
        logger.warning("the database was restored: the exchange with the other partitions begins again")
        connection.execute(_RAISE_NUMBERS, (list(_PUBLISHED),))
        present = {name for name, _, _ in connection.execute(_SUBSCRIPTIONS)}
        for pair in (_Pair(other, placement.here) for other in placement.others):
            if pair.subscription in present:
                _unsubscribe(connection, pair)
        slots = [_Pair(placement.here, other).slot for other in placement.others]
        connection.execute(_END_READERS, (slots,))
        # This fails if a reader has not ended yet. The next call repeats it.
        connection.execute(_DROP_SLOTS, (slots,))
    # This step comes last, so that all steps are repeated after an interruption.
    send_fact(connection, placement.here, placement.here, _INCARNATION, now)
    return is_restored


def drop_exchange(connection: psycopg.Connection[Any], placement: Placement, others: Sequence[str]) -> None:
    """
    Drop the subscriptions, slots and publications that this database has for the exchange with `others`.

    A slot that still has a reader is kept. The next call drops the slot, after the other side has dropped its
    subscription.
    """
    present = {name for name, _, _ in connection.execute(_SUBSCRIPTIONS)}
    for pair in (_Pair(other, placement.here) for other in others):
        if pair.subscription in present:
            _unsubscribe(connection, pair)
    sent = [_Pair(placement.here, other) for other in others]
    slots = [pair.slot for pair in sent]
    connection.execute(_END_READERS, (slots,))
    connection.execute(f"{_DROP_SLOTS} AND NOT active", (slots,))
    for pair in sent:
        connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(pair.publication)))


def has_exchange(connection: psycopg.Connection[Any], placement: Placement, others: Sequence[str]) -> bool:
    """True if this database still has a subscription, slot or publication for the exchange with one of `others`."""
    present = {name for name, _, _ in connection.execute(_SUBSCRIPTIONS)}
    present |= {name for (name,) in connection.execute(_PUBLICATIONS)}
    present |= {name for (name,) in connection.execute(_SLOTS)}
    received = {_Pair(other, placement.here).subscription for other in others}
    sent = [_Pair(placement.here, other) for other in others]
    return not present.isdisjoint(received | {pair.publication for pair in sent} | {pair.slot for pair in sent})


def _has_lost_its_slot(pair: _Pair, address: str) -> bool:
    """True if the source answers, and has no usable slot for a subscription."""
    try:
        with psycopg.connect(address, autocommit=True, connect_timeout=_CONNECT_WITHIN) as source:
            return source.execute(_SLOT, (pair.slot,)).fetchone() is None
    except psycopg.Error:
        return False


def _unsubscribe(connection: psycopg.Connection[Any], pair: _Pair) -> None:
    """Drop a subscription, but not its slot at the source, because the source may not answer."""
    name = sql.Identifier(pair.subscription)
    connection.execute(sql.SQL("ALTER SUBSCRIPTION {} DISABLE").format(name))
    connection.execute(sql.SQL("ALTER SUBSCRIPTION {} SET (slot_name = NONE)").format(name))
    connection.execute(sql.SQL("DROP SUBSCRIPTION {}").format(name))


def _subscribe(connection: psycopg.Connection[Any], pair: _Pair, address: str) -> bool:
    """
    Make a subscription with its slot at the source.

    An existing slot of this name has no reader: an earlier attempt broke off, or a restore of this database lost the
    subscription.
    """
    try:
        with psycopg.connect(address, autocommit=True, connect_timeout=_CONNECT_WITHIN) as source:
            if pair.publication not in {name for (name,) in source.execute(_PUBLICATIONS)}:
                return False
            source.execute(
                f"{_DROP_SLOTS} AND NOT active",
                ([pair.slot],),
            )
            source.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (pair.slot,))
    except psycopg.Error as error:
        logger.warning("partition %s does not answer: %s", pair.source, str(error).strip())
        return False
    _forget_received(connection, pair.source)
    # The links are sent before the subscription exists, because until then the partition cannot agree to the end of a
    # run.
    offer_links(connection, pair.target, pair.source)
    try:
        connection.execute(
            sql.SQL(
                "CREATE SUBSCRIPTION {} CONNECTION {} PUBLICATION {} WITH (create_slot = false, slot_name = {}, streaming = parallel)"
            ).format(sql.Identifier(pair.subscription), address, sql.Identifier(pair.publication), pair.slot)
        )
    except psycopg.OperationalError as error:
        # The database server connects to the source, which may have stopped since, or cannot be reached from there.
        if connection.closed:
            raise
        logger.warning("the server cannot subscribe to partition %s: %s", pair.source, str(error).strip())
        return False
    logger.info("this partition receives the rows of partition %s", pair.source)
    return True


def offer_links(connection: psycopg.Connection[Any], here: str, target: str) -> int:
    """
    Send the links of the present runs to documents of `target` that were not sent as references; return the number of
    sent links.
    """
    return connection.execute(_OFFER, {"here": here, "target": target}).rowcount


def _forget_received(connection: psycopg.Connection[Any], source: str) -> None:
    """Delete the rows of a source: the first copy of a subscription brings all rows that the source still has."""
    with connection.transaction():
        connection.execute("DELETE FROM jobs_partitionfact WHERE source = %s", (source,))
        connection.execute("DELETE FROM jobs_foreignreference WHERE source = %s", (source,))
        connection.execute("DELETE FROM jobs_appliedreferences WHERE source = %s", (source,))
