"""Metrics of every node: its life in the cluster, and its database."""

from typing import Final

from nodes.metrics.kinds import NODES, Counter, Gauge, Metric, Process

_MANAGERS: Final = frozenset({Process.MANAGER})

NODE: Final = Gauge(
    name="crawlctl_node_info",
    labels=("node_id", "kind", "name", "scope"),
    meaning="Always 1; the labels identify the node of this process.",
    shown_by=NODES,
)
BEATS: Final = Counter(
    name="crawlctl_node_beats_total",
    labels=("result",),
    from_zero=(("counted",), ("missed",), ("skipped",)),
    meaning="Heartbeats: counted by the database, missed without an answer, or skipped because the work hangs.",
    shown_by=NODES,
)
BEAT_AGE: Final = Gauge(
    name="crawlctl_node_heartbeat_age_seconds",
    meaning="Seconds since the last counted heartbeat; infinite before the first one, and after the node lost its membership.",
    shown_by=NODES,
)
TRUSTED: Final = Gauge(
    name="crawlctl_node_trusted",
    meaning="1 while the node may start requests, because it can trust its membership. 0 if its heartbeats are late.",
    shown_by=NODES,
)
TERM: Final = Gauge(
    name="crawlctl_node_term",
    meaning="Term of the main manager of this node's scope, as of its last heartbeat.",
    shown_by=NODES,
)
IS_MAIN: Final = Gauge(name="crawlctl_node_is_main", meaning="1 for the main manager of its scope.", shown_by=_MANAGERS)
IS_MEMBER: Final = Gauge(
    name="crawlctl_node_is_member",
    meaning="1 while the node has its membership session in ZooKeeper, else 0; only with ZooKeeper.",
    shown_by=NODES,
)
ELECTIONS: Final = Counter(
    name="crawlctl_elections_won_total",
    labels=("replaced",),
    from_zero=(("nobody",), ("failed main",)),
    meaning="Times that this manager became main manager: of a scope without one, or replacing one that it marked failed.",
    shown_by=_MANAGERS,
)
MARKED_FAILED: Final = Counter(
    name="crawlctl_nodes_marked_failed_total",
    meaning="Nodes that this manager marked failed as the main manager.",
    shown_by=_MANAGERS,
)
REFUSED_WRITES: Final = Counter(
    name="crawlctl_refused_writes_total",
    labels=("fence",),
    from_zero=(("node",), ("term",), ("group",), ("claim",)),
    meaning="Writes that a fence refused, because the process was replaced; for claims, the number of documents.",
    shown_by=NODES,
)
CONNECTS: Final = Counter(
    name="crawlctl_database_connects_total",
    labels=("purpose",),
    meaning="Connections to the database, by purpose. Each one after the first of a purpose is a reconnect.",
    shown_by=NODES,
)

METRICS: Final[tuple[Metric, ...]] = (
    NODE,
    BEATS,
    BEAT_AGE,
    TRUSTED,
    TERM,
    IS_MAIN,
    IS_MEMBER,
    ELECTIONS,
    MARKED_FAILED,
    REFUSED_WRITES,
    CONNECTS,
)
