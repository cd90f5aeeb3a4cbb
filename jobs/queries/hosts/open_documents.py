"""Documents that workers are processing, by host, and whether the workers could take more."""

from collections.abc import Mapping
from dataclasses import dataclass

from jobs.queries.cluster.nodes import read_live_nodes
from nodes.database.shared_results import cached_in_moment
from nodes.lifecycle import NodeKind


@dataclass(frozen=True, slots=True)
class OpenDocuments:
    """
    Documents that workers are processing, as of their last heartbeats.

    `by_host` is None if no live worker has reported. `are_full` is true if every worker has reached its limit of
    claims.
    """

    by_host: Mapping[str, int] | None
    are_full: bool

    def at(self, host_id: int) -> int | None:
        """Return the number of documents of one host in progress; None if no worker has reported."""
        return None if self.by_host is None else self.by_host.get(str(host_id), 0)


@cached_in_moment
def read_open_documents() -> OpenDocuments:
    workers = [node for node in read_live_nodes() if node.kind == NodeKind.WORKER]
    reports = [open_ for node in workers if isinstance(open_ := node.progress.get("open"), dict)]
    by_host: dict[str, int] = {}
    for open_ in reports:
        for host_id, documents in open_.items():
            by_host[host_id] = by_host.get(host_id, 0) + documents
    return OpenDocuments(
        by_host if reports else None, bool(workers) and all(node.claimed >= node.limit > 0 for node in workers)
    )
