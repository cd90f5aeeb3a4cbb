"""
Faults of one node: F1 (killed), F2 (frozen), F3 (frozen between a check and its write), F6 and F7 (its line).

A fault is a function `happen(cluster, dice, report)` as described in tests/chaos/faults.py.
"""

import time
from contextlib import suppress

from tests.chaos.cluster import BEAT, TIMEOUT
from tests.support.proxy import Direction


def pick(cluster, dice, who):
    """
    Return a node that no other fault affects now, or None if there is none.

    `who` is the main manager, its heir (the oldest other manager), or a kind of node.
    """
    if who in {"main", "heir"}:
        node = cluster.main()[0] if who == "main" else cluster.heir()
        return node if node is not None and not node.is_in_trouble else None
    free = [node for node in cluster.of_kind(who) if node.is_up and not node.is_in_trouble]
    return dice.choice(free) if free else None


def on_a_node(who, what):
    """
    Return a fault of one node. `what(cluster, node, dice)` returns its name, its pauses, and whether it ends a main
    manager.
    """

    def happen(cluster, dice, report):
        node = pick(cluster, dice, who)
        if node is None:
            report("nobody to hit")
            return
        main, main_id = cluster.main()
        node.is_in_trouble = True
        words, steps, is_for_good = what(node, dice)
        at = time.time()
        report(
            f"{words} {node.name}{' (main)' if node is main else ''}",
            blow=(main_id, at) if node is main and is_for_good else None,
        )
        try:
            yield from steps
        finally:
            node.is_in_trouble = False

    return happen


def kill(node, dice):
    back_in = dice.choice([0.0, BEAT, 3 * TIMEOUT])

    def steps():
        node.kill(back_in=back_in)
        yield back_in

    return f"kill -9 (back in {back_in:g} s)", steps(), True


def freeze(node, dice):
    lasts = dice.choice([0.5, 1.1, 3.0, 3.0]) * TIMEOUT

    def steps():
        node.freeze()
        yield lasts
        node.thaw()

    return f"freeze for {lasts:g} s", steps(), lasts > 2 * TIMEOUT


def cut(node, dice):
    lasts = dice.choice([0.5, 1.1, 3.0, 3.0]) * TIMEOUT
    direction = dice.choice([Direction.BOTH, Direction.ASKED, Direction.ANSWERED])
    refuses = dice.random() < 0.25

    def steps():
        for line in node.lines:
            line.cut(direction, refuses=refuses)
        yield lasts
        for line in node.lines:
            line.heal()

    way = {Direction.BOTH: "both ways", Direction.ASKED: "to the database", Direction.ANSWERED: "from the database"}
    return f"cut {way[direction]}{', refusing,' if refuses else ''} for {lasts:g} s", steps(), lasts > 2 * TIMEOUT


def stutter(node, _dice):
    def steps():
        for _ in range(12):
            node.proxy.cut()
            yield 0.15
            node.proxy.heal()
            yield 0.1

    return "stutter the line of", steps(), False


def be_far_away(node, dice):
    each_way = dice.choice([0.03, 0.1, 0.25])

    def steps():
        node.proxy.delay(each_way)
        yield 3 * TIMEOUT
        node.proxy.heal()

    return f"put {each_way * 1000:g} ms each way between the database and", steps(), False


# --- F3: between a check and its write -----------------------------------------------------------

# Functions after a check and before its write. Most are called inside a transaction.
OFFERS = ("jobs.duties.stuff:stuff_groups", "jobs.queue.offering.stuff:_offer")
JUDGEMENTS = ("jobs.queue.release:_lose", "nodes.membership.leadership:_fail")
ELECTIONS = ("nodes.membership.leadership:elect", "nodes.membership.leadership:_remove_main")
OUTCOMES = ("jobs.queue.flushing.flush:flush", "jobs.queue.flushing.flush:_find_loops", "jobs.queue.take:_claimed")
STOPS = {"manager": (*OFFERS, *JUDGEMENTS, *ELECTIONS), "worker": OUTCOMES}
# Seconds in which a node must reach its stop.
_COMES_WITHIN = 4 * TIMEOUT


def freeze_between(who, points, *, provoke=None):
    """
    Freeze a node at one of its stops. `provoke(cluster, dice, node)` makes it reach a stop that it rarely reaches.
    """

    def happen(cluster, dice, report):
        node = pick(cluster, dice, who)
        if node is None:
            report("nobody to hit")
            return
        point, lasts = dice.choice(points), dice.choice([1.1, 3.0]) * TIMEOUT
        node.is_in_trouble = True
        report(f"freeze {node.name} for {lasts:g} s as soon as it is at {point}")
        try:
            node.stops[point].touch()
            if provoke is not None:
                provoke(cluster, dice, node)
            yield from _until_it_stands_still(cluster, node, point)
            if node.is_frozen():
                node.note_frozen()
                yield lasts
                node.thaw()
        finally:
            node.stops[point].unlink(missing_ok=True)
            node.is_in_trouble = False

    return happen


def _until_it_stands_still(cluster, node, point):
    wait_at_most, name = time.monotonic() + _COMES_WITHIN, node.name
    while not node.is_frozen() and node.name == name:
        if time.monotonic() > wait_at_most:
            with suppress(FileNotFoundError):
                node.stops[point].unlink()
                cluster.say(f"    {name} did not come to {point}")
                return
            # The process has just removed the file: it is freezing, or ended meanwhile.
            wait_at_most = float("inf")
        if not node.is_up:
            return
        yield 0.05


def lose_a_worker(cluster, dice, _node):
    """Kill a worker for longer than its timeout."""
    worker = pick(cluster, dice, "worker")
    if worker is not None:
        worker.kill(back_in=2 * TIMEOUT)


def lose_the_main(cluster, dice, node):
    main = pick(cluster, dice, "main")
    if main is not None and main is not node:
        main.kill(back_in=2 * TIMEOUT)
