"""Figures of every node: its life in the cluster, and its database."""

from typing import Final

from nodes.metrics.figures import NODES, Count, Figure, Level, Process

_MANAGERS: Final = frozenset({Process.MANAGER})

NODE: Final = Level(
    name="crawlctl_node_info",
    labels=("node_id", "kind", "name", "scope"),
    meaning="Always 1: its labels say which node this process is.",
    shown_by=NODES,
)
BEATS: Final = Count(
    name="crawlctl_node_beats_total",
    labels=("result",),
    from_zero=(("counted",), ("missed",), ("skipped",)),
    meaning="Beats: counted by the database, missed because it did not answer, skipped because the work hangs.",
    shown_by=NODES,
)
BEAT_AGE: Final = Level(
    name="crawlctl_node_heartbeat_age_seconds",
    meaning="Since the last beat that was counted; infinite before the first, and once none will count any more.",
    shown_by=NODES,
)
TRUSTED: Final = Level(
    name="crawlctl_node_trusted",
    meaning="1 while the node may begin requests: it may trust that it is still a member. 0: its beats are late.",
    shown_by=NODES,
)
TERM: Final = Level(
    name="crawlctl_node_term",
    meaning="The term of the main of this node's scope, as its last beat heard of it.",
    shown_by=NODES,
)
IS_MAIN: Final = Level(
    name="crawlctl_node_is_main", meaning="1 at the manager that is main of its scope.", shown_by=_MANAGERS
)
SEATED: Final = Level(
    name="crawlctl_node_seated",
    meaning="1 while the node has its seat in ZooKeeper, 0 while it has none; only where ZooKeeper is chosen.",
    shown_by=NODES,
)
ELECTIONS: Final = Count(
    name="crawlctl_elections_won_total",
    labels=("replaced",),
    from_zero=(("nobody",), ("failed main",)),
    meaning="Times that this manager became main: of a scope without one, or in the place of one that it marked failed.",
    shown_by=_MANAGERS,
)
MARKED_FAILED: Final = Count(
    name="crawlctl_nodes_marked_failed_total",
    meaning="Nodes that this manager, as main, marked failed.",
    shown_by=_MANAGERS,
)
REFUSED_WRITES: Final = Count(
    name="crawlctl_refused_writes_total",
    labels=("fence",),
    from_zero=(("node",), ("term",), ("group",), ("claim",)),
    meaning="Writes that a fence refused, since who wanted to make them was replaced; by claims: documents.",
    shown_by=NODES,
)
CONNECTS: Final = Count(
    name="crawlctl_database_connects_total",
    labels=("purpose",),
    meaning="Connections to the database that were made, by purpose: each after the first of a purpose is a reconnect.",
    shown_by=NODES,
)

FIGURES: Final[tuple[Figure, ...]] = (
    NODE,
    BEATS,
    BEAT_AGE,
    TRUSTED,
    TERM,
    IS_MAIN,
    SEATED,
    ELECTIONS,
    MARKED_FAILED,
    REFUSED_WRITES,
    CONNECTS,
)
