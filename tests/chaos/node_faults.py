"""
Faults of one node: F1 (killed), F2 (frozen), F3 (frozen between a check and its write), F6 and F7 (its connections).

A fault is a function `inject(cluster, rng, report)` as described in tests/chaos/faults.py.
"""

import time
from contextlib import suppress

from tests.chaos.cluster import BEAT, TIMEOUT
from tests.support.proxy import Direction


def pick(cluster, rng, who):
    """
    Return a node that no other fault affects now, or None if there is none.

    `who` is "main" (the main manager), "next_main" (the oldest other manager), or a kind of node.
    """
    if who in {"main", "next_main"}:
        node = cluster.main()[0] if who == "main" else cluster.next_main()
        return node if node is not None and not node.is_affected else None
    free = [node for node in cluster.of_kind(who) if node.is_up and not node.is_affected]
    return rng.choice(free) if free else None


def on_node(who, what):
    """
    Return a fault that affects one node. `what(node, rng)` returns a description, the pauses of the fault, and True if the
    fault ends a main manager.
    """

    def inject(cluster, rng, report):
        node = pick(cluster, rng, who)
        if node is None:
            report("no node is available")
            return
        main, main_id = cluster.main()
        node.is_affected = True
        description, steps, ends_main = what(node, rng)
        at = time.time()
        report(
            f"{description} {node.name}{' (main)' if node is main else ''}",
            loss=(main_id, at) if node is main and ends_main else None,
        )
        try:
            yield from steps
        finally:
            node.is_affected = False

    return inject


def kill(node, rng):
    back_in = rng.choice([0.0, BEAT, 3 * TIMEOUT])

    def steps():
        node.kill(back_in=back_in)
        yield back_in

    return f"kill -9 (back in {back_in:g} s)", steps(), True


def freeze(node, rng):
    lasts = rng.choice([0.5, 1.1, 3.0, 3.0]) * TIMEOUT

    def steps():
        node.freeze()
        yield lasts
        node.thaw()

    return f"freeze for {lasts:g} s", steps(), lasts > 2 * TIMEOUT


def cut(node, rng):
    lasts = rng.choice([0.5, 1.1, 3.0, 3.0]) * TIMEOUT
    direction = rng.choice([Direction.BOTH, Direction.ASKED, Direction.ANSWERED])
    refuses = rng.random() < 0.25

    def steps():
        for proxy in node.proxies:
            proxy.cut(direction, refuses=refuses)
        yield lasts
        for proxy in node.proxies:
            proxy.heal()

    way = {Direction.BOTH: "both ways", Direction.ASKED: "to the database", Direction.ANSWERED: "from the database"}
    return f"cut {way[direction]}{', refusing,' if refuses else ''} for {lasts:g} s", steps(), lasts > 2 * TIMEOUT


def cut_repeatedly(node, _rng):
    """Cut the connection to the database twelve times, for 0.15 s each time."""

    def steps():
        for _ in range(12):
            node.proxy.cut()
            yield 0.15
            node.proxy.heal()
            yield 0.1

    return "cut again and again the connection of", steps(), False


def delay_network(node, rng):
    """Delay all bytes between a node and the database."""
    each_way = rng.choice([0.03, 0.1, 0.25])

    def steps():
        node.proxy.delay(each_way)
        yield 3 * TIMEOUT
        node.proxy.heal()

    return f"put {each_way * 1000:g} ms each way between the database and", steps(), False


# --- F3: between a check and its write -----------------------------------------------------------

# Functions that nodes call after a check and before its write, mostly inside a transaction. Nodes can be frozen there.
OFFERS = ("jobs.duties.stuff:stuff_groups", "jobs.queue.offering.stuff:_offer")
JUDGEMENTS = ("jobs.queue.release:_lose", "nodes.membership.leadership:_fail")
ELECTIONS = ("nodes.membership.leadership:elect", "nodes.membership.leadership:_remove_main")
OUTCOMES = ("jobs.queue.flushing.flush:flush", "jobs.queue.flushing.flush:_find_loops", "jobs.queue.take:_claimed")
STOPS = {"manager": (*OFFERS, *JUDGEMENTS, *ELECTIONS), "worker": OUTCOMES}
# Seconds in which a node must reach its stop.
_REACHED_WITHIN = 4 * TIMEOUT


def freeze_between(who, points, *, provoke=None):
    """
    Freeze a node at one of its stops. `provoke(cluster, rng, node)` makes it reach a stop that it rarely reaches.
    """

    def inject(cluster, rng, report):
        node = pick(cluster, rng, who)
        if node is None:
            report("no node is available")
            return
        point, lasts = rng.choice(points), rng.choice([1.1, 3.0]) * TIMEOUT
        node.is_affected = True
        report(f"freeze {node.name} for {lasts:g} s as soon as it is at {point}")
        try:
            node.stops[point].touch()
            if provoke is not None:
                provoke(cluster, rng, node)
            yield from _wait_for_freeze(cluster, node, point)
            if node.is_frozen():
                node.note_frozen()
                yield lasts
                node.thaw()
        finally:
            node.stops[point].unlink(missing_ok=True)
            node.is_affected = False

    return inject


def _wait_for_freeze(cluster, node, point):
    wait_at_most, name = time.monotonic() + _REACHED_WITHIN, node.name
    while not node.is_frozen() and node.name == name:
        if time.monotonic() > wait_at_most:
            with suppress(FileNotFoundError):
                node.stops[point].unlink()
                cluster.write_line(f"    {name} did not reach {point}")
                return
            # The process has just removed the file: it is freezing, or ended meanwhile.
            wait_at_most = float("inf")
        if not node.is_up:
            return
        yield 0.05


def kill_worker(cluster, rng, _node):
    """Kill a worker for longer than its timeout."""
    worker = pick(cluster, rng, "worker")
    if worker is not None:
        worker.kill(back_in=2 * TIMEOUT)


def kill_main(cluster, rng, node):
    """Kill the main manager for longer than its timeout, unless `node` is the main manager."""
    main = pick(cluster, rng, "main")
    if main is not None and main is not node:
        main.kill(back_in=2 * TIMEOUT)
