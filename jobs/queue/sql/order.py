"""
The order of due documents in a lane: `seq` is a class in the high bits, then a number that only grows.

A document that already has its place in the run (it was returned, retried, or lost with its worker) comes before
a document without one. A run that ends at its document limit must be able to see, from the head of each lane, whether
an admitted document still waits.
"""

from typing import Final

from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Scan

# Bits of the number below the class.
CLASS_BITS: Final = 56

# SQL for the `seq` of a document that is new in its run, and for the `seq` of a document that was handed out before.
FRESH: Final = f"(1::bigint << {CLASS_BITS}) + nextval('jobs_document_number')"
AGAIN: Final = "nextval('jobs_document_number')"
# SQL that moves a document into the class of documents that were handed out before. The number in its `seq` stays.
KEPT: Final = f"item.seq & ((1::bigint << {CLASS_BITS}) - 1)"

# A number above every seq of a document that has its place in the run.
FIRST_FRESH: Final = 1 << CLASS_BITS

# Stages of documents of older runs that are due in a run, by its scan, as lists for SQL. In a full scan no document
# is due until it is discovered.
RECHECKED: Final = {
    Scan.FULL: "",
    Scan.RECHECK: f"{Stage.PENDING:d},{Stage.DONE:d}",
    Scan.CHANGES: f"{Stage.PENDING:d}",
}
