"""
The tree of a cluster in ZooKeeper, as in DJM; `main-term` and `database` are ours.

    alive/<node>                                ephemeral: the members
    leader-latch/<token>-<sequence>             ephemeral: the candidates for main node, in this order
    main-term                                   the term, and the latch under which it was taken
    database                                    if a database is used as well: its identity of the cluster
    workers/<node>/available/<job>              the jobs that a node can execute
    workers/<node>/assigned/<job>/<item>        the items assigned to a node
    work-pool/<job>/<item>                      the items of a job
    locks/<job>/work-share-<item>.lock          the node that holds an item
    work-pool-version, worker-version, worker-assignment-version
                                                incremented by each change, in the same transaction
"""

from dataclasses import dataclass
from typing import Final

from nodes.assignment.pools import WorkItem

# Content of our root node, so that no process writes into a tree of another application.
MARK: Final = b"crawlctl coordination"

_PREFIX: Final = "work-share-"
_SUFFIX: Final = ".lock"


@dataclass(frozen=True, slots=True)
class Tree:
    """The paths below the root of one cluster."""

    root: str

    @property
    def alive(self) -> str:
        return f"{self.root}/alive"

    @property
    def latches(self) -> str:
        return f"{self.root}/leader-latch"

    @property
    def term(self) -> str:
        return f"{self.root}/main-term"

    @property
    def database(self) -> str:
        return f"{self.root}/database"

    @property
    def workers(self) -> str:
        return f"{self.root}/workers"

    @property
    def pools(self) -> str:
        return f"{self.root}/work-pool"

    @property
    def all_locks(self) -> str:
        return f"{self.root}/locks"

    @property
    def pool_version(self) -> str:
        return f"{self.root}/work-pool-version"

    @property
    def worker_version(self) -> str:
        return f"{self.root}/worker-version"

    @property
    def assignment_version(self) -> str:
        return f"{self.root}/worker-assignment-version"

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the nodes that a cluster needs before its first member, in the order of their creation."""
        return (
            self.alive,
            self.latches,
            self.term,
            self.workers,
            self.pools,
            self.all_locks,
            self.pool_version,
            self.worker_version,
            self.assignment_version,
        )

    def member(self, node: str) -> str:
        return f"{self.alive}/{node}"

    def latch(self, name: str) -> str:
        return f"{self.latches}/{name}"

    def worker(self, node: str) -> str:
        return f"{self.workers}/{node}"

    def available(self, node: str, job: str = "") -> str:
        return f"{self.workers}/{node}/available" + (f"/{job}" if job else "")

    def assigned(self, node: str, job: str = "", item: str = "") -> str:
        return "/".join([f"{self.workers}/{node}/assigned", *filter(None, (job, item))])

    def pool(self, job: str, item: str = "") -> str:
        return f"{self.pools}/{job}" + (f"/{item}" if item else "")

    def locks(self, job: str) -> str:
        return f"{self.all_locks}/{job}"

    def lock(self, item: WorkItem) -> str:
        return f"{self.all_locks}/{item.job}/{_PREFIX}{item.item}{_SUFFIX}"


def item_of_lock(name: str) -> str | None:
    """Return the item whose lock has this node name; None if the node is not a lock."""
    if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
        return name[len(_PREFIX) : -len(_SUFFIX)]
    return None
