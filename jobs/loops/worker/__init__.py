"""
The worker: it takes batches, fetches documents and flushes their outcomes.

One event loop crawls, one thread talks to the database, and one thread sends heartbeats. A document passes through
these parts: `Taking` gets its turn, `Serving` queues the turn in its bin and starts the document when the bin's pace
allows, `Processing` runs the connector, `Results` keeps the outcome, and `Flushing` writes it. `Upkeep` keeps all of
that consistent with the database, `Indexing` makes written texts searchable, and `Worker` is the life of the node.
"""

from jobs.loops.worker.settings import WorkerFailed, WorkerSettings
from jobs.loops.worker.worker import Worker

__all__ = ["Worker", "WorkerFailed", "WorkerSettings"]
