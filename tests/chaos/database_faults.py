"""
Faults of the database: F4 (ended, killed, frozen), F5 (its sessions and its answers), F7 (locked, and slow).

A fault is a function `inject(cluster, rng, report)` as described in tests/chaos/faults.py.
"""

import os
import signal
import threading
import time
from contextlib import suppress

import psutil
import psycopg
from psycopg import sql

from tests.chaos.cluster import TIMEOUT
from tests.support.proxy import SYNC


def end_server(number, words):
    def inject(cluster, rng, report):
        away = rng.choice([0.0, TIMEOUT / 2, 1.5 * TIMEOUT])
        report(f"{words}, away for {away:g} s")
        cluster.server.end(number)
        yield away
        cluster.server.start()

    return inject


def _server_processes(cluster):
    running = psutil.process_iter(["name", "cwd"])
    return [one for one in running if one.info["name"] == "postgres" and one.info["cwd"] == str(cluster.server.data)]


def freeze_server(cluster, rng, report):
    lasts = rng.choice([0.5, 1.5]) * TIMEOUT
    report(f"freeze all of PostgreSQL for {lasts:g} s")
    frozen = _server_processes(cluster)
    _each(frozen, psutil.Process.suspend)
    yield lasts
    _each(frozen, psutil.Process.resume)


def kill_backend(cluster, _rng, report):
    report("kill -9 a backend, so that all sessions end")
    for row in cluster.rows("SELECT pid FROM pg_stat_activity WHERE application_name LIKE '%% work' LIMIT 1"):
        os.kill(row.pid, signal.SIGKILL)
    yield 0


def end_sessions(cluster, _rng, report):
    report("end all sessions")
    cluster.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL"
    )
    yield 0


def reset_connections(cluster, _rng, report):
    report(f"reset {sum(node.proxy.kill() for node in cluster.nodes)} connections to the database")
    yield 0


def lose_commit_answers(cluster, _rng, report):
    report("lose the answer to a commit of each node, six times")
    for commit in 3 * (b"COMMIT", SYNC):
        for node in cluster.nodes:
            node.proxy.lose_answer(commit)
        yield 0.4
    for node in cluster.nodes:
        node.proxy.keep_answers()


# Tables that all nodes write to.
_WRITTEN_BY_ALL_NODES = (
    *("jobs_queueitem", "jobs_lanestate", "jobs_binstate", "jobs_batch", "jobs_turn", "jobs_throttlegroup", "jobs_job"),
    *("nodes_node", "nodes_mainterm"),
)


def _in_thread(work, *arguments):
    """
    Do work in a thread, and yield pauses until the work is done.

    So the work that slows down the database ends in time, even while the caller waits for the database.
    """
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    while thread.is_alive():
        yield 0.1


def lock_table(cluster, rng, report):
    table, lasts = rng.choice(_WRITTEN_BY_ALL_NODES), rng.choice([0.4, 0.8, 1.5]) * TIMEOUT
    report(f"hold a lock of {table} for {lasts:g} s, against all writers")
    yield from _in_thread(_hold_lock, cluster.database.dsn, table, lasts)


def _hold_lock(dsn, table, seconds):
    with suppress(psycopg.OperationalError), psycopg.connect(dsn, connect_timeout=2) as connection:
        connection.execute("SET lock_timeout = '5s'")
        connection.execute(sql.SQL("LOCK TABLE {} IN EXCLUSIVE MODE").format(sql.Identifier(table)))
        connection.execute("SELECT pg_sleep(%s)", [seconds])


def slow_disk(cluster, _rng, report):
    report(f"let every commit wait 100 ms for its disk, for {3 * TIMEOUT:g} s")
    with suppress(psycopg.OperationalError):
        _configure(cluster, "SET commit_delay = 100000", "SET commit_siblings = 0")
    yield 3 * TIMEOUT
    while True:
        with suppress(psycopg.OperationalError):
            _configure(cluster, "RESET commit_delay", "RESET commit_siblings")
            return
        yield 0.2


def _configure(cluster, *changes):
    with psycopg.connect(cluster.database.dsn, autocommit=True, connect_timeout=2) as connection:
        for change in changes:
            connection.execute(f"ALTER SYSTEM {change}")
        connection.execute("SELECT pg_reload_conf()")


def slow_server(cluster, rng, report):
    share = rng.choice([0.5, 0.25])
    report(f"let PostgreSQL run for {share:.0%} of the time, for {3 * TIMEOUT:g} s")
    yield from _in_thread(_slow_down, cluster, share, 3 * TIMEOUT)


def _slow_down(cluster, share, seconds):
    """Stop and continue the server ten times a second."""
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        held = _server_processes(cluster)
        _each(held, psutil.Process.suspend)
        time.sleep(0.1 * (1 - share))
        _each(held, psutil.Process.resume)
        time.sleep(0.1 * share)


def _each(processes, do):
    for process in processes:
        # A backend, or the whole server, may have ended meanwhile.
        with suppress(psutil.NoSuchProcess):
            do(process)
