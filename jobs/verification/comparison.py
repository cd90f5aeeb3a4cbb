"""The comparison of a document in an output with its record. Pure functions, without a database."""

from collections.abc import Mapping

from jobs.connectors.output.base import Held
from jobs.models.verification import Fault
from jobs.queue.verified import Record


def compare(recorded: Record | None, held: Held | None) -> Fault | None:
    """
    Return the fault of a document in an output against its record; None if both agree.

    A document is stale if the output has another version than the record, or wrote it before the recorded moment.
    """
    if recorded is None:
        return None if held is None else Fault.GHOST
    if held is None:
        return Fault.MISSING
    if held.version is not None:
        return None if held.version == recorded.version else Fault.STALE
    return Fault.STALE if held.moment is not None and held.moment < recorded.indexed_at else None


def candidates(recorded: Mapping[str, Record], held: Mapping[str, Held]) -> list[str]:
    """
    Return the hashes of documents that seem to differ, in order. Some may agree in fact, because a crawl wrote them
    between the two reads.
    """
    return sorted(
        hash_ for hash_ in recorded.keys() | held.keys() if compare(recorded.get(hash_), held.get(hash_)) is not None
    )
