"""
The faults of docs/reliability.md, by their numbers. Each fault affects a cluster, reports its description, and ends.

The faults F11 to F13 (full disks) are missing, because they need devices that not every machine can make.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.chaos.cluster import BEAT, TIMEOUT, sets_clocks
from tests.chaos.database_faults import (
    end_server,
    end_sessions,
    freeze_server,
    kill_backend,
    lock_table,
    lose_commit_answers,
    reset_connections,
    slow_disk,
    slow_server,
)
from tests.chaos.node_faults import (
    ELECTIONS,
    JUDGEMENTS,
    OFFERS,
    OUTCOMES,
    cut,
    cut_repeatedly,
    delay_network,
    freeze,
    freeze_between,
    kill,
    kill_main,
    kill_worker,
    on_node,
    pick,
)
from tests.chaos.summer_time import change_clocks_of_a_zone
from tests.chaos.zookeeper_faults import expire, fill, restart, wipe
from tests.chaos.zookeeper_faults import freeze as freeze_zookeeper

# Seconds until the next step of a fault.
Steps = Iterator[float]


@dataclass(frozen=True, slots=True)
class Fault:
    """
    A kind of fault. `inject(cluster, rng, report)` yields pauses, and heals after the last one. `report` takes a
    description of the fault. While a fault that `takes_all` runs, no other fault may be injected. A fault that `hits_main`
    may end the main manager.
    """

    plan: str
    name: str
    inject: Callable[..., Steps]
    takes_all: bool = False
    hits_main: bool = False


# --- F9, F14: clocks and other load --------------------------------------------------------------


def _set_clocks(cluster, rng, report):
    offsets = {node: rng.choice(["+1h", "-1h", "+2d", "-40s"]) for node in cluster.nodes}
    report("set clocks: " + ", ".join(f"{node.place} {offset}" for node, offset in offsets.items()))
    for node, offset in offsets.items():
        node.set_clock(offset)
    yield 4 * TIMEOUT
    for node in cluster.nodes:
        node.set_clock("+0s")


def _load_processors(_cluster, _rng, report):
    report("keep every core busy for 4 s")
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    yield 4
    for process in busy:
        process.kill()
        process.wait()


# --- F1, F17, F18, F20: many at a time -----------------------------------------------------------


def _kill_everything(cluster, rng, report):
    back_in = rng.choice([0.0, 2 * TIMEOUT])
    report(f"kill -9 everything but the sites, the database too (back in {back_in:g} s)")
    for node in cluster.nodes:
        if node.is_up:
            node.kill(back_in=back_in)
    cluster.server.end(signal.SIGKILL)
    cluster.server.start()
    yield back_in + TIMEOUT


def _restart_one_by_one(cluster, _rng, report):
    report("restart all nodes in order, one after the other")
    for node in list(cluster.nodes):
        if node.is_up and not node.is_affected:
            process = node.process
            node.stop()
            while process.poll() is None:
                yield 0.1
            yield 2 * BEAT


def _cut_off_one_by_one(cluster, rng, report):
    nodes = [node for node in cluster.nodes if node.is_up and not node.is_affected]
    report(f"cut {len(nodes)} nodes off one by one, and restore their connections in another order")
    for node in rng.sample(nodes, len(nodes)):
        for proxy in node.proxies:
            proxy.cut()
        yield BEAT
    for node in rng.sample(nodes, len(nodes)):
        for proxy in node.proxies:
            proxy.heal()
        yield BEAT


def _send_concurrent_requests(cluster, rng, report):
    jobs = [crawl.job_id for crawl in cluster.crawls if not crawl.has_ended]
    report("operators pause and resume the same jobs, and move and rebalance their groups")
    cluster.paused.update(jobs)
    for _ in range(6):
        for job_id in jobs:
            cluster.ask(rng.choice(["pause", "resume"]), job_id)
        cluster.request_moves(rng)
        yield 0.3
    for job_id in jobs:
        cluster.ask("resume", job_id)
    yield 1
    # Resume once more: a job that was still pausing during the loop above is paused by now.
    for job_id in jobs:
        cluster.ask("resume", job_id)
    cluster.paused.difference_update(jobs)


def _move_groups(cluster, rng, report):
    report("move groups to and fro for 3 s, and kill a manager meanwhile")
    node = pick(cluster, rng, "manager")
    for step in range(10):
        cluster.request_moves(rng)
        if step == 4 and node is not None and node.is_up:
            node.kill(back_in=BEAT)
        yield 0.3


FAULTS = (
    Fault("F1", "kill the main manager", on_node("main", kill), hits_main=True),
    Fault("F1", "kill a manager", on_node("manager", kill)),
    Fault("F1", "kill a worker", on_node("worker", kill)),
    Fault("F2", "freeze the main manager", on_node("main", freeze), hits_main=True),
    Fault("F2", "freeze a manager", on_node("manager", freeze)),
    Fault("F2", "freeze a worker", on_node("worker", freeze)),
    Fault("F6", "cut off the main manager", on_node("main", cut), hits_main=True),
    Fault("F6", "cut off a manager", on_node("manager", cut)),
    Fault("F6", "cut off a worker", on_node("worker", cut)),
    Fault("F3", "a manager before its write", freeze_between("manager", OFFERS)),
    Fault("F3", "a worker before its write", freeze_between("worker", OUTCOMES)),
    Fault(
        "F3",
        "the main manager before a write about a lost worker",
        freeze_between("main", JUDGEMENTS, provoke=kill_worker),
    ),
    Fault(
        "F3",
        "a new main manager before its election",
        freeze_between("next_main", ELECTIONS, provoke=kill_main),
        takes_all=True,
    ),
    Fault("F7", "a connection that is cut repeatedly", on_node("worker", cut_repeatedly)),
    Fault("F7", "a slow network of the main manager", on_node("main", delay_network)),
    Fault("F7", "a slow network of a worker", on_node("worker", delay_network)),
    Fault("F7", "a locked table", lock_table),
    Fault("F7", "a slow disk", slow_disk),
    Fault("F7", "a slow server", slow_server),
    Fault("F4", "restart", end_server(signal.SIGINT, "restart PostgreSQL"), takes_all=True),
    Fault("F4", "immediate stop", end_server(signal.SIGQUIT, "stop PostgreSQL immediately"), takes_all=True),
    Fault("F4", "crash", end_server(signal.SIGKILL, "kill -9 PostgreSQL"), takes_all=True),
    Fault("F4", "frozen", freeze_server, takes_all=True),
    Fault("F5", "a backend", kill_backend),
    Fault("F5", "sessions", end_sessions),
    Fault("F5", "connections", reset_connections),
    Fault("F5", "lost answers", lose_commit_answers),
    Fault("F10", "clock change", change_clocks_of_a_zone),
    Fault("F14", "busy processors", _load_processors),
    Fault("F1", "kill everything", _kill_everything, takes_all=True),
    Fault("F17", "rolling restart", _restart_one_by_one, takes_all=True),
    Fault("F18", "operators", _send_concurrent_requests),
    Fault("F18", "moves", _move_groups),
    Fault("F20", "cut off in random order", _cut_off_one_by_one, takes_all=True),
)

_OF_CLOCKS = (Fault("F9", "clocks", _set_clocks),)
_OF_ZOOKEEPER = (
    Fault("F8", "ZooKeeper restarts", restart, takes_all=True),
    Fault("F8", "ZooKeeper is wiped", wipe, takes_all=True),
    Fault("F8", "ZooKeeper freezes", freeze_zookeeper, takes_all=True),
    Fault("F8", "the main manager's session expires", expire("main")),
    Fault("F8", "a manager's session expires", expire("manager")),
    Fault("F8", "a worker's session expires", expire("worker")),
    Fault("F8", "full nodes", fill),
)


def plan_for(cluster):
    """Return all faults that can be injected into this cluster."""
    return (
        *FAULTS,
        *(_OF_CLOCKS if sets_clocks(cluster) else ()),
        *(_OF_ZOOKEEPER if cluster.zookeeper is not None else ()),
    )
