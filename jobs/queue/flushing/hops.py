"""
Hop counts: the least number of links of each limited type from a seed to a document, exact as links come and go.

The count of type T of a document is a least value over the links to it: the source's count, plus one if the link has
type T. A seed's count is 0. A document is *within* its job's limits if each of its counts is. Only counts within a
limit are stored, each with the source of the link that gave it (`via`). They form a tree for each type, since a source
always had its count before it passed the count on. So

- a new link offers counts to its target, and each document whose count falls offers it to its own targets;
- a deleted link matters only if its target got its count over this link. Then the counts of the whole tree below it are
deleted. After that, each document of this tree takes the best of the links that are left, and offers its count again.

A document outside the limits is never read and has no links: a document that leaves the limits loses its links.
A document that returns within the limits is read again, and names its links again.

In the other modes of ManifoldCF (`no_delete`, `never_delete`) a link counts even after it was deleted.

All changes happen under one lock for each job, held to the end of the transaction. Otherwise two flushes that add and
delete links to the same document would each see only a part of the links. The lock comes after Job in the order of
locks and before Budget. Jobs without limits skip this module.
"""

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.job import HopMode

# A link: its target, and its type.
Target = tuple[str, str]

# First part of the advisory lock keys of hop counts; the job id is added.
_LOCK_CLASS: Final = 0x686F70 << 40
_ROOT_LINK: Final = ""

# Locks: the job's hop counts, by job.
_HOLD: Final[LiteralString] = """
SELECT pg_advisory_xact_lock(%(lock_class)s + job_id)
  FROM (SELECT job_id FROM unnest(%(jobs)s::bigint[]) AS job(job_id) ORDER BY job_id OFFSET 0) AS ordered
"""

_LIMITS: Final[LiteralString] = "unnest(%(types)s::text[], %(most)s::int[]) AS allowed(link_type, most)"

_ADD_LINKS: Final[LiteralString] = """
INSERT INTO jobs_link (job_id, source, target, link_type)
SELECT %(job)s, source, target, link_type
  FROM unnest(%(sources)s::uuid[], %(targets)s::uuid[], %(link_types)s::text[]) AS named(source, target, link_type)
ON CONFLICT DO NOTHING
"""
# Copies the links in `jobs_outlinks`, which have no type, for documents that were read before their job had hop limits.
_ADOPT_LINKS: Final[LiteralString] = """
INSERT INTO jobs_link (job_id, source, target, link_type)
SELECT stored.job_id, stored.hash, target, CASE WHEN stored.is_redirect THEN 'redirect' ELSE %(link_type)s END
  FROM jobs_outlinks AS stored CROSS JOIN LATERAL unnest(stored.targets) AS target
 WHERE stored.job_id = %(job)s AND stored.hash = ANY(%(sources)s::uuid[])
   AND NOT EXISTS (SELECT FROM jobs_link AS known WHERE known.job_id = stored.job_id AND known.source = stored.hash)
ON CONFLICT DO NOTHING
"""
# Deletes the stored links of the documents in `read` that these documents no longer contain.
_DROP_LINKS: Final[LiteralString] = """
DELETE FROM jobs_link
 WHERE job_id = %(job)s AND source = ANY(%(read)s::uuid[])
   AND (source, target, link_type) NOT IN (
       SELECT * FROM unnest(%(sources)s::uuid[], %(targets)s::uuid[], %(link_types)s::text[]))
RETURNING source, target
"""
# Finds hop counts whose link no longer exists. Such a link was deleted while the mode of the job let deleted links
# count.
_FIND_WITHOUT_LINK: Final[LiteralString] = """
SELECT DISTINCT known.via AS source, known.hash AS target
  FROM jobs_hopcount AS known
 WHERE known.job_id = %(job)s AND known.hash = ANY(%(hashes)s::uuid[])
   AND NOT EXISTS (SELECT FROM jobs_link AS link
                    WHERE link.job_id = %(job)s AND link.source = known.via AND link.target = known.hash)
"""
_STRIP: Final[LiteralString] = "DELETE FROM jobs_link WHERE job_id = %(job)s AND source = ANY(%(silent)s::uuid[])"
_TARGETS: Final[LiteralString] = (
    "SELECT DISTINCT target FROM jobs_link WHERE job_id = %(job)s AND source = ANY(%(sources)s::uuid[])"
)
_FORGET: Final[LiteralString] = "DELETE FROM jobs_hopcount WHERE job_id = %(job)s AND hash = ANY(%(hashes)s::uuid[])"

_INSERT_SEEDS: Final[LiteralString] = f"""
INSERT INTO jobs_hopcount (job_id, hash, link_type, distance, via)
SELECT %(job)s, seed.hash, allowed.link_type, 0, %(root)s
  FROM unnest(%(targets)s::uuid[]) AS seed(hash) CROSS JOIN {_LIMITS}
ON CONFLICT (job_id, hash, link_type) DO UPDATE SET distance = 0, via = excluded.via
RETURNING hash, link_type, distance
"""

# Reads the stored counts of documents, with which offering begins.
_STORED: Final[LiteralString] = f"""
SELECT known.hash, known.link_type, known.distance
  FROM jobs_hopcount AS known JOIN {_LIMITS} USING (link_type)
 WHERE known.job_id = %(job)s AND known.hash = ANY(%(hashes)s::uuid[]) AND known.distance <= allowed.most
"""
# Each of these counts is offered along the links of its document; a target that improves takes it.
_OFFER: Final[LiteralString] = f"""
INSERT INTO jobs_hopcount AS known (job_id, hash, link_type, distance, via)
SELECT %(job)s, offered.hash, offered.link_type, offered.distance, offered.via
  FROM (SELECT DISTINCT ON (link.target, given.link_type) link.target AS hash, given.link_type,
               given.distance + (link.link_type = given.link_type)::int AS distance, link.source AS via
          FROM unnest(%(hashes)s::uuid[], %(link_types)s::text[], %(distances)s::int[]) AS given(hash, link_type, distance)
          JOIN {_LIMITS} USING (link_type)
          JOIN jobs_link AS link ON link.job_id = %(job)s AND link.source = given.hash
         WHERE given.distance + (link.link_type = given.link_type)::int <= allowed.most
         ORDER BY link.target, given.link_type, 3, link.source) AS offered
  LEFT JOIN jobs_hopcount AS held
    ON held.job_id = %(job)s AND held.hash = offered.hash AND held.link_type = offered.link_type
 WHERE held.distance IS NULL OR held.distance > offered.distance
ON CONFLICT (job_id, hash, link_type) DO UPDATE SET distance = excluded.distance, via = excluded.via
RETURNING hash, link_type, distance
"""
# Deletes the counts that deleted links gave, or documents that have no links any more, with the trees below these
# counts.
_DELETE_TREES: Final[LiteralString] = """
WITH RECURSIVE deleted AS (
    (SELECT known.hash, known.link_type
       FROM unnest(%(sources)s::uuid[], %(targets)s::uuid[]) AS gone(source, target)
       JOIN jobs_hopcount AS known ON known.job_id = %(job)s AND known.hash = gone.target AND known.via = gone.source
      UNION ALL
     SELECT known.hash, known.link_type
       FROM jobs_hopcount AS known WHERE known.job_id = %(job)s AND known.via = ANY(%(silent)s::uuid[]))
    UNION
    SELECT below.hash, below.link_type
      FROM deleted
      JOIN jobs_hopcount AS below ON below.job_id = %(job)s AND below.via = deleted.hash
           AND below.link_type = deleted.link_type
)
DELETE FROM jobs_hopcount AS known
 USING deleted
 WHERE known.job_id = %(job)s AND known.hash = deleted.hash AND known.link_type = deleted.link_type
RETURNING known.hash, known.link_type
"""
# Each document whose count was deleted takes the best remaining link from documents that kept their counts.
_RISE: Final[LiteralString] = f"""
INSERT INTO jobs_hopcount (job_id, hash, link_type, distance, via)
SELECT DISTINCT ON (deleted.hash, deleted.link_type)
       %(job)s, deleted.hash, deleted.link_type,
       coalesce(known.distance, 0) + (link.link_type = deleted.link_type)::int, link.source
  FROM unnest(%(hashes)s::uuid[], %(link_types)s::text[]) AS deleted(hash, link_type)
  JOIN {_LIMITS} USING (link_type)
  JOIN jobs_link AS link ON link.job_id = %(job)s AND link.target = deleted.hash
  LEFT JOIN jobs_hopcount AS known ON known.job_id = %(job)s AND known.hash = link.source
       AND known.link_type = deleted.link_type
 WHERE known.distance + (link.link_type = deleted.link_type)::int <= allowed.most OR link.link_type = ''
 ORDER BY deleted.hash, deleted.link_type, 4, link.source
RETURNING hash, link_type, distance
"""
_WITHIN: Final[LiteralString] = f"""
SELECT known.hash
  FROM jobs_hopcount AS known JOIN {_LIMITS} USING (link_type)
 WHERE known.job_id = %(job)s AND known.hash = ANY(%(hashes)s::uuid[]) AND known.distance <= allowed.most
 GROUP BY known.hash
HAVING count(*) = cardinality(%(types)s::text[])
"""


@dataclass(frozen=True, slots=True)
class HopRules:
    """
    The limits of a job: (type of link, highest count), at least one. `is_accurate` is True if deleted links no longer
    count.
    """

    limits: tuple[tuple[str, int], ...]
    is_accurate: bool = True


def rules_of(*, hop_limits: Mapping[str, int], hop_mode: str) -> HopRules | None:
    """Return the rules of a stored job; None if it has no limits."""
    if not hop_limits:
        return None
    return HopRules(tuple(sorted(hop_limits.items())), is_accurate=hop_mode == HopMode.ACCURATE)


def hold(cursor: psycopg.Cursor[Any], jobs: Iterable[int]) -> None:
    """Lock the hop counts of these jobs exclusively until the transaction ends."""
    cursor.execute(_HOLD, {"jobs": sorted(jobs), "lock_class": _LOCK_CLASS})


@dataclass(slots=True)
class HopGraph:
    """
    The links and hop counts of one job, whose lock is held.

    `touched` collects the documents with a changed count: they may have come within the limits, or left them.
    """

    cursor: psycopg.Cursor[Any]
    job_id: int
    rules: HopRules
    touched: set[str] = field(default_factory=set)

    def add_seeds(self, seeds: Collection[str], *, run_no: int) -> None:
        """Make these documents seeds of a run."""
        root = _root_of(run_no)
        targets = list(seeds)
        links = {"sources": [root] * len(targets), "targets": targets, "link_types": [_ROOT_LINK] * len(targets)}
        self._execute(_ADD_LINKS, links)
        self._offer_on(self._execute(_INSERT_SEEDS, {"targets": targets, "root": root}))

    def remove_old_seeds(self, *, run_no: int) -> None:
        """
        Delete the links to the seeds of earlier runs, so that a document that only earlier runs had as a seed is no
        seed any more.
        """
        if self.rules.is_accurate:
            self._silence([_root_of(older).hex for older in range(1, run_no)])

    def read(self, links: Mapping[str, Collection[Target]], *, unread: Collection[str] = ()) -> None:
        """
        Store the links of documents that were read; `unread` ones keep their stored links.

        A document outside the limits has no links, unless another document of this call brings it in.
        """
        # All new links come first, so that a document that loses one link and gets another one keeps its count.
        self._offer_from(unread)
        waiting = set(links)
        while ready := self.within(waiting):
            waiting -= ready
            self._execute(_ADD_LINKS, _columns({source: links[source] for source in ready}))
            self._offer_from(ready)
        if self.rules.is_accurate:
            gone = self._execute(_DROP_LINKS, {"read": list(links), **_columns(links)})
            self._settle(gone=gone + self._execute(_FIND_WITHOUT_LINK, {"hashes": list(links)}))

    def adopt(self, unread: Collection[str], *, link_type: str) -> None:
        """
        Take over the stored links of documents that were last read before the job had limits, as links of this type.

        Otherwise the children of a page that fails in the first run with limits would be out of reach.
        """
        if unread:
            self.cursor.execute(_ADOPT_LINKS, {"job": self.job_id, "sources": list(unread), "link_type": link_type})

    def drop(self, documents: Collection[str]) -> None:
        """Delete the links of these documents, whose rows are deleted."""
        if self.rules.is_accurate:
            # Hop counts of these documents come from links of other documents. Without such a link, the counts are
            # deleted.
            self._silence(documents)
        else:
            self.forget(documents)
        self.touched.difference_update(documents)

    def forget(self, documents: Collection[str]) -> None:
        """Delete the links and counts of documents of a job whose documents are all deleted."""
        self._execute(_STRIP, {"silent": list(documents)})
        self._execute(_FORGET, {"hashes": list(documents)})

    def targets_of(self, documents: Collection[str]) -> set[str]:
        """Return the link targets of these documents."""
        if not documents:
            return set()
        return {row.target.hex for row in self._execute(_TARGETS, {"sources": list(documents)})}

    def within(self, documents: Collection[str]) -> set[str]:
        """Return the documents among these that are within all limits."""
        if not documents:
            return set()
        return {row.hash.hex for row in self._execute(_WITHIN, {"hashes": list(documents)})}

    def _offer_from(self, documents: Collection[str]) -> None:
        self._offer_on(self._offer(self._execute(_STORED, {"hashes": list(documents)})))

    def _offer_on(self, counts: list[Any]) -> None:
        """Pass these new counts on along the links, step by step, until no further document gets a smaller count."""
        while counts:
            self.touched.update(row.hash.hex for row in counts)
            counts = self._offer(counts)

    def _offer(self, counts: list[Any]) -> list[Any]:
        """
        Pass counts on along the links of their documents. Return the counts that targets took, because they are smaller
        than before.
        """
        given = {
            "hashes": [row.hash for row in counts],
            "link_types": [row.link_type for row in counts],
            "distances": [row.distance for row in counts],
        }
        return self._execute(_OFFER, given)

    def _silence(self, documents: Collection[str]) -> None:
        """Delete all links of these documents."""
        self._execute(_STRIP, {"silent": list(documents)})
        self._settle(silent=documents)

    def _settle(self, *, gone: Collection[Any] = (), silent: Collection[str] = ()) -> None:
        """
        Apply the deletion of the links `gone`, and of all links of the `silent` documents, to the counts.

        Documents that thereby leave the limits lose all their links, too.
        """
        while gone or silent:
            deleted = self._execute(
                _DELETE_TREES,
                {
                    "sources": [row.source for row in gone],
                    "targets": [row.target for row in gone],
                    "silent": list(silent),
                },
            )
            documents = {row.hash.hex for row in deleted}
            self.touched |= documents
            counts = {"hashes": [row.hash for row in deleted], "link_types": [row.link_type for row in deleted]}
            self._offer_on(self._execute(_RISE, counts))
            gone, silent = (), documents - self.within(documents)
            self._execute(_STRIP, {"silent": list(silent)})

    def _execute(self, statement: LiteralString, facts: Mapping[str, Any]) -> list[Any]:
        limits = self.rules.limits
        given = {
            "job": self.job_id,
            "types": [link_type for link_type, _ in limits],
            "most": [most for _, most in limits],
            **facts,
        }
        self.cursor.execute(statement, given)
        return self.cursor.fetchall() if self.cursor.description else []


def forget_links(connection: psycopg.Connection[Any], *, job_id: int) -> None:
    """Delete all links and counts of a job."""
    for table in ("jobs_link", "jobs_hopcount"):
        connection.execute(f"DELETE FROM {table} WHERE job_id = %s", (job_id,))


def _root_of(run_no: int) -> uuid.UUID:
    """Return the source of the links to the seeds of a run. It is smaller than any hash of a document."""
    return uuid.UUID(int=run_no)


def _columns(links: Mapping[str, Collection[Target]]) -> dict[str, list[str]]:
    flat = [(source, *target) for source, targets in links.items() for target in targets]
    return {
        "sources": [source for source, _, _ in flat],
        "targets": [target for _, target, _ in flat],
        "link_types": [link_type for _, _, link_type in flat],
    }
