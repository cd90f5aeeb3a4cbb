"""The content of the coordination store for its page: a cluster's members, pools, shares and locks."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.conf import settings

from nodes.coordination import membership_session
from nodes.coordination.names import BadName
from nodes.coordination.port import ClusterState, CoordinationError, LockSeen
from nodes.coordination.raw_tree import Branch, read_branch
from nodes.coordination.zookeeper_session import Address
from nodes.distributed.store_views import READ_TIMEOUT, read_shared_view, uses_zookeeper
from nodes.models import CoordinationCluster

# Largest number of lines for each list: members, jobs, locks.
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class MemberLine:
    """A member of a cluster. `jobs` are the jobs that it can do; they are unknown for a node that no longer exists."""

    node: str
    is_main: bool
    is_gone: bool
    jobs: Sequence[str]
    items: int


@dataclass(frozen=True, slots=True)
class PoolLine:
    job: str
    items: int
    placed: int


@dataclass(frozen=True, slots=True)
class ShownCluster:
    """A cluster at one moment: its first members, pools and locks, and the number of all of them."""

    main: str
    term: int
    members: Sequence[MemberLine]
    members_in_all: int
    pools: Sequence[PoolLine]
    pools_in_all: int
    locks: Sequence[LockSeen]
    locks_in_all: int


@dataclass(frozen=True, slots=True)
class CoordinationPage:
    """
    A store and one of its clusters. `view` is None if the cluster cannot be shown, with the reason in `problem`.

    `clusters` are the clusters that the database knows: all clusters of the database, and clusters of ZooKeeper that
    had a main manager.
    """

    store: str
    cluster: str
    clusters: Sequence[str]
    shown: ShownCluster | None
    problem: str = ""


def read_coordination(cluster: str, *, dsn: str) -> CoordinationPage:
    """
    Read the cluster with this name. For '', read the daemons' cluster, or the first one if it does not exist. `dsn` is
    the address of the database.
    """
    known = list(CoordinationCluster.objects.order_by("name").values_list("name", flat=True)[:_SHOWN])
    clusters = sorted({*known, membership_session.CLUSTER}) if uses_zookeeper() else known
    name = cluster or (
        membership_session.CLUSTER if membership_session.CLUSTER in clusters else next(iter(clusters), "")
    )
    view, problem = None, ""
    if name:
        try:
            view = _shown(*read_shared_view(name, dsn=dsn))
        except (BadName, CoordinationError) as error:
            problem = str(error)
    return CoordinationPage(
        store="ZooKeeper" if uses_zookeeper() else "PostgreSQL",
        cluster=name,
        clusters=clusters,
        shown=view,
        problem=problem,
    )


def read_raw_tree(*, path: str, page: int) -> Branch:
    """
    Read a node of ZooKeeper's tree as it is.

    Raises:
        CoordinationError: the node does not exist, or cannot be read; its message is the reason.
    """
    address = Address.parse(settings.CRAWLCTL_ZOOKEEPER, credentials=settings.CRAWLCTL_ZOOKEEPER_CREDENTIALS)
    return read_branch(address, path=path, page=page, timeout=READ_TIMEOUT)


def _shown(seen: ClusterState, locks: Sequence[LockSeen]) -> ShownCluster:
    items, placed = Counter(seen.shares.values()), Counter(item.job for item in seen.shares)
    nodes, jobs = sorted({*seen.members, *seen.gone}), sorted(seen.pools)
    return ShownCluster(
        main=seen.main or "",
        term=seen.term,
        members=[
            MemberLine(
                node=node,
                is_main=node == seen.main,
                is_gone=node in seen.gone,
                jobs=sorted(seen.members.get(node, ())),
                items=items[node],
            )
            for node in nodes[:_SHOWN]
        ],
        members_in_all=len(nodes),
        pools=[PoolLine(job=job, items=len(seen.pools[job]), placed=placed[job]) for job in jobs[:_SHOWN]],
        pools_in_all=len(jobs),
        locks=locks[:_SHOWN],
        locks_in_all=len(locks),
    )
