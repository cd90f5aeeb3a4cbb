"""Proves the authority that reads another database by SQL, and the authority that reads a file of users."""

import asyncio
import os
import time

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from jobs.connectors.authority.kind import Limits, Status, Unreachable
from jobs.connectors.authority.sql import SQL
from jobs.connectors.authority.users_file import FILE
from nodes.settings.running import current
from tests.support.processes import new_database
from tests.support.tables import each_row

QUERY = "SELECT token FROM access WHERE login = %(user)s"


def ask(kind, configuration, *users, seconds=5.0):
    assert kind.problems(configuration) == {}

    async def asking():
        authority = kind.open(kind.configuration.read(configuration), Limits(seconds=seconds))
        try:
            return [await authority.access(user) for user in users]
        finally:
            await authority.close()

    return asyncio.run(asking())


# --- SQL -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other_database(django_db_blocker):
    """Return the configuration of a connection to another database, with a table of tokens."""
    with django_db_blocker.unblock(), new_database() as database:
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE access (login text, token text)")
            connection.execute(
                "INSERT INTO access VALUES ('alice', 'b'), ('alice', 'a'), ('alice', 'a'), ('alice', 'x\ny'), ('bob', NULL)"
            )
        facts = conninfo_to_dict(database.dsn)
        yield {
            "host": facts["host"],
            **({"port": int(facts["port"])} if "port" in facts else {}),
            "database": database.name,
            "username": facts.get("user") or "postgres",
            "query": QUERY,
        }


def test_rows_of_another_database_become_access_tokens(other_database):
    alice, bob, nobody = ask(SQL, other_database, "alice", "bob", "carol")

    assert alice.tokens == ("a", "b", "x\ny")
    assert (bob.status, bob.tokens) == (Status.AUTHORIZED, ())
    assert nobody.status is Status.USER_NOT_FOUND


@each_row("user", ["' OR 1=1 --", "alice'; DROP TABLE access; --", "%(user)s", "a\x00b", "\\", "%"])
def test_a_user_name_cannot_change_the_query(other_database, user):
    assert [one.status for one in ask(SQL, other_database, user, "alice")] == [Status.USER_NOT_FOUND, Status.AUTHORIZED]


@each_row(
    ("query", "problem"),
    [
        ("DELETE FROM access WHERE login = %(user)s RETURNING token", "read-only"),
        ("SELECT %(user)s; DELETE FROM access", "multiple commands"),
        ("SELECT token FROM missing WHERE login = %(user)s", "missing"),
        ("SET application_name = %(user)s", "The database says"),
        ("DO $$ BEGIN PERFORM 1; END $$ -- %(user)s", "."),
        ("SELECT %(user)s FROM generate_series(1, 20000)", "more than 10000 rows"),
    ],
)
def test_an_authority_whose_query_writes_or_fails_is_unreachable(other_database, query, problem):
    with pytest.raises(Unreachable, match=problem):
        ask(SQL, other_database | {"query": query}, "alice")

    assert ask(SQL, other_database, "alice")[0].status is Status.AUTHORIZED


def test_a_slow_query_ends_at_the_server(other_database):
    slow = other_database | {"query": "SELECT %(user)s FROM pg_sleep(60)"}

    began = time.monotonic()
    with pytest.raises(Unreachable, match="statement timeout"):
        ask(SQL, slow, "alice", seconds=1)

    assert time.monotonic() - began < 30


def test_a_connection_that_the_server_ended_is_opened_again(other_database):
    async def asking():
        authority = SQL.open(SQL.configuration.read(other_database), Limits())
        before = await authority.access("alice")
        ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'crawlctl authority'"
        facts = {"host": other_database["host"], "port": other_database.get("port"), "user": other_database["username"]}
        with psycopg.connect(**facts, dbname=other_database["database"], autocommit=True) as other:
            other.execute(ending)
        after = await authority.access("alice")
        await authority.close()
        return before, after

    before, after = asyncio.run(asking())

    assert before == after


def test_no_error_shows_the_password_of_a_database(other_database):
    with pytest.raises(Unreachable) as raised:
        ask(SQL, other_database | {"username": "nobody-here", "password": "a secret"}, "alice")

    assert "a secret" not in str(raised.value)


@each_row(
    ("facts", "field"),
    [
        ({"query": "SELECT 1"}, "query"),
        ({"query": "SELECT %(user)s WHERE x LIKE '%a'"}, "query"),
        ({"host": " "}, "host"),
        ({"port": 0}, "port"),
        ({"tls": "maybe"}, "tls"),
    ],
)
def test_an_invalid_configuration_of_sql_is_refused(facts, field):
    configuration = {"host": "a", "database": "b", "username": "c", "query": QUERY, **facts}

    assert list(SQL.problems(configuration)) == [field]


# --- Files ---------------------------------------------------------------------------------------

CONTENT = """
users:
  alice: {groups: [staff], tokens: [staff, own]}
  Bob: {disabled: true}
  carol:
groups:
  staff: {groups: [company]}
  company: {groups: [staff, world]}
"""


@pytest.fixture
def users(tmp_path, monkeypatch):
    """Return a file of users below a directory from which files may be read."""
    root = tmp_path / "root"
    root.mkdir()
    monkeypatch.setitem(current().environment, "jobs.file_roots", (str(root),))
    file = root / "users.yaml"
    file.write_text(CONTENT)
    return file


def test_a_file_gives_a_user_its_groups_and_the_groups_that_contain_them(users):
    alice, bob, carol, nobody = ask(FILE, {"path": str(users)}, "alice", "Bob", "carol", "bob")

    assert alice.tokens == ("company", "own", "staff", "world")
    assert (bob.status, carol.status, carol.tokens) == (Status.UNAUTHORIZED, Status.AUTHORIZED, ())
    assert nobody.status is Status.USER_NOT_FOUND
    assert ask(FILE, {"path": str(users), "ignores_case": True}, "BOB")[0].status is Status.UNAUTHORIZED


def test_user_names_that_differ_only_in_case_are_refused_if_case_is_ignored(users):
    users.write_text("users: {dora: {tokens: [a]}, Dora: {tokens: [b]}}")

    assert ask(FILE, {"path": str(users)}, "Dora")[0].tokens == ("b",)
    with pytest.raises(Unreachable, match="two users have the name dora"):
        ask(FILE, {"path": str(users), "ignores_case": True}, "dora")


def test_a_changed_file_is_read_again(users):
    async def asking():
        authority = FILE.open({"path": str(users)}, Limits())
        before = await authority.access("dora")
        users.write_text("users: {dora: {tokens: [a]}}")
        return before, await authority.access("dora")

    before, after = asyncio.run(asking())

    assert (before.status, after.tokens) == (Status.USER_NOT_FOUND, ("a",))


@each_row(
    ("content", "problem"),
    [
        ("users: [", "not YAML"),
        ("- alice", "must be an object"),
        ("people: {}", "unknown names people"),
        ("users: {1: {}}", "names are texts"),
        ("users: {alice: {groups: staff}}", "list of texts"),
        ("users: {alice: {tokens: [1]}}", "list of texts"),
        ("users: {alice: {token: [a]}}", "unknown names token"),
        ("users: !!python/object/apply:os.system ['true']", "not YAML"),
        ("[" * 5_000, "not YAML"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_authority_with_an_invalid_file_is_unreachable(users, content, problem):
    users.write_text(content)

    with pytest.raises(Unreachable, match=problem):
        ask(FILE, {"path": str(users)}, "alice")


def test_a_file_outside_of_the_roots_is_refused_when_stored_and_when_read(users, tmp_path):
    outside = tmp_path / "users.yaml"
    outside.write_text(CONTENT)
    assert list(FILE.problems({"path": str(outside)})) == ["path"]
    assert list(FILE.problems({"path": "users.yaml"})) == ["path"]

    configuration = {"path": str(users)}
    users.unlink()
    users.symlink_to(outside)

    assert list(FILE.problems(configuration)) == ["path"]
    with pytest.raises(Unreachable, match="FILE_ROOTS"):
        asyncio.run(FILE.open(configuration, Limits()).access("alice"))


def test_a_pipe_is_refused_as_a_file_of_users(users):
    users.unlink()
    os.mkfifo(users)

    with pytest.raises(Unreachable, match="is not a file"):
        ask(FILE, {"path": str(users)}, "alice")
