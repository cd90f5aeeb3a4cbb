"""
The documents of a job in all partitions, for a rehearsal.

A change of a job applies in all partitions, and links lead from documents of one partition to documents of another. So
all documents are compared together, as if they were in one database: each partition has a reader, and all readers are
asked for the links of a document.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, Final, LiteralString

import psycopg

from jobs.models import OutputConnection
from jobs.partitions.open_connections import open_others
from jobs.queries.rehearsals.comparing import EXAMPLES, Group, Known, Links
from jobs.queries.rehearsals.documents import Progress, Reader, Reading, Sample

# Distance between the lane numbers of two partitions. It is so large that no two lanes have the same number.
_LANES_OF_ONE: Final = 1 << 56
_LOCAL_JOB: Final[LiteralString] = "SELECT job_id FROM jobs_partitionedjob WHERE number = %s"
_LOCAL_OUTPUTS: Final[LiteralString] = "SELECT name, id FROM jobs_outputconnection WHERE name = ANY(%s)"
_LANES: Final[LiteralString] = """
SELECT lane.id, bin.name FROM jobs_seed AS seed
  JOIN jobs_lane AS lane ON lane.seed_id = seed.id
  JOIN jobs_bin AS bin ON bin.id = lane.bin_id
 WHERE seed.job_id = %s
"""
_REDIRECTS: Final[LiteralString] = "SELECT source, target FROM jobs_seedredirect WHERE job_id = %s AND is_followed"


@dataclass(frozen=True, slots=True)
class Others:
    """
    The job in the databases of other partitions: a reader for each, the host of each lane, and redirects of seeds.

    `silent` partitions do not answer.
    """

    readers: Sequence[Reader] = ()
    lanes: Mapping[int, str] = field(default_factory=dict)
    redirects: Sequence[tuple[str, str]] = ()
    silent: Sequence[str] = ()


@contextmanager
def open_readers(
    job_id: int, outputs: Collection[int], *, among: Collection[str] | None, note: Progress
) -> Iterator[tuple[Others, Mapping[str, psycopg.Connection[Any]]]]:
    """
    Yield the job in other partitions (or only in the partitions `among`), with their connections. Outside of the
    control partition, there are no others.

    Raises:
        psycopg.Error: a partition that was connected no longer answers.
    """
    with ExitStack() as stack:
        opened = stack.enter_context(open_others(among=among))
        if not opened.connections:
            yield Others(silent=opened.silent), {}
            return
        names = dict(OutputConnection.objects.filter(pk__in=outputs).values_list("name", "pk"))
        readers: list[Reader] = []
        lanes: dict[int, str] = {}
        redirects: list[tuple[str, str]] = []
        silent = list(opened.silent)
        for place, (partition, connection) in enumerate(opened.connections.items(), start=1):
            shift = place * _LANES_OF_ONE
            try:
                found = connection.execute(_LOCAL_JOB, (job_id,)).fetchone()
                if found is None:
                    continue
                (local,) = found
                known = connection.execute(_LOCAL_OUTPUTS, (list(names),)).fetchall()
                lanes |= {shift + lane: name for lane, name in connection.execute(_LANES, (local,))}
                redirects += connection.execute(_REDIRECTS, (local,)).fetchall()
            except psycopg.OperationalError:
                silent.append(partition)
                continue
            there = {names[name]: number for name, number in known}
            readers.append(Reader(connection, local, note, outputs=there, shift=shift))
        yield Others(readers, lanes, redirects, silent), opened.connections


class Readers:
    """The readers of several partitions as one."""

    def __init__(self, readers: Sequence[Reading]) -> None:
        self._readers = readers

    def documents(self) -> Iterator[Known]:
        for reader in self._readers:
            yield from reader.documents()

    def links_of(self, keys: Set[bytes]) -> Iterator[Links]:
        for reader in self._readers:
            yield from reader.links_of(keys)

    def named(self, keys: Collection[bytes]) -> list[str]:
        return sorted(identifier for reader in self._readers for identifier in reader.named(keys))

    def group(self, keys: Set[bytes]) -> Group:
        return Group(len(keys), self.named(nsmallest(EXAMPLES, keys)))

    def held(self, keys: Collection[bytes], outputs: Sequence[int]) -> Counter[int]:
        found: Counter[int] = Counter()
        for reader in self._readers:
            found.update(reader.held(keys, outputs))
        return found

    def sample(self) -> Sample:
        """
        Return the refused addresses of all partitions in the order of their keys. A partition whose sample is not whole
        has further addresses behind its last one. So the result ends at the lowest of these last keys, and is complete
        up to there.
        """
        samples = [reader.sample() for reader in self._readers]
        ends = [sample.rows[-1].key for sample in samples if not sample.is_whole]
        rows = {row.key: row for sample in samples for row in sample.rows if not ends or row.key <= min(ends)}
        return Sample([rows[key] for key in sorted(rows)], is_whole=not ends)
