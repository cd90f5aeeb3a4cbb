"""
The index of addresses: it finds documents by any part of their address.

The database notes each new document in a table without indexes (`NewAddress`), in the transaction that inserts it. The
main manager moves thousands of these rows together into blocks. The addresses of a block are neighbours in the order of
text, so they are similar. A block is indexed by all sequences of three bytes ("grams") in its addresses. So a gram has
one entry for hundreds of documents, and not one entry for each document. A search reads the blocks with all grams of
the text, and the new addresses. Upper and lower case of ASCII letters are the same.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Final, LiteralString

import psycopg
from psycopg.rows import tuple_row

from jobs.queue.sql.retrying import retried
from nodes.membership.fences import TermHeld, hold_term

# Number of bytes of a gram. A text of fewer characters may have no gram, so the index cannot find it.
GRAM: Final = 3
# Least number of new addresses for which blocks are written, and the most that one statement moves.
TOGETHER: Final = 5_000
_AT_ONCE: Final = 20_000
# Number of addresses in a block.
_OF_A_BLOCK: Final = 256
# Largest number of documents whose keys a search returns. If more match, a list reads documents in its own order, and
# soon finds some that match.
MOST_FOUND: Final = 2_000

WAITING: Final[LiteralString] = f"SELECT FROM jobs_newaddress OFFSET {TOGETHER - 1}"

# Locks: NewAddress, skipping locked rows.
_TAKE: Final[LiteralString] = f"""
DELETE FROM jobs_newaddress
 WHERE ctid = ANY(ARRAY(SELECT ctid FROM jobs_newaddress LIMIT {_AT_ONCE} FOR UPDATE SKIP LOCKED))
RETURNING job_id, hash::text, address
"""
# One statement for all blocks: their addresses come in one array, and their grams as text.
_WRITE: Final[LiteralString] = """
INSERT INTO jobs_addressblock (job_id, documents, hashes, addresses, grams)
SELECT job_id, documents, (%(hashes)s::uuid[])[first:first + documents - 1],
       (%(addresses)s::text[])[first:first + documents - 1], grams::int[]
  FROM unnest(%(jobs)s::bigint[], %(firsts)s::int[], %(documents)s::int[], %(grams)s::text[])
       AS block(job_id, first, documents, grams)
"""
# In the collation C only ASCII letters have upper and lower case, so all other characters are compared byte by byte.
_HAS: Final[LiteralString] = 'position(%(contained)s in lower({} COLLATE "C")) > 0'
_FIND: Final[LiteralString] = f"""
SELECT found.hash::text FROM (
    SELECT listed.hash
      FROM (SELECT hashes, addresses FROM jobs_addressblock
             WHERE grams @> %(grams)s::int[] AND (%(job)s::bigint IS NULL OR job_id = %(job)s)) AS block
     CROSS JOIN LATERAL unnest(block.hashes, block.addresses) AS listed(hash, address)
     WHERE position(%(contained)s in listed.address) > 0
     UNION ALL
    SELECT hash FROM jobs_newaddress
     WHERE {_HAS.replace("{}", "address")} AND (%(job)s::bigint IS NULL OR job_id = %(job)s)) AS found
 LIMIT {MOST_FOUND + 1}
"""
# Jobs with at least twice as many addresses as documents. Most addresses without a document belong to documents that
# left the queue.
_SPARSE: Final[LiteralString] = f"""
SELECT job_id FROM jobs_addressblock AS block
 GROUP BY job_id
HAVING sum(documents) > {TOGETHER} + 2 * coalesce((
       SELECT sum(amount) FROM jobs_jobcounter AS counter
        WHERE counter.job_id = block.job_id AND measure = 'stage'), 0)
 ORDER BY job_id LIMIT 1
"""
# Locks: AddressBlock and NewAddress of the job, which only the main manager deletes.
_WRITE_AGAIN: Final[tuple[LiteralString, ...]] = (
    "DELETE FROM jobs_addressblock WHERE job_id = %(job)s",
    "DELETE FROM jobs_newaddress WHERE job_id = %(job)s",
    "INSERT INTO jobs_newaddress (job_id, hash, address) SELECT job_id, hash, identifier FROM jobs_queueitem WHERE job_id = %(job)s",
)


def lowered(text: str) -> str:
    """Return a text with its ASCII letters in lower case."""
    return text.encode().lower().decode()


def trigrams_of(addresses: Iterable[str]) -> list[int]:
    """Return all sequences of three bytes in these addresses, in lower case, as numbers."""
    text = lowered("\n".join(addresses)).encode()
    found = {text[place : place + GRAM] for place in range(len(text) - GRAM + 1)}
    return sorted(int.from_bytes(gram) for gram in found if b"\n" not in gram)


@retried
def write_blocks(connection: psycopg.Connection[Any], *, term: TermHeld) -> int:
    """
    Move the oldest new addresses into blocks; return the number of addresses.

    Raises:
        FenceRefused: another node is the main manager.
    """
    with connection.transaction():
        hold_term(connection, term)
        taken = sorted(connection.execute(_TAKE).fetchall(), key=lambda row: (row[0], row[2]))
        if taken:
            connection.execute(_WRITE, _blocks_of(taken))
    return len(taken)


def _blocks_of(rows: Sequence[tuple[int, str, str]]) -> dict[str, list[Any]]:
    """Return the blocks of sorted rows of (job, hash, address), as parameters of `_WRITE`."""
    addresses = [lowered(address) for _job, _hash, address in rows]
    jobs, firsts, documents, grams = [], [], [], []
    for job, places in itertools.groupby(range(len(rows)), key=lambda place: rows[place][0]):
        of_job = list(places)
        for begin in range(0, len(of_job), _OF_A_BLOCK):
            block = of_job[begin : begin + _OF_A_BLOCK]
            jobs.append(job)
            firsts.append(block[0] + 1)
            documents.append(len(block))
            of_block = trigrams_of(addresses[block[0] : block[-1] + 1])
            grams.append("{" + ",".join(map(str, of_block)) + "}")
    hashes = [hash_ for _job, hash_, _address in rows]
    return {
        "jobs": jobs,
        "firsts": firsts,
        "documents": documents,
        "grams": grams,
        "hashes": hashes,
        "addresses": addresses,
    }


def rewrite_sparse_blocks(connection: psycopg.Connection[Any], *, term: TermHeld) -> int:
    """
    If most documents in the blocks of a job have left the queue, store the addresses of its documents as new addresses
    again, so that new blocks are made. Return the number of jobs.

    Raises:
        FenceRefused: another node is the main manager.
    """
    with connection.transaction():
        hold_term(connection, term)
        sparse = connection.execute(_SPARSE).fetchone()
        if sparse is None:
            return 0
        for statement in _WRITE_AGAIN:
            connection.execute(statement, {"job": sparse[0]})
    return 1


def find(connection: psycopg.Connection[Any], text: str, *, job_id: int | None) -> list[str] | None:
    """
    Return the hashes of documents whose address contains a text, in one job or all; None for more than `MOST_FOUND`
    documents.

    Some of these documents may have left the queue.
    """
    facts: dict[str, Any] = {"contained": lowered(text), "grams": trigrams_of([text]), "job": job_id}
    with connection.cursor(row_factory=tuple_row) as cursor:
        found = [row[0] for row in cursor.execute(_FIND, facts)]
    return sorted(set(found)) if len(found) <= MOST_FOUND else None


def condition(
    connection: psycopg.Connection[Any], text: str, *, job_id: int | None
) -> tuple[LiteralString, dict[str, Any]]:
    """Return the condition that the address of a document `item` contains a text, and its parameters."""
    found = find(connection, text, job_id=job_id)
    if found is None:
        return _HAS.replace("{}", "item.identifier"), {"contained": lowered(text)}
    return "item.hash = ANY(%(found)s::uuid[])", {"found": found}


def forget(connection: psycopg.Connection[Any], *, job_id: int) -> None:
    """Delete all addresses of a job."""
    for statement in _WRITE_AGAIN[:2]:
        connection.execute(statement, {"job": job_id})
