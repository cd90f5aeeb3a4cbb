"""A node's way to a cluster, in whichever store was chosen."""

import datetime as dt
from typing import Final

from nodes.connections import Dsn
from nodes.coordination.database import DatabaseCoordination, DatabaseFloor
from nodes.coordination.port import Coordination
from nodes.coordination.zookeeper import ZooKeeperCoordination
from nodes.coordination.zookeeper_session import Address

DATABASE: Final = "DATABASE"
ZOOKEEPER: Final = "ZOOKEEPER"


def open_coordination(
    store: str,
    *,
    cluster: str,
    node: str,
    timeout: dt.timedelta,
    dsn: Dsn = "",
    zookeeper: str = "",
    credentials: str = "",
    only_looks: bool = False,
) -> Coordination:
    """
    Return the way of a node to a cluster, which has not been connected yet.

    `dsn` is the database's address, and `zookeeper` is `host:port,host:port/path`: beside a database, ZooKeeper has the
    floor of its terms there. Who `only_looks` is no node, and writes nothing.
    """
    if store == ZOOKEEPER:
        return ZooKeeperCoordination(
            address=Address.parse(zookeeper, credentials=credentials),
            cluster=cluster,
            node=node,
            timeout=timeout,
            only_looks=only_looks,
            floor=DatabaseFloor(dsn=dsn, cluster=cluster, node=node, timeout=timeout) if dsn else None,
        )
    return DatabaseCoordination(dsn=dsn, cluster=cluster, node=node, timeout=timeout)
