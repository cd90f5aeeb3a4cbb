"""Proves that the requested number of backups of a server is kept, even if other servers store in the same place."""

import datetime as dt
from itertools import count

import pytest
from django.utils import timezone

from crawlctl.backups import catalogue, kinds
from crawlctl.backups.descriptions import Backup
from nodes.stores.opening import open_store
from nodes.tasks import verbs
from nodes.tasks.context import TaskContext

NOON = dt.datetime(2030, 5, 17, 12, tzinfo=dt.UTC)


@pytest.fixture
def store(tmp_path):
    (tmp_path / "store").mkdir()
    return open_store(f"dir:{tmp_path / 'store'}")


@pytest.fixture
def put(store, tmp_path):
    """
    Return a function that stores a small backup of a server. The n-th backup begins n microseconds after the moment.
    """
    later = count()

    def put(system, at):
        at += dt.timedelta(microseconds=next(later))
        name = catalogue.new_name(at)
        content = tmp_path / name
        content.write_bytes(b"a copy")
        data = catalogue.store_data(store, name, content, is_sealed=False)
        moment = at.isoformat()
        backup = Backup(
            name=name, version="1", server_version="15", system=system, timeline=1, incarnation=f"{system}/1",
            started=moment, ended=moment, bytes=6, data=data, sealed=None,
        )  # fmt: skip
        catalogue.publish(store, backup)
        return name

    return put


def hours(number):
    return NOON + dt.timedelta(hours=number)


def test_backups_of_one_server_do_not_delete_backups_of_another_server(store, put):
    daily = [put("7", hours(24 * day)) for day in range(3)]
    hourly = [put("8", hours(48 + hour)) for hour in range(1, 9)]

    deleted = set(catalogue.prune(store, keep=2, now=NOON))

    assert deleted == {daily[0], *hourly[:-2]}
    assert catalogue.names(store) == [*daily[1:], *hourly[-2:]]


def test_a_damaged_backup_is_deleted_if_it_is_older_than_all_kept_backups(store, put, tmp_path):
    damaged, between = put("7", hours(0)), put("8", hours(2))
    kept = {server: [put(server, hours(number + 3)) for number in range(2)] for server in ("7", "8")}
    for name in (damaged, between):
        (tmp_path / "store" / "base" / name / "backup.json").write_text("{")
    other = put("9", hours(1))

    # One server has fewer backups than are kept, so a damaged one may be among them.
    assert list(catalogue.prune(store, keep=2, now=NOON)) == []
    catalogue.delete(store, other)
    assert set(catalogue.prune(store, keep=2, now=NOON)) == {damaged, between}
    assert sorted(name for names in kept.values() for name in names) == catalogue.names(store)


@pytest.fixture
def system(connection):
    return connection.execute("SELECT split_part(nodes_incarnation(), '/', 1)").fetchone()[0]


def test_a_retry_continues_the_backup_of_an_earlier_attempt(store, put, system, settings, tmp_path, monkeypatch):
    """Otherwise attempts that fail to delete old backups would push out the backups of the days before."""
    settings.CRAWLCTL_BACKUP_STORE = str(tmp_path / "store")
    now = timezone.now()
    days = [put(system, now - dt.timedelta(days=day)) for day in (3, 2, 1)]
    task = verbs.create(kind="backup", arguments={"keep": 3}, made_by="a test")
    of_other = put("another server", now + dt.timedelta(seconds=1))
    mine = put(system, now + dt.timedelta(seconds=1))
    made = []

    def make(_store, **_given):
        made.append(put(system, now + dt.timedelta(seconds=5)))
        return catalogue.read(store, made[-1])

    monkeypatch.setattr(kinds, "make_backup", make)

    def attempt(retry):
        context = TaskContext(task=task.pk, group="generic", retry_number=retry)
        return kinds.back_up(context, task.arguments)["backup"]

    assert attempt(1) == attempt(2) == mine
    assert (made, catalogue.names(store)) == ([], sorted([*days[1:], of_other, mine]))
    assert attempt(0) == made[0]


def test_backups_of_one_second_sort_by_the_order_of_their_starts(store, put):
    made = [put("7", NOON + dt.timedelta(microseconds=number)) for number in (7, 80, 4_100, 999_900)]

    assert catalogue.names(store) == made
    assert catalogue.newest(store).name == made[-1]
