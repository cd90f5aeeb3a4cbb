"""The connection of a node to its cluster, in the chosen store."""

import datetime as dt
from typing import Final

from nodes.coordination.database import DatabaseCoordination, DatabaseTermBound
from nodes.coordination.port import Coordination
from nodes.coordination.zookeeper import ZooKeeperCoordination
from nodes.coordination.zookeeper_session import Address
from nodes.database.connections import Dsn

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
    read_only: bool = False,
) -> Coordination:
    """
    Return a node's connection to its cluster, not yet connected.

    `dsn` is the database's address, and `zookeeper` is `host:port,host:port/path`. If both are given, ZooKeeper keeps
    the lower bound of its terms in the database. With `read_only` the process is not a node, and writes nothing.
    """
    if store == ZOOKEEPER:
        return ZooKeeperCoordination(
            address=Address.parse(zookeeper, credentials=credentials),
            cluster=cluster,
            node=node,
            timeout=timeout,
            read_only=read_only,
            term_bound=DatabaseTermBound(dsn=dsn, cluster=cluster, node=node, timeout=timeout) if dsn else None,
        )
    return DatabaseCoordination(dsn=dsn, cluster=cluster, node=node, timeout=timeout)
