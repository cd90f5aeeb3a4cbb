"""Proves that faults of disks lose no document. The crawl shows the reason, and continues by itself after the fault."""

import contextlib
import datetime as dt
import os
import random
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg
import pytest

from crawlctl.postgres.home import Home
from jobs.archive import files
from jobs.models import Job
from nodes.models import Node
from tests.acceptance.test_archives import assert_rows_agree_with_files
from tests.acceptance.test_database_restarts import start_everything, start_job
from tests.acceptance.test_embedded_restarts import phase_of
from tests.support.debian import debian_server
from tests.support.disks import fill, make_read_only, small_disk
from tests.support.installations import copy_migrated
from tests.support.jumps import set_clock_back
from tests.support.processes import QUICK_HEARTBEATS, Database, Machine, held_by, wait_for

_PAGE = 8192
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
FAULTS = {"full": fill, "read-only": make_read_only}
WORDS = {
    ("full", "output"): "the disk is full",
    ("full", "archive"): "No space left on device",
    ("read-only", "output"): "the file system is read-only",
    ("read-only", "archive"): "Read-only file system",
}


@pytest.mark.parametrize("place", ["output", "archive"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_job_waits_for_its_disk_and_continues_by_itself(cluster, serve, tmp_path, fault, place):
    site = serve(pages=200, hosts=2, traps=1, latency_ms=20)
    with small_disk(tmp_path / "disk", mebibytes=48) as disk:
        root = (disk if place == "archive" else tmp_path) / "archive"
        if place == "output":
            cluster.output = disk / "pages.jsonl"
        # Each flush opens a new archive file.
        own = {"CRAWLCTL_FREE_DISK": "0", "CRAWLCTL_ARCHIVE_ROOT": str(root), "CRAWLCTL_ARCHIVE_FILE_BYTES": "1"}
        cluster.start("runmanager", "runworker", **own)
        job = cluster.make_job(site, open_requests=4)
        Job.objects.filter(pk=job.pk).update(archive="warc")
        cluster.start_job(job)
        wait_for(lambda: site.count_requests() > 60, saying="the crawl is in progress")

        repair = FAULTS[fault](disk)
        wait_for(lambda: Job.objects.get(pk=job.pk).pause == "paused", saying="the job is paused")
        reason = Job.objects.get(pk=job.pk).reason
        status = cluster.machine.start("status")
        assert status.wait() == 1
        requests_before = site.lines
        repair()

        assert reason.startswith(f"Waiting for the disk of {disk}")
        assert WORDS[fault, place] in reason
        assert "continues by itself" in reason
        assert f"Waiting for the disk of {disk}" in status.out
        assert cluster.wait_for_end(job) == "finished"
        assert held_by(cluster.output) == site.documents
        assert site.lines > requests_before
        assert_rows_agree_with_files()


def test_a_one_shot_ends_at_a_full_disk_and_can_be_resumed(machine, serve, tmp_path):
    site = serve(pages=100, hosts=1, latency_ms=20)
    with small_disk(tmp_path / "disk", mebibytes=8) as disk:
        output = disk / "pages.jsonl"
        make_room = fill(disk)
        own = {"CRAWLCTL_FREE_DISK": "0"}

        refused = machine.crawl(site.start_url, "--job", "site", output=output, **own)

        assert refused.code != 0
        assert "the disk is full" in refused.err
        make_room()
        resumed = machine.crawl("--resume", "--job", "site", output=output, **own)
        assert (resumed.code, held_by(output)) == (0, site.documents), resumed.err


# --- The database ----------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path):
    with debian_server(tmp_path / "server", is_migrated=True) as running:
        yield running


@pytest.fixture
def machine_of_server(server, tmp_path):
    made = Machine(Database(server.address), tmp_path)
    yield made
    made.clean_up()


@pytest.fixture
def machine_of_clone(tmp_path):
    """Return a machine whose clone has an embedded server with a migrated database."""
    copy_migrated(tmp_path / "var")
    made = Machine(Database("dbname=none"), tmp_path)
    yield made
    made.clean_up()


def set_read_only(server, is_read_only):
    """Make new transactions of all sessions read-only, as on a failed disk or a standby."""
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if is_read_only else 'off'}")
        connection.execute("SELECT pg_reload_conf()")


@pytest.mark.debian("postgresql")
def test_a_crawl_waits_for_a_database_that_is_read_only(machine_of_server, server, serve, tmp_path):
    site = serve(pages=300, hosts=2, traps=1, latency_ms=40)
    running, browser = start_everything(machine_of_server, **QUICK_HEARTBEATS)
    job_id = start_job(browser, site, output=tmp_path / "pages.jsonl")
    wait_for(lambda: site.count_requests() > 60, saying="the crawl is in progress")

    set_read_only(server, is_read_only=True)
    wait_for(lambda: "read-only" in running.err, saying="the log says why")
    set_read_only(server, is_read_only=False)

    wait_for(lambda: phase_of(browser, job_id) == "inactive", within=120, saying="the job has ended")
    assert held_by(tmp_path / "pages.jsonl") == site.documents
    assert not running.has_ended


def test_a_crawl_continues_after_a_full_disk_of_the_write_ahead_log(machine_of_clone, serve, tmp_path):
    site = serve(pages=300, hosts=2, traps=1, latency_ms=40)
    home = Home(tmp_path / "var" / "postgres")
    own = {"DATABASE_URL": "", "CRAWLCTL_VAR": str(tmp_path / "var"), "CRAWLCTL_FREE_DISK": "0"}
    with small_disk(tmp_path / "disk", mebibytes=160) as disk:
        wal = home.data / "pg_wal"
        subprocess.run(["cp", "-a", wal, disk / "pg_wal"], check=True)
        wal.rename(home.directory / "old_wal")
        wal.symlink_to(disk / "pg_wal")
        _, browser = start_everything(machine_of_clone, **own, **QUICK_HEARTBEATS)
        job_id = start_job(browser, site, output=tmp_path / "pages.jsonl")
        wait_for(lambda: site.count_requests() > 60, saying="the crawl is in progress")

        make_room = fill(disk)
        wait_for(lambda: lacks_room_for_wal(home), saying="the server reports the full disk")
        make_room()

        wait_for(lambda: phase_of(browser, job_id) == "inactive", within=120, saying="the job has ended")
        assert held_by(tmp_path / "pages.jsonl") == site.documents
        machine_of_clone.clean_up()


def lacks_room_for_wal(home):
    """Use up a segment of the log. Return True once the server reports that the disk is full."""
    with contextlib.suppress(psycopg.Error), psycopg.connect(home.read_address() or "", autocommit=True) as connection:
        connection.execute("SELECT pg_logical_emit_message(false, 'a test', 'words'), pg_switch_wal()")
    return "No space left on device" in home.log.read_text(errors="replace")


def kill_everything(running, home):
    """Kill `manage.py run`, its processes, the guardian and the server, like a crash of the machine."""
    processes = [psutil.Process(running.pid), *psutil.Process(running.pid).children(recursive=True)]
    with contextlib.suppress(OSError, IndexError, ValueError, psutil.NoSuchProcess):
        server = psutil.Process(int((home.data / "postmaster.pid").read_text().splitlines()[0]))
        processes += [server.parent(), server, *server.children(recursive=True)]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
    running.process.wait(60)
    psutil.wait_procs(processes, timeout=60)


def change_each_page(home, table):
    """Change each page of a table after a checkpoint. Return the file and the blocks of these pages."""
    with psycopg.connect(home.read_address(), autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        with connection.transaction():
            connection.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
            rows = connection.execute(f"SELECT DISTINCT split_part(ctid::text, ',', 1) FROM {table}").fetchall()
            connection.execute(f"UPDATE {table} SET seq = seq")
        path = connection.execute("SELECT pg_relation_filepath(%s)", (table,)).fetchone()[0]
    return home.data / path, [int(block.lstrip("(")) for (block,) in rows]


def tear_pages(path, blocks):
    """Overwrite the second half of these pages, as a crash in a write may do. Return their number."""
    with path.open("r+b") as file:
        size, torn = file.seek(0, os.SEEK_END), 0
        for block in blocks:
            if (block + 1) * _PAGE <= size:
                file.seek(block * _PAGE + _PAGE // 2)
                file.write(bytes(_PAGE // 2))
                torn += 1
    return torn


def test_torn_pages_of_a_killed_database_lose_no_document(machine_of_clone, serve, tmp_path):
    site = serve(pages=300, hosts=2, traps=1, latency_ms=40)
    home = Home(tmp_path / "var" / "postgres")
    own = {"DATABASE_URL": "", "CRAWLCTL_VAR": str(tmp_path / "var"), **QUICK_HEARTBEATS}
    running, browser = start_everything(machine_of_clone, **own)
    job_id = start_job(browser, site, output=tmp_path / "pages.jsonl")
    wait_for(lambda: site.count_requests() > 60, saying="the crawl is in progress")

    path, blocks = change_each_page(home, "jobs_queueitem")
    kill_everything(running, home)
    assert tear_pages(path, blocks) > 0

    _, browser = start_everything(machine_of_clone, **own)
    wait_for(lambda: phase_of(browser, job_id) == "inactive", within=120, saying="the job has ended")
    assert held_by(tmp_path / "pages.jsonl") == site.documents


def test_kills_of_all_processes_lose_no_document_and_tear_no_page(machine_of_clone, serve, tmp_path):
    kills = int(os.environ.get("CRAWLCTL_TEST_KILLS_OF_ALL", "3"))
    # The crawl of the site lasts longer than all kills.
    site = serve(pages=300 * kills, hosts=2, traps=1, latency_ms=40 if kills < 10 else 150)
    home, root = Home(tmp_path / "var" / "postgres"), tmp_path / "archive"
    own = {"DATABASE_URL": "", "CRAWLCTL_VAR": str(tmp_path / "var"), "CRAWLCTL_ARCHIVE_ROOT": str(root)}
    running, browser = start_everything(machine_of_clone, **own, **QUICK_HEARTBEATS)
    job_id = start_job(browser, site, output=tmp_path / "pages.jsonl", archive="warc")
    chance = random.Random(int(os.environ.get("CRAWLCTL_TEST_SEED", "1")))

    for _ in range(kills):
        asked = site.count_requests()
        wait_for(lambda asked=asked: site.count_requests() > asked + 12, saying="the crawl goes on")
        time.sleep(chance.uniform(0, 0.5))
        kill_everything(running, home)
        running, browser = start_everything(machine_of_clone, **own, **QUICK_HEARTBEATS)

    wait_for(lambda: phase_of(browser, job_id) == "inactive", within=180, saying="the job has ended")
    assert held_by(tmp_path / "pages.jsonl") == site.documents
    running.send(signal.SIGTERM)
    assert running.wait() == 0
    archived = set()
    for path in root.rglob("*.warc.gz"):
        archived |= {record.url for record in files.read_all(path) if record.status == 200}
    assert archived >= site.documents


def test_two_commands_run_in_one_clone_form_one_cluster(machine_of_clone, serve, tmp_path):
    site = serve(pages=300, hosts=2, traps=1, latency_ms=40)
    own = {"DATABASE_URL": "", "CRAWLCTL_VAR": str(tmp_path / "var"), **QUICK_HEARTBEATS}
    first, browser = start_everything(machine_of_clone, **own)
    job_id = start_job(browser, site, output=tmp_path / "pages.jsonl")
    second, other_browser = start_everything(machine_of_clone, **own)
    assert other_browser.address != browser.address
    wait_for(lambda: site.count_requests() > 60, saying="the crawl is in progress")

    first.kill_with_children()

    wait_for(lambda: phase_of(other_browser, job_id) == "inactive", within=120, saying="the job has ended")
    assert held_by(tmp_path / "pages.jsonl") == site.documents
    assert not second.has_ended


@pytest.mark.debian("postgresql")
@pytest.mark.debian("faketime")
def test_a_crawl_continues_when_the_clock_of_the_database_is_set_back(server, machine_of_server, serve, tmp_path):
    site = serve(pages=200, hosts=2, traps=1, latency_ms=20)
    clock = server.data / "clock"
    set_clock(clock, hours=0)
    server.end(signal.SIGINT)
    faked = ("env", f"LD_PRELOAD={FAKETIME}", f"FAKETIME_TIMESTAMP_FILE={clock}", "FAKETIME_NO_CACHE=1")
    account = server.server.account
    account = replace(account, prefix=(*account.prefix, *faked, "DONT_FAKE_MONOTONIC=1"))
    server.server = replace(server.server, account=account)
    server.start()
    _, browser = start_everything(machine_of_server, **QUICK_HEARTBEATS)
    job_id = start_job(browser, site, output=tmp_path / "pages.jsonl")
    wait_for(lambda: site.count_requests() > 60, saying="the crawl is in progress")

    set_clock(clock, hours=-1)

    wait_for(lambda: phase_of(browser, job_id) == "inactive", within=60, saying="the job has ended")
    assert held_by(tmp_path / "pages.jsonl") == site.documents


@pytest.mark.parametrize("hours", [1, -1], ids=["back", "forward"])
def test_a_crawl_continues_after_a_clock_jump_while_nothing_ran(cluster, serve, hours):
    site = serve(pages=200, hosts=2, traps=1, latency_ms=20)
    daemons = cluster.start("runmanager", "runworker")
    job = cluster.make_job(site, open_requests=4)
    cluster.start_job(job)
    wait_for(lambda: site.count_requests() > 60, saying="the crawl is in progress")
    for daemon in daemons:
        daemon.send(signal.SIGKILL)
        daemon.wait()

    # As if the machine had been started again: the earlier processes are those of another boot.
    Node.objects.update(boot_id="another boot")
    with psycopg.connect(cluster.database.dsn, autocommit=True) as connection:
        set_clock_back(connection, dt.timedelta(hours=hours))
    before = set(Node.objects.values_list("pk", flat=True))
    cluster.start("runmanager", "runworker")

    assert cluster.wait_for_end(job) == "finished"
    assert held_by(cluster.output) == site.documents
    assert set(Node.objects.filter(pk__in=before).values_list("status", flat=True)) == {"failed"}


def set_clock(file, *, hours):
    file.write_text(f"{hours * 3600:+d}\n")
    file.chmod(0o644)
