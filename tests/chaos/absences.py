"""
Absences of a partition in the chaos test: all of its processes are stopped for a while, or its database is restored.

A stopped partition cannot start again before its return, although the supervisor restarts its processes: the test holds
the lock of the guardian of its server, so no server starts. Processes of the demo itself, and the site, go on.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg

from crawlctl.postgres.home import Home
from crawlctl.postgres.locks import FileLock
from tests.support.partitioned_demo import kill_server, partition_in, processes_in, server_of
from tests.support.processes import ROOT

# Processes that no fault affects, because they check the result or simulate the web.
UNDISTURBED = ("demo", "crawlctl.demo.site")
# Megabytes of the write-ahead log that a server keeps for a partition: far fewer than usual, so that a test exceeds it.
WAL_KEPT = 48
# Longest wait for a command, a lock or a server (seconds).
_PATIENCE = 240.0
# Longest wait (seconds) for the beginning of a run.
_STARTS_WITHIN = 10.0
_LOST = "SELECT wal_status FROM pg_replication_slots WHERE slot_name = %s"


def environment_with_a_small_log() -> dict[str, str]:
    """Return the variables by which the servers of a demo keep `WAL_KEPT` only."""
    inside = str(Path(__file__).parent / "inside")
    paths = filter(None, (inside, os.environ.get("PYTHONPATH")))
    return {"PYTHONPATH": os.pathsep.join(paths), "CRAWLCTL_CHAOS": json.dumps({"wal_kept": f"{WAL_KEPT}MB"})}


@contextmanager
def stopped(directory: Path, partition: str) -> Iterator[Home]:
    """Kill all processes of a partition. None of them finds its database before the end of the block."""
    home = Home(partition_in(directory, partition) / "postgres")
    guardian = FileLock(home.guardian_lock)
    until = time.monotonic() + _PATIENCE
    try:
        _kill(directory, partition)
        while not guardian.take_exclusively():
            assert time.monotonic() < until, f"a guardian of partition {partition} holds its lock"
            _kill(directory, partition, only="crawlctl.postgres.guardian")
            time.sleep(0.01)
        kill_server(directory, partition)
        yield home
    finally:
        guardian.close()


@contextmanager
def frozen(directory: Path, partition: str) -> Iterator[None]:
    """Freeze all processes of a partition, also those of its server, until the end of the block."""
    found = list(_processes(directory, partition))
    with suppress(psutil.Error, OSError, ValueError, IndexError):
        server = server_of(directory, partition)
        server.suspend()
        found += [server, *server.children(recursive=True)]
    for process in found:
        with suppress(psutil.Error):
            process.suspend()
    try:
        yield
    finally:
        for process in found:
            with suppress(psutil.Error):
                process.resume()


@contextmanager
def paused(directory: Path, address: str) -> Iterator[None]:
    """
    Keep the running job paused during the block, so that its run goes on afterwards, however long the block takes.
    """
    environment, until = _environment_of_demo(directory), time.monotonic() + _STARTS_WITHIN
    # A run that is being prepared cannot be paused yet.
    while environment is not None and not _is_running(address) and time.monotonic() < until:
        time.sleep(0.1)
    _request_until(environment, address, "pause", is_paused=True)
    yield
    resume(directory, address)


def resume(directory: Path, address: str) -> None:
    """
    Resume the running job if it is paused. In a restored database, it is paused if it was paused when the backup was
    made.
    """
    _request_until(_environment_of_demo(directory), address, "resume", is_paused=False)


def _request_until(environment: dict[str, str] | None, address: str, verb: str, *, is_paused: bool) -> None:
    """Request a pause or its end until the running job is in that state. A server may be down for a while."""
    until = time.monotonic() + _PATIENCE
    while environment is not None:
        try:
            job = _running_job(address)
        except psycopg.Error:
            job = "", not is_paused
        # A run that has ended cannot be paused.
        if job is None or job[1] == is_paused:
            return
        assert time.monotonic() < until, f"the job does not {verb}"
        if job[0]:
            command = [sys.executable, "manage.py", "job", job[0], verb]
            subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=_PATIENCE, check=False)
        time.sleep(0.1)


def _is_running(address: str) -> bool:
    with suppress(psycopg.Error):
        return _running_job(address) is not None
    return False


def _running_job(address: str) -> tuple[str, bool] | None:
    """Return the name of the running job, and True if it is paused; None if no job runs. Raise psycopg.Error while the server is down."""
    with psycopg.connect(address, autocommit=True, connect_timeout=2) as connection:
        row = connection.execute("SELECT name, pause <> 'no' FROM jobs_job WHERE phase = 'active'").fetchone()
        return None if row is None else (str(row[0]), bool(row[1]))


def _environment_of_demo(directory: Path) -> dict[str, str] | None:
    """Return the environment of the demo's own process; None after its end."""
    for here, process in processes_in(directory):
        with suppress(psutil.Error):
            if here == "a" and "demo" in process.cmdline():
                return dict(process.environ())
    return None


def exceed_the_log(address: str, *, source: str, target: str) -> None:
    """
    Write more log in the server of `source`, which has this address, than the server keeps for `target`, which is
    absent.
    """
    until = time.monotonic() + _PATIENCE
    with psycopg.connect(address, autocommit=True) as connection:
        while connection.execute(_LOST, (f"crawlctl_{source}_to_{target}",)).fetchone() not in {("lost",), None}:
            assert time.monotonic() < until, f"the slot of {target} in {source} is not lost"
            connection.execute("SELECT pg_logical_emit_message(false, 'chaos', 'segment'), pg_switch_wal()")
            connection.execute("CHECKPOINT")


def back_up(directory: Path, partition: str, place: Path) -> str | None:
    """
    Make a backup of a partition by the documented command; return its name, or None if an earlier kill disturbs it.
    """
    var = partition_in(directory, partition)
    place.mkdir(parents=True, exist_ok=True)
    done = _run("backup", "--to", str(place), var=var)
    if done.returncode:
        sys.stdout.write(f"  no backup of partition {partition}: {done.stderr[-300:]}\n")
        sys.stdout.flush()
        return None
    listed = _run("backup", "list", "--from", str(place), "--json", var=var)
    return str(json.loads(listed.stdout.splitlines()[-1])["name"])


def prepare_restore(directory: Path, partition: str, place: Path, backup: str) -> Path:
    """
    Restore a backup of a partition by the documented command, and return the directory of the data.

    The directory is not the partition's own: the command refuses while processes wait for the database.
    """
    restored_var = partition_in(directory, partition).parent / f"restored-{partition}"
    shutil.rmtree(restored_var, ignore_errors=True)
    restored_var.mkdir()
    done = _run("backup", "restore", "--from", str(place), "--backup", backup, var=restored_var)
    assert done.returncode == 0, done.stderr
    return restored_var


def replace_data(
    directory: Path, partition: str, restored_var: Path, *, is_allowed: Callable[[], bool] = lambda: True
) -> tuple[float, float, bool]:
    """
    Stop a partition. If `is_allowed` returns True after that, replace its data by the restored data. Then start the
    partition again.

    Return the beginning and the end of its absence, and True if the data were replaced.
    """
    began_at = time.monotonic()
    with stopped(directory, partition) as home:
        lost = home.data.with_name("lost")
        shutil.rmtree(lost, ignore_errors=True)
        if is_replaced := is_allowed():
            home.data.rename(lost)
            (restored_var / "postgres" / "data").rename(home.data)
    ended_at = time.monotonic()
    shutil.rmtree(lost, ignore_errors=True)
    shutil.rmtree(restored_var)
    return began_at, ended_at, is_replaced


def _run(*words: str, var: Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "CRAWLCTL_VAR": str(var), "DATABASE_URL": "", "CRAWLCTL_LOG_LEVEL": "ERROR"}
    command = [sys.executable, "manage.py", *words]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_PATIENCE, check=False
    )


def _processes(directory: Path, partition: str) -> Iterator[psutil.Process]:
    """Yield the processes of a partition. Skip processes that check the result or simulate the web."""
    for here, process in processes_in(directory):
        with suppress(psutil.Error):
            if here == partition and not set(UNDISTURBED) & set(process.cmdline()):
                yield process


def _kill(directory: Path, partition: str, *, only: str = "") -> None:
    for process in _processes(directory, partition):
        with suppress(psutil.Error):
            if not only or only in process.cmdline():
                process.send_signal(signal.SIGKILL)
