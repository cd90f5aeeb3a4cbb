"""
The tree of a cluster in ZooKeeper, as DJM has it; `main-term` and `database` are ours.

    alive/<node>                                ephemeral: the members
    leader-latch/<token>-<sequence>             ephemeral: who would be main, in this order
    main-term                                   the term, and under which latch it was taken
    database                                    where there is one beside: by what it knows the cluster
    workers/<node>/available/<job>              what a node can do
    workers/<node>/assigned/<job>/<item>        what it is to do
    work-pool/<job>/<item>                      what there is to do
    locks/<job>/work-share-<item>.lock          who has an item in hand
    work-pool-version, worker-version, worker-assignment-version
                                                counted up by whoever changes the one, in the same transaction
"""

from dataclasses import dataclass
from typing import Final

from nodes.assignment.pools import WorkItem

# What stands in the root of ours, so that nobody works in a tree of something else.
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
        """What a cluster needs before its first member, in the order in which it is made."""
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
    """The item whose lock a node of this name is; None where it is no lock."""
    if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
        return name[len(_PREFIX) : -len(_SUFFIX)]
    return None
