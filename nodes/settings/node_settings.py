"""Settings of any process of a cluster, whatever it does: its life, coordination store, database and metrics."""

import datetime as dt
from collections.abc import Callable
from typing import Any, Final

from nodes.settings.declaration import Applies, Rule, Setting
from nodes.settings.kinds import Choice, Seconds, Text, WholeNumber

_A_DAY: Final = 24 * 3600

HEARTBEAT_INTERVAL: Final = Setting(
    path="cluster.heartbeat_interval",
    environment="CRAWLCTL_HEARTBEAT_INTERVAL",
    kind=Seconds(least=0.05, most=3600),
    default=dt.timedelta(seconds=2),
    meaning="Interval between heartbeats of a node.",
    applies=Applies.IMMEDIATELY,
)
# Five missed beats in a row: one slow garbage collection must not move a thousand documents.
NODE_TIMEOUT: Final = Setting(
    path="cluster.node_timeout",
    environment="CRAWLCTL_NODE_TIMEOUT",
    kind=Seconds(least=0.1, most=_A_DAY),
    default=dt.timedelta(seconds=10),
    meaning="Silence after which a node is marked failed and its work goes to other nodes. A node keeps the timeout that it started with.",
    applies=Applies.AT_NEXT_START,
)
NODE_GIVE_UP: Final = Setting(
    path="cluster.node_give_up",
    environment="CRAWLCTL_NODE_GIVE_UP",
    kind=Seconds(),
    default=dt.timedelta(seconds=300),
    meaning="Time for which a node tries to reach its database before it exits. Its supervisor should restart it.",
    applies=Applies.IMMEDIATELY,
)

COORDINATION: Final = Setting(
    path="cluster.coordination",
    environment="CRAWLCTL_COORDINATION",
    kind=Choice(words=("DATABASE", "ZOOKEEPER")),
    default="DATABASE",
    meaning="Coordination store for membership, election of the main manager and assignments (docs/coordination.md). All nodes need the same value.",
)
ZOOKEEPER: Final = Setting(
    path="cluster.zookeeper",
    environment="CRAWLCTL_ZOOKEEPER",
    kind=Text(),
    default="",
    meaning="Address of ZooKeeper: `host:port,host:port/path`. The default path is `/crawlctl`.",
)
ZOOKEEPER_CREDENTIALS: Final = Setting(
    path="cluster.zookeeper_credentials",
    environment="CRAWLCTL_ZOOKEEPER_CREDENTIALS",
    kind=Text(),
    default="",
    meaning=(
        "Digest credentials for ZooKeeper, as `user:password`. They restrict access to the data there. If empty, every client of "
        "ZooKeeper has access."
    ),
)

DATABASE_URL: Final = Setting(
    path="process.database_url",
    environment="DATABASE_URL",
    kind=Text(),
    default="",
    meaning="Address of the database, PostgreSQL 15 or newer. If empty, this machine runs an embedded one.",
)
POOLED_DATABASE_URL: Final = Setting(
    path="process.pooled_database_url",
    environment="CRAWLCTL_POOLED_DATABASE_URL",
    kind=Text(),
    default="",
    meaning=(
        "Address of the database through a pooler that shares sessions (PgBouncer, `pool_mode = transaction`), for the work of "
        "managers and workers (docs/deploying.md). If empty, they use `DATABASE_URL`."
    ),
)

METRICS_PORT: Final = Setting(
    path="process.metrics_port",
    environment="CRAWLCTL_METRICS_PORT",
    kind=WholeNumber(most=65_535),
    default=0,
    meaning="Port of a process's metrics, without authentication (docs/metrics.md). With 0, it serves none.",
)
METRICS_ADDRESS: Final = Setting(
    path="process.metrics_address",
    environment="CRAWLCTL_METRICS_ADDRESS",
    kind=Text(),
    default="127.0.0.1",
    meaning="Listen address of that port. It has no authentication: choose an address that only Prometheus can reach.",
)


def _breach_of_timeout(value: Callable[[Setting[Any]], Any]) -> str:
    beat, timeout = value(HEARTBEAT_INTERVAL), value(NODE_TIMEOUT)
    if timeout >= 2 * beat:
        return ""
    return (
        f"The timeout of {timeout.total_seconds():g} s is too short: one late heartbeat would fail the node. Set at least two heartbeat "
        f"intervals, {2 * beat.total_seconds():g} s."
    )


def _an_address(value: Callable[[Setting[Any]], Any]) -> str:
    if value(COORDINATION) != "ZOOKEEPER" or value(ZOOKEEPER):
        return ""
    return "CRAWLCTL_COORDINATION is ZOOKEEPER, so this must be the address of ZooKeeper, such as host:2181."


def _breach_of_credentials(value: Callable[[Setting[Any]], Any]) -> str:
    user, colon, _password = value(ZOOKEEPER_CREDENTIALS).partition(":")
    return "" if bool(user) == bool(colon) else "This must be user:password, with a colon between them."


RULES: Final = (
    Rule(paths=(NODE_TIMEOUT.path, HEARTBEAT_INTERVAL.path), breach=_breach_of_timeout),
    Rule(paths=(ZOOKEEPER.path, COORDINATION.path), breach=_an_address),
    Rule(paths=(ZOOKEEPER_CREDENTIALS.path,), breach=_breach_of_credentials),
)
