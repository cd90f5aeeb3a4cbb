"""Proves that the write-ahead log of the embedded server is stored, and that a restore can reach every moment in it."""

import contextlib
import datetime as dt
import os
import signal
import threading
from pathlib import Path

import psycopg
import pytest

from crawlctl.backups import wal
from crawlctl.backups.shipping import Shipper
from crawlctl.postgres.binaries import find_binaries
from nodes.stores.opening import open_store
from tests.support.installations import PASSPHRASE, Installation, copy_migrated
from tests.support.processes import wait_for
from tests.support.s3 import create_bucket, s3_server


@pytest.fixture
def old(tmp_path):
    """Return an installation that stores its log each second."""
    copy_migrated(tmp_path / "old" / "var")
    place = str(tmp_path / "place")
    return Installation(tmp_path / "old", {"CRAWLCTL_BACKUP_STORE": place, "CRAWLCTL_BACKUP_SHIP_EVERY": "1"})


@pytest.fixture
def new(old, tmp_path):
    (tmp_path / "new").mkdir()
    return Installation(tmp_path / "new", dict(old.further))


@pytest.fixture
def place(old):
    return Path(old.further["CRAWLCTL_BACKUP_STORE"])


class Writer(threading.Thread):
    """
    A thread that commits rows, one after another, even across restarts of the server. `confirmed` has each row with its
    time.
    """

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.confirmed, self.stopping = address, [], threading.Event()
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS written (n bigint, at timestamptz)")

    def run(self):
        n = 0
        while not self.stopping.is_set():
            with contextlib.suppress(psycopg.Error), psycopg.connect(self.address, autocommit=True) as connection:
                while not self.stopping.wait(0.005):
                    n += 1
                    connection.execute("INSERT INTO written VALUES (%s, clock_timestamp())", [n])
                    (at,) = connection.execute("SELECT clock_timestamp()").fetchone()
                    self.confirmed.append((n, at))

    def end(self):
        self.stopping.set()
        self.join()


def reached(installation):
    moment = installation.log_state().get("reached")
    return dt.datetime.fromisoformat(moment) if moment else dt.datetime.min.replace(tzinfo=dt.UTC)


def wait_until_stored(installation, moment):
    wait_for(lambda: reached(installation) > moment, saying=f"the log is stored: {installation.log_state()}")


def status_of(installation):
    """Return the lines of `crawlctl status`, which ends with 1 if something needs attention."""
    status = installation.start("status")
    assert status.wait() in {0, 1}, status.err
    return status.out


def now_of(address):
    with psycopg.connect(address, autocommit=True) as connection:
        return connection.execute("SELECT clock_timestamp()").fetchone()[0]


def rows_of(installation):
    with installation.server() as address, psycopg.connect(address) as connection:
        return dict(connection.execute("SELECT n, at FROM written").fetchall())


def kill_server(installation):
    pid = int((installation.data / "postmaster.pid").read_text().splitlines()[0])
    os.kill(pid, signal.SIGKILL)


def test_a_restore_has_every_commit_of_the_stored_log(old, new, place):
    with old.server(ships=True) as address:
        old.run("backup")
        writer = Writer(address)
        writer.start()
        wait_for(lambda: len(writer.confirmed) > 50, saying="rows are written")
        kill_server(old)
        killed = len(writer.confirmed)
        wait_for(lambda: len(writer.confirmed) > killed + 50, saying="the server runs again")
        wait_until_stored(old, writer.confirmed[killed + 50][1])
        until = reached(old)
        kill_server(old)
        writer.end()
    (backup,) = old.backups(place)
    (way,) = backup["ways"]
    assert (dt.datetime.fromisoformat(way["until"]) >= until, way["gap"]) == (True, "")
    assert "complete and unchanged" in old.run("backup", "check")

    output = new.run("backup", "restore")
    rows = rows_of(new)
    assert {n for n, at in writer.confirmed if at <= until} <= rows.keys()
    assert len([n for n, at in writer.confirmed if at <= until]) > 100
    assert "The last change in it is of" in output


def test_a_restore_reaches_exactly_the_moment_that_was_requested(old, new, place):
    with old.server(ships=True) as address:
        old.run("backup")
        writer = Writer(address)
        writer.start()
        wait_for(lambda: len(writer.confirmed) > 50, saying="rows are written")
        moment = now_of(address)
        known = len(writer.confirmed)
        wait_for(lambda: len(writer.confirmed) > known + 50, saying="more rows are written")
        wait_until_stored(old, writer.confirmed[-1][1])
        writer.end()

    new.run("backup", "restore", "--to", moment.isoformat())
    rows = rows_of(new)
    assert {n for n, at in writer.confirmed if at <= moment} <= rows.keys()
    assert [n for n, at in rows.items() if at > moment] == []

    late = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)).isoformat()
    error = new.run("backup", "restore", "--to", late, "--keep-old", new.directory / "before", code=2)
    assert "reaches" in error
    assert f"{old.backups(place)[0]['name']}: from " in error


def test_a_later_restore_follows_the_log_written_after_an_earlier_restore(old, new, place):
    with old.server(ships=True) as address:
        old.run("backup")
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE TABLE written (n bigint, at timestamptz)")
            connection.execute("INSERT INTO written VALUES (1, clock_timestamp())")
        moment = now_of(address)
        wait_until_stored(old, moment)
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("INSERT INTO written VALUES (2, clock_timestamp())")
        lost = now_of(address)
        wait_until_stored(old, lost)

    new.run("backup", "restore", "--to", moment.isoformat())
    with new.server(ships=True) as address:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("INSERT INTO written VALUES (3, clock_timestamp())")
        wait_until_stored(new, now_of(address))
    before = new.directory / "before"
    new.run("backup", "restore", "--keep-old", before)
    assert rows_of(new).keys() == {1, 3}

    # Only the old timeline of the log has the time between the two moments.
    new.run("backup", "restore", "--to", lost.isoformat(), "--keep-old", before.with_name("again"))
    assert rows_of(new).keys() == {1, 2}


def test_a_missing_segment_of_the_log_is_named_and_ends_a_restore(old, new, place):
    with old.server(ships=True) as address:
        old.run("backup")
        writer = Writer(address)
        writer.start()
        for _ in range(3):
            wait_until_stored(old, now_of(address))
        writer.end()
    segments = sorted(path for path in (place / "wal").glob("*/*") if ".zst" in path.name)
    gone = segments[-2]
    gone.unlink()

    assert f"gap: 1 segments are missing, from {gone.name[:24]} to {gone.name[:24]}" in old.run("backup", "list")
    checked = old.start("backup", "check")
    assert checked.wait() == 1
    assert "Make a new backup" in checked.out
    assert "It was restored up to the gap" in new.run("backup", "restore")


def test_a_flipped_bit_in_the_log_is_found_and_never_restored(old, new, place):
    with old.server(ships=True) as address:
        old.run("backup")
        wait_until_stored(old, now_of(address))
    segment = max(path for path in (place / "wal").glob("*/*") if ".zst" in path.name)
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)

    checked = old.start("backup", "check")
    assert checked.wait() == 1
    assert "was changed" in checked.out
    assert "was changed" in new.run("backup", "restore", code=1)
    assert not new.data.exists()


def test_a_lost_replication_slot_leaves_a_gap_reported_until_a_new_backup(old, new, place):
    with old.server(ships=True) as address:
        old.run("backup")
        wait_until_stored(old, now_of(address))
    # The server runs while nothing copies its log, and forgets the position of the copy.
    with old.server() as address, psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SELECT pg_drop_replication_slot('crawlctl_backup')")
        for _ in range(3):
            connection.execute("SELECT pg_current_xact_id()")
            connection.execute("SELECT pg_switch_wal()")
            connection.execute("CHECKPOINT")
    with old.server(ships=True) as address:
        wait_until_stored(old, now_of(address))
        assert old.log_state()["gap_at"]
        assert old.backups(place)[0]["ways"][0]["gap"]
        lost = now_of(address)
        assert "has a gap" in status_of(old)
        old.run("backup")
        wait_until_stored(old, now_of(address))
        assert "has a gap" not in status_of(old)
    first, second = old.backups(place)
    assert [way["gap"] for way in second["ways"]] == [""]

    error = new.run("backup", "restore", "--to", lost.isoformat(), code=2)
    assert f"reaches {lost:%Y-%m-%d %H:%M:%S} UTC" in error
    assert f"{first['name']}: from " in error
    assert f"{second['name']}: from {second['ended'][:10]}" in error
    new.run("backup", "restore", "--to", reached(old).isoformat())


def test_an_unreachable_store_costs_bounded_disk_and_leaves_no_gap(old, place):
    waiting = old.var / "wal"
    with old.server() as address:
        old.run("backup")
        with shipper(old, address, place, most_waiting=4, few_waiting=1):
            wait_until_stored(old, now_of(address))
            away = place.rename(place.with_name("away"))
            with psycopg.connect(address, autocommit=True) as connection:
                while not is_slot_free(connection):
                    before = len(segments_in(waiting))
                    connection.execute("SELECT pg_current_xact_id(), pg_switch_wal()")
                    wait_for(
                        lambda before=before: is_slot_free(connection) or len(segments_in(waiting)) > before,
                        saying="the segment arrives, or the receiver stops",
                    )
                wait_for(lambda: old.log_state()["problem"], saying="the problem is reported")
                kept = segments_in(waiting)
                for _ in range(6):
                    connection.execute("SELECT pg_current_xact_id(), pg_switch_wal()")
                assert is_slot_free(connection)
            assert "Create it, or mount its disk" in old.log_state()["problem"]
            assert len(kept) >= 4
            assert segments_in(waiting) == kept
            until = now_of(address)

            away.rename(place)
            wait_until_stored(old, until)
            assert old.log_state()["problem"] == ""
    (way,) = old.backups(place)[0]["ways"]
    assert (way["gap"], dt.datetime.fromisoformat(way["until"]) >= until) == ("", True)
    assert segments_in(waiting) == []


def is_slot_free(connection):
    """True if the server sends its log to no receiver."""
    return connection.execute("SELECT NOT active FROM pg_replication_slots").fetchone()[0]


def segments_in(folder):
    """Return the closed segments that wait for the store."""
    return [path for path in folder.iterdir() if wal.SEGMENT_NAME.fullmatch(path.name)]


@contextlib.contextmanager
def shipper(installation, address, place, **bounds):
    """Store the log of the server in a thread of this process."""
    copying = Shipper(
        dsn=address,
        folder=installation.var / "wal",
        state_file=installation.var / "wal" / "state.json",
        store=open_store(f"dir:{place}"),
        passphrase="",
        every=dt.timedelta(seconds=1),
        binaries=find_binaries(),
        **bounds,
    )
    stopping = threading.Event()
    thread = threading.Thread(target=copying.run, args=(stopping,), daemon=True)
    thread.start()
    yield
    stopping.set()
    thread.join()


def test_prune_deletes_the_log_before_the_oldest_kept_backup(old, place):
    with old.server(ships=True) as address:
        old.run("backup")
        wait_until_stored(old, now_of(address))
        first = min((place / "wal").glob("*/*"))
        wait_until_stored(old, now_of(address))
        old.run("backup")
        wait_until_stored(old, now_of(address))
        assert "segments of the write-ahead log" in old.run("backup", "prune", "--keep", 1).lower()
    assert not first.exists()
    assert "complete and unchanged" in old.run("backup", "check")


def test_a_sealed_log_needs_its_passphrase(old, new, place, tmp_path, monkeypatch):
    with s3_server(tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        create_bucket("backups-of-tests")
        old.further |= {**PASSPHRASE, "CRAWLCTL_BACKUP_STORE": "s3://backups-of-tests/one"}
        with old.server(ships=True) as address:
            old.run("backup")
            wait_until_stored(old, now_of(address))
        new.further |= {"CRAWLCTL_BACKUP_STORE": "s3://backups-of-tests/one"}
        assert "is sealed" in new.run("backup", "restore", code=2)
        new.run("backup", "restore", **PASSPHRASE)

    assert new.data.exists()


def test_the_log_of_an_external_server_is_stored_until_the_command_ends(old, new, place):
    with old.server() as address:
        old.run("backup", DATABASE_URL=address)
        shipping = old.start("backup", "ship", DATABASE_URL=address)
        wait_until_stored(old, now_of(address))
        shipping.send(signal.SIGTERM)
        assert shipping.wait() == 0, shipping.err
        stored = reached(old)
    (way,) = old.backups(place)[0]["ways"]
    assert dt.datetime.fromisoformat(way["until"]) == stored
    assert "stores its log by itself" in new.run("backup", "ship", code=2)
