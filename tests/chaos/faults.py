"""
The faults of the plan, by its numbers: each happens to a cluster, says what it does, and how it is over.

What is left out, and why: F3 (a pause between check and write) is what tests/chaos/mutants.py is made of; F8 needs
ZooKeeper; F10 (schedules at a change of summer time) is arithmetic and has its tests; F7 and the full disks of
F11 to F13 need devices that not every machine can make: a line that stutters stands for the slow one.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psutil

from tests.chaos.cluster import BEAT, TIMEOUT, has_faketime
from tests.proxy import SYNC, Direction

# What a step of a fault hands back: how many seconds until its next step.
Steps = Iterator[float]


@dataclass(frozen=True, slots=True)
class Fault:
    """
    `happen(cluster, dice, tell)` yields pauses; what is behind the last one heals. `tell` takes what it did, in
    words. A fault that `takes_all` wants nothing else to happen meanwhile; one that `hits_main` may make it fall.
    """

    plan: str
    name: str
    happen: Callable[..., Steps]
    takes_all: bool = False
    hits_main: bool = False


# --- F1, F2, F6: one node ------------------------------------------------------------------------


def _pick(cluster, dice, who):
    """A node to which nothing happens just now: the main, or one of a kind; None if there is none."""
    if who == "main":
        node, _ = cluster.main()
        return node if node is not None and not node.is_in_trouble else None
    free = [node for node in cluster.of_kind(who) if node.is_up and not node.is_in_trouble]
    return dice.choice(free) if free else None


def _on_a_node(who, what):
    """A fault of one node: `what(cluster, node, dice)` returns its name, its pauses, and whether a main falls by it."""

    def happen(cluster, dice, tell):
        node = _pick(cluster, dice, who)
        if node is None:
            tell("nobody to hit")
            return
        main, main_id = cluster.main()
        node.is_in_trouble = True
        words, steps, is_for_good = what(node, dice)
        at = time.time()
        tell(
            f"{words} {node.name}{' (main)' if node is main else ''}",
            blow=(main_id, at) if node is main and is_for_good else None,
        )
        try:
            yield from steps
        finally:
            node.is_in_trouble = False

    return happen


def _kill(node, dice):
    back_in = dice.choice([0.0, BEAT, 3 * TIMEOUT])

    def steps():
        node.kill(back_in=back_in)
        yield back_in

    return f"kill -9 (back in {back_in:g} s)", steps(), True


def _freeze(node, dice):
    lasts = dice.choice([0.5, 1.1, 3.0, 3.0]) * TIMEOUT

    def steps():
        node.freeze()
        yield lasts
        node.thaw()

    return f"freeze for {lasts:g} s", steps(), lasts > 2 * TIMEOUT


def _cut(node, dice):
    lasts = dice.choice([0.5, 1.1, 3.0, 3.0]) * TIMEOUT
    direction = dice.choice([Direction.BOTH, Direction.ASKED, Direction.ANSWERED])
    refuses = dice.random() < 0.25

    def steps():
        node.proxy.cut(direction, refuses=refuses)
        yield lasts
        node.proxy.heal()

    way = {Direction.BOTH: "both ways", Direction.ASKED: "to the database", Direction.ANSWERED: "from the database"}
    return f"cut {way[direction]}{', refusing,' if refuses else ''} for {lasts:g} s", steps(), lasts > 2 * TIMEOUT


def _stutter(node, _dice):
    def steps():
        for _ in range(12):
            node.proxy.cut()
            yield 0.15
            node.proxy.heal()
            yield 0.1

    return "stutter the line of", steps(), False


# --- F4, F5: the database ------------------------------------------------------------------------


def _end_server(number, words):
    def happen(cluster, dice, tell):
        away = dice.choice([0.0, TIMEOUT / 2, 1.5 * TIMEOUT])
        tell(f"{words}, away for {away:g} s")
        cluster.server.end(number)
        yield away
        cluster.server.start()

    return happen


def _server_processes(cluster):
    running = psutil.process_iter(["name", "cwd"])
    return [one for one in running if one.info["name"] == "postgres" and one.info["cwd"] == str(cluster.server.data)]


def _freeze_server(cluster, dice, tell):
    lasts = dice.choice([0.5, 1.5]) * TIMEOUT
    tell(f"freeze all of PostgreSQL for {lasts:g} s")
    frozen = _server_processes(cluster)
    for process in frozen:
        process.suspend()
    yield lasts
    for process in frozen:
        process.resume()


def _kill_backend(cluster, _dice, tell):
    tell("kill -9 a backend, so that all sessions end")
    for row in cluster.rows("SELECT pid FROM pg_stat_activity WHERE application_name LIKE '%% work' LIMIT 1"):
        os.kill(row.pid, signal.SIGKILL)
    yield 0


def _end_sessions(cluster, _dice, tell):
    tell("end all sessions")
    cluster.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL"
    )
    yield 0


def _reset_lines(cluster, _dice, tell):
    tell(f"reset {sum(node.proxy.kill() for node in cluster.nodes)} connections to the database")
    yield 0


def _lose_commits(cluster, _dice, tell):
    tell("lose the answer to a commit of each node, six times")
    for commit in 3 * (b"COMMIT", SYNC):
        for node in cluster.nodes:
            node.proxy.lose_answer(commit)
        yield 0.4
    for node in cluster.nodes:
        node.proxy.keep_answers()


# --- F9, F14: clocks and other work --------------------------------------------------------------


def _set_clocks(cluster, dice, tell):
    offsets = {node: dice.choice(["+1h", "-1h", "+2d", "-40s"]) for node in cluster.nodes}
    tell("set clocks: " + ", ".join(f"{node.place} {offset}" for node, offset in offsets.items()))
    for node, offset in offsets.items():
        node.set_clock(offset)
    yield 4 * TIMEOUT
    for node in cluster.nodes:
        node.set_clock("+0s")


def _starve(_cluster, _dice, tell):
    tell("keep every core busy for 4 s")
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    yield 4
    for process in busy:
        process.kill()
        process.wait()


# --- F1, F17, F18, F20: many at a time -----------------------------------------------------------


def _kill_everything(cluster, dice, tell):
    back_in = dice.choice([0.0, 2 * TIMEOUT])
    tell(f"kill -9 everything but the sites, the database too (back in {back_in:g} s)")
    for node in cluster.nodes:
        if node.is_up:
            node.kill(back_in=back_in)
    cluster.server.end(signal.SIGKILL)
    cluster.server.start()
    yield back_in + TIMEOUT


def _restart_in_turn(cluster, _dice, tell):
    tell("restart all nodes in order, one after the other")
    for node in list(cluster.nodes):
        if node.is_up and not node.is_in_trouble:
            process = node.process
            node.stop()
            while process.poll() is None:
                yield 0.1
            yield 2 * BEAT


def _swizzle(cluster, dice, tell):
    nodes = [node for node in cluster.nodes if node.is_up and not node.is_in_trouble]
    tell(f"cut {len(nodes)} nodes off one by one, and mend their lines in another order")
    for node in dice.sample(nodes, len(nodes)):
        node.proxy.cut()
        yield BEAT
    for node in dice.sample(nodes, len(nodes)):
        node.proxy.heal()
        yield BEAT


def _operators_race(cluster, dice, tell):
    jobs = [crawl.job_id for crawl in cluster.crawls if not crawl.has_ended]
    tell("operators pause and resume the same jobs, and move and rebalance their groups")
    cluster.paused.update(jobs)
    for _ in range(6):
        for job_id in jobs:
            cluster.ask(dice.choice(["pause", "resume"]), job_id)
        cluster.ask_for_moves(dice)
        yield 0.3
    for job_id in jobs:
        cluster.ask("resume", job_id)
    yield 1
    # One that was still pausing is paused only now.
    for job_id in jobs:
        cluster.ask("resume", job_id)
    cluster.paused.difference_update(jobs)


def _moves(cluster, dice, tell):
    tell("move groups to and fro for 3 s, and kill a manager meanwhile")
    node = _pick(cluster, dice, "manager")
    for step in range(10):
        cluster.ask_for_moves(dice)
        if step == 4 and node is not None and node.is_up:
            node.kill(back_in=BEAT)
        yield 0.3


_F9 = (Fault("F9", "clocks", _set_clocks),) if has_faketime() else ()

FAULTS = (
    Fault("F1", "kill the main", _on_a_node("main", _kill), hits_main=True),
    Fault("F1", "kill a manager", _on_a_node("manager", _kill)),
    Fault("F1", "kill a worker", _on_a_node("worker", _kill)),
    Fault("F2", "freeze the main", _on_a_node("main", _freeze), hits_main=True),
    Fault("F2", "freeze a manager", _on_a_node("manager", _freeze)),
    Fault("F2", "freeze a worker", _on_a_node("worker", _freeze)),
    Fault("F6", "cut off the main", _on_a_node("main", _cut), hits_main=True),
    Fault("F6", "cut off a manager", _on_a_node("manager", _cut)),
    Fault("F6", "cut off a worker", _on_a_node("worker", _cut)),
    Fault("F7", "a slow line", _on_a_node("worker", _stutter)),
    Fault("F4", "restart", _end_server(signal.SIGINT, "restart PostgreSQL"), takes_all=True),
    Fault("F4", "immediate stop", _end_server(signal.SIGQUIT, "stop PostgreSQL at once"), takes_all=True),
    Fault("F4", "crash", _end_server(signal.SIGKILL, "kill -9 PostgreSQL"), takes_all=True),
    Fault("F4", "frozen", _freeze_server, takes_all=True),
    Fault("F5", "a backend", _kill_backend),
    Fault("F5", "sessions", _end_sessions),
    Fault("F5", "lines", _reset_lines),
    Fault("F5", "lost answers", _lose_commits),
    *_F9,
    Fault("F14", "starvation", _starve),
    Fault("F1", "kill everything", _kill_everything, takes_all=True),
    Fault("F17", "rolling restart", _restart_in_turn, takes_all=True),
    Fault("F18", "operators", _operators_race),
    Fault("F18", "moves", _moves),
    Fault("F20", "swizzle", _swizzle, takes_all=True),
)
