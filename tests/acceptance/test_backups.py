"""Proves backups and restores of the embedded database by commands, in a directory and on an S3-compatible server."""

import shutil

import psycopg
import pytest

from crawlctl.postgres.home import Home
from tests.acceptance.test_database_restarts import start_everything, start_job
from tests.support.installations import PASSPHRASE, Installation, copy_migrated, remove_cluster
from tests.support.processes import QUICK_HEARTBEATS, Database, Machine, held_by, wait_for
from tests.support.s3 import create_bucket, s3_server

# The first bytes of a compressed file that is not sealed.
ZSTANDARD = bytes.fromhex("28b52ffd")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make an installation with two backups. The second backup also has the secret key."""
    directory = tmp_path_factory.mktemp("installation")
    installation = Installation(directory, {})
    copy_migrated(installation.var)
    place = directory / "place"
    installation.run("backup", "--to", place)
    installation.run("backup", "--to", place, **PASSPHRASE)
    return installation


@pytest.fixture
def old(made, tmp_path):
    """Return a copy of the installation of `made`, with its backups."""
    shutil.copytree(made.directory, tmp_path / "old", symlinks=True)
    return Installation(tmp_path / "old", {})


@pytest.fixture
def new(tmp_path):
    (tmp_path / "new").mkdir()
    return Installation(tmp_path / "new", {})


@pytest.fixture
def place(old):
    return old.directory / "place"


def incarnation_of(installation):
    with installation.server() as address, psycopg.connect(address) as connection:
        return connection.execute("SELECT nodes_incarnation()").fetchone()[0]


def test_the_list_of_backups_shows_which_ones_have_the_secret_key(old, place):
    first, second = old.backups(place)

    assert [bool(first["sealed"]), bool(second["sealed"])] == [False, True]
    assert second["problem"] == ""
    assert second["started"] < second["ended"]
    assert (old.var / "last-backup").exists()


def test_each_restore_has_a_new_incarnation(old, new, place):
    new.run("backup", "restore", "--from", place, **PASSPHRASE)
    first = incarnation_of(new)
    assert not (new.var / "postgres" / "restore.unfinished").exists()
    assert (new.var / "secret-key").read_text() == (old.var / "secret-key").read_text()

    new.run("backup", "restore", "--from", place, "--keep-old", new.directory / "before", **PASSPHRASE)
    assert (new.directory / "before" / "PG_VERSION").exists()
    assert len({incarnation_of(new), first, old.backups(place)[1]["incarnation"]}) == 3


def test_a_restore_refuses_to_overwrite_existing_data(old, place):
    error = old.run("backup", "restore", "--from", place, code=2)

    assert "has a database already. Add --keep-old DIRECTORY" in error


def test_a_restore_refuses_a_database_that_a_process_uses(old, place):
    with old.server():
        error = old.run("backup", "restore", "--from", place, "--keep-old", old.directory / "before", code=2)

    assert "processes use the database" in error.lower()
    assert Home(old.var / "postgres").data.exists()


def test_a_restore_refuses_another_passphrase(new, place):
    error = new.run("backup", "restore", "--from", place, code=2, CRAWLCTL_BACKUP_PASSPHRASE="wrong")

    assert "passphrase does not open the secret key" in error
    assert not new.data.exists()


def test_all_parts_of_a_backup_with_a_passphrase_are_sealed(old, new, place):
    first, second = old.backups(place)
    assert (place / first["data"]["key"]).read_bytes()[:4] == ZSTANDARD
    assert (place / second["data"]["key"]).read_bytes().startswith(b"crawlctl sealed file 1\n")

    error = new.run("backup", "restore", "--from", place, code=2)
    assert f"The backup {second['name']} is sealed. Give the passphrase of its time" in error
    assert not new.data.exists()

    unproven = "It is not sealed as a whole, so nothing proves its origin"
    assert unproven in old.run("backup", "check", "--from", place, "--backup", first["name"])
    unopened = "Sealed parts were not opened"
    checked = old.run("backup", "check", "--from", place)
    assert unopened in checked
    assert unproven not in checked
    assert unopened not in old.run("backup", "check", "--from", place, **PASSPHRASE)


def test_a_restore_refuses_a_time_that_no_backup_reaches(old, new, place):
    first, _ = old.backups(place)

    error = new.run("backup", "restore", "--from", place, "--to", "2001-01-01T00:00Z", code=2)
    assert "no backup in" in error.lower()
    assert f"{first['name']}: only {first['ended'][:10]}" in error
    assert "reaches 2001-01-01 00:00:00 UTC" in error
    assert not new.data.exists()

    output = new.run("backup", "restore", "--from", place, "--backup", first["name"])
    assert "The secret key was not restored" in output


def test_a_damaged_backup_is_found_and_never_restored(old, new, place):
    name = old.backups(place)[1]["name"]
    data = place / "base" / name / "data.tar.zst.sealed"
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)

    checked = old.start("backup", "check", "--all", "--from", place)
    assert checked.wait() == 1
    assert f"{name}: damaged." in checked.out
    assert checked.out.count("complete and unchanged") == 1
    assert "was changed" in new.run("backup", "restore", "--from", place, code=1, **PASSPHRASE)
    assert not new.data.exists()


def test_prune_keeps_the_newest_complete_backup(old, place):
    first, second = [backup["name"] for backup in old.backups(place)]
    (place / "base" / second / "data.tar.zst.sealed").unlink()

    old.run("backup", "prune", "--from", place, "--keep", 1)
    assert [backup["name"] for backup in old.backups(place)] == [first, second]
    assert "keep at least 1" in old.run("backup", "prune", "--from", place, "--keep", 0, code=2).lower()

    third = old.run("backup", "--to", place).split()[1]
    old.run("backup", "prune", "--from", place, "--keep", 1)
    assert [backup["name"] for backup in old.backups(place)] == [third]
    assert [path.name for path in (place / "base").iterdir()] == [third]


def test_a_backup_without_its_description_is_ignored(old, place):
    name = old.backups(place)[1]["name"]
    (place / "base" / name / "backup.json").unlink()

    assert name not in [backup["name"] for backup in old.backups(place)]


def test_a_killed_backup_is_not_listed_and_the_next_one_deletes_its_copy(old, place):
    left = old.var / "backups" / "copy-of-a-killed-backup"
    left.mkdir()
    (left / "data").write_text("half")
    before = old.backups(place)
    killed = old.start("backup", "--to", place)
    wait_for(lambda: "Copying" in killed.err or killed.has_ended, saying="the backup has begun")
    killed.kill_with_children()
    assert old.backups(place) == before

    old.run("backup", "--to", place)
    assert len(old.backups(place)) == len(before) + 1
    assert [path.name for path in (old.var / "backups").iterdir()] == ["lock"]


def test_a_database_account_without_permission_is_refused(old, place):
    with old.server() as address:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE ROLE weak LOGIN IN ROLE pg_read_all_data")
        error = old.run("backup", "--to", place, code=2, DATABASE_URL=address.replace("crawlctl@", "weak@"))

    assert "ALTER ROLE" in error
    assert "docs/deploying.md" in error


def test_invalid_options_of_a_backup_end_the_command_with_2(old, place):
    assert "Set CRAWLCTL_BACKUP_STORE" in old.run("backup", code=2)
    assert "dir:/path" in old.run("backup", "--to", "ftp://host/x", code=2)
    assert "with a time zone" in old.run("backup", "restore", "--from", place, "--to", "yesterday", code=2)
    assert "is not the name" in old.run("backup", "check", "--from", place, "--backup", "x", code=2)


def test_a_backup_in_a_bucket_can_be_restored(old, new, tmp_path, monkeypatch):
    with s3_server(tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        create_bucket("backups-of-tests")
        old.run("backup", "--to", "s3://backups-of-tests/one", **PASSPHRASE)
        assert "complete and unchanged" in old.run("backup", "check", "--from", "s3://backups-of-tests/one")
        new.run("backup", "restore", "--from", "s3://backups-of-tests/one", **PASSPHRASE)

    assert new.data.exists()


def test_a_crawl_ends_as_if_undisturbed_after_a_crash_and_a_restore(serve, tmp_path):
    machine = Machine(Database("dbname=none"), tmp_path)
    own = {"DATABASE_URL": "", "CRAWLCTL_VAR": str(tmp_path / "var"), **QUICK_HEARTBEATS, **PASSPHRASE}
    copy_migrated(tmp_path / "var")
    site = serve(pages=400, hosts=2, traps=1, latency_ms=40)
    output, place = tmp_path / "pages.jsonl", tmp_path / "place"
    try:
        running, browser = start_everything(machine, **own)
        job_id = start_job(browser, site, output=output)
        wait_for(lambda: site.count_requests() >= 40, saying="the crawl is in progress")

        # The crawl must not end during the backup, so the site keeps its requests open meanwhile.
        with site.silent():
            backup = machine.start("backup", "--to", place, **own)
            assert backup.wait() == 0, backup.err
            known = site.count_requests()
        wait_for(lambda: site.count_requests() >= known + 60, saying="more pages were read after the backup")
        running.kill_with_children()
        remove_cluster(tmp_path / "var")

        wait_for(lambda: _restored(machine, place, own), saying="the old server has ended")
        _, browser = start_everything(machine, **own)
        wait_for(lambda: browser.get(f"jobs/{job_id}/")[1].get("phase") == "inactive", saying="the job has ended")

        assert held_by(output) == site.documents
        # Documents that were indexed after the backup are requested again.
        assert max(site.answers().values()) > 1
    finally:
        machine.clean_up()


def _restored(machine, place, own):
    """True if a restore succeeds. It is refused while the guardian of the crashed server still ends."""
    restore = machine.start("backup", "restore", "--from", place, **own)
    return restore.wait() == 0 or ("processes use" in restore.err and None)
