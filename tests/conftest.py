"""Fixtures for all tests: the database over a plain connection, and the mark for Debian's packages."""

import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import psycopg
import pytest

from tests.support import once
from tests.support.ordering import waiting_first
from tests.support.rival import Rival
from tests.support.shared_start import prepare_share
from tools.compile_catalogues import compile_catalogues

if TYPE_CHECKING:
    from pytest_django.plugin import DjangoDbBlocker

    from tests.support.kept_connection import KeptConnection
    from tests.support.processes import Database
    from tests.support.scripted import World
    from tests.support.scripted_output import Sink

_BROWSER = Path("/usr/lib/chromium/chromium-headless-shell")
# Paths by which the tests recognize each Debian package. The package counts as installed if one of its paths exists.
_DEBIAN = {
    "faketime": ("/usr/lib/*/faketime/libfaketime.so.1",),
    "chromium-headless-shell": (str(_BROWSER),),
    "postgresql": ("/usr/lib/postgresql/*/bin/initdb",),
    "nginx": ("/usr/sbin/nginx",),
    "pgbouncer": ("/usr/sbin/pgbouncer",),
    "slapd": ("/usr/sbin/slapd",),
    "systemd": ("/usr/bin/systemd-analyze",),
    "prometheus": ("/usr/bin/promtool",),
    "postgresql-doc": ("/usr/share/doc/postgresql-doc-*/html/index.html",),
}


# An example may take long on a busy machine, so its duration shows nothing. Each run draws other examples, so half of
# Hypothesis's usual number finds the same errors in a few runs.
hypothesis.settings.register_profile("few examples of any duration", deadline=None, max_examples=50)
hypothesis.settings.load_profile("few examples of any duration")


# Number of new objects that starts a garbage collection.
_NEW_OBJECTS = 10_000


def _is_installed(package: str) -> bool:
    return any(list(Path("/").glob(pattern[1:])) for pattern in _DEBIAN[package])


def pytest_configure() -> None:
    """Restore interrupts, which a background process of a shell ignores, and compile the catalogues of the languages."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # make also does this before it starts crawlctl.
    compile_catalogues()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """
    Prepare files that all processes read, and keep the garbage collector away from imported modules and collected tests.

    Modules and tests stay until the end. Each full collection would visit their million objects.
    """
    if process := getattr(session.config, "workerinput", None):
        number = int(process["workerid"].removeprefix("gw"))
        prepare_share(session.config, number=number, processes=process["workercount"])
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # The commands of crawlctl also set this: most objects of a request or a page are needed until its end.
        gc.set_threshold(_NEW_OBJECTS)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """
    Skip tests whose Debian package is missing, unless the environment requires all packages.

    A test of Hypothesis that takes too long ends its process, and pytest-xdist starts another one.
    """
    for item in items:
        for mark in item.iter_markers("debian"):
            (package,) = mark.args
            if not _is_installed(package) and os.environ.get("CRAWLCTL_REQUIRE_DEBIAN") != "1":
                item.add_marker(pytest.mark.skip(reason=f"needs Debian's package {package}"))
                config.stash.setdefault(_LEFT_OUT, []).append(f"{item.nodeid} (package {package})")
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            # Hypothesis would treat the error of the usual method as an error of the example, and begin the example
            # again.
            item.add_marker(pytest.mark.timeout(method="thread"))


@pytest.hookimpl(trylast=True, specname="pytest_collection_modifyitems")
def begin_with_waiting_tests(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests for the processes of pytest-xdist."""
    processes = getattr(config, "workerinput", {"workercount": 1})["workercount"]
    items[:] = waiting_first(items, processes=processes, name_of=lambda item: item.nodeid)


_LEFT_OUT = pytest.StashKey[list[str]]()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    left_out = config.stash.get(_LEFT_OUT, [])
    if left_out:
        terminalreporter.section("left out: Debian packages are missing")
        for line in left_out:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def test_server(django_db_blocker: "DjangoDbBlocker") -> None:
    """
    Prepare the server that the tests share, without settings of an earlier session.

    An embedded server does not wait for the disk, because only a power cut would matter.
    """
    from django.conf import settings

    from nodes.database.address import database_dsn

    if "directory" not in settings.DATABASES["default"]["OPTIONS"]:
        return
    with django_db_blocker.unblock(), psycopg.connect(database_dsn(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM RESET ALL")
        connection.execute("ALTER SYSTEM SET full_page_writes = off")
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")


@pytest.fixture(scope="session", autouse=True)
def shared_directory(worker_id: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let all processes of the test session share what `made_once` makes."""
    of_this_process = tmp_path_factory.getbasetemp()
    once.share(of_this_process if worker_id == "master" else of_this_process.parent)


@pytest.fixture(scope="session")
def template(test_server: None, shared_directory: None) -> "Database":
    """Return a migrated database, the template of all others. It is made once for all processes of the test session."""
    from tests.support.processes import make_template, template_database

    once.made_once("template", lambda _directory: make_template())
    return template_database()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, template: "Database", django_db_blocker: "DjangoDbBlocker"
) -> None:
    """
    Make the test database a copy of the template. pytest-django requests this fixture before it makes the database.
    """
    from django.db import connection

    connection.settings_dict["TEST"]["TEMPLATE"] = template.name


# Caches of this process with content of the database: the place of each, and a function that returns its empty value.
# Another test's database has other rows with the same ids.
_REMEMBERED: dict[str, Callable[[], Any]] = {
    # The stored settings that the process has applied.
    "nodes.settings.running._process.taken_up": lambda: None,
    # No cached request is fresh enough, so each call reads the database of the test.
    "jobs.queries.hosts.latest_requests._FRESH": lambda: -1.0,
    "jobs.queries.hosts.latest_requests._STALEST": lambda: -1.0,
    "jobs.queries.jobs.failed_seeds._KNOWN": dict,
    "jobs.queue.pace.limits.AppliedPolicies._known": dict,
    # The heartbeats that the database confirmed to nodes of this process.
    "nodes.membership.incarnation._nodes": dict,
}


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what the process remembers of the database of an earlier test."""
    for place, nothing in _REMEMBERED.items():
        monkeypatch.setattr(place, nothing())


@pytest.fixture(scope="session", autouse=True)
def quick_hashes() -> Iterator[None]:
    """Hash passwords with few iterations in this process. A million iterations take half a second."""
    from django.contrib.auth.hashers import PBKDF2PasswordHasher

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PBKDF2PasswordHasher, "iterations", 1000)
        yield


@pytest.fixture(scope="session", autouse=True)
def known_static_files() -> Iterator[None]:
    """
    Let WhiteNoise find the static files once for each process.

    Each test client loads the middleware again, and reading two hundred files costs more than most requests.
    """
    from whitenoise.middleware import WhiteNoiseMiddleware

    find, found = WhiteNoiseMiddleware.add_files_from_finders, dict[str, dict[str, Any]]()

    def add_known_files(middleware: WhiteNoiseMiddleware) -> None:
        if middleware.static_prefix not in found:
            find(middleware)
            found[middleware.static_prefix] = dict(middleware.files)
        middleware.files.update(found[middleware.static_prefix])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", add_known_files)
        yield


@pytest.fixture(scope="session", autouse=True)
def emptying() -> Iterator[None]:
    """Replace Django's emptying of the database after a test that commits (see tests/support/emptying.py)."""
    from django.test import TransactionTestCase

    from tests.support.emptying import Emptying

    emptying = Emptying()

    def empty(test_case: TransactionTestCase) -> None:
        emptying.empty(test_case)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty)
        patch.setattr(TransactionTestCase, "_should_reload_connections", lambda _test_case: False)
        yield


@pytest.fixture
def dsn(transactional_db: None) -> str:
    """Return the address of the test database, for plain connections. Its tables are emptied after the test."""
    from nodes.database.address import database_dsn

    return database_dsn()


@pytest.fixture(scope="session")
def kept_connection(django_db_setup: None) -> "Iterator[KeptConnection]":
    from tests.support.kept_connection import KeptConnection

    kept = KeptConnection()
    yield kept
    kept.close()


@pytest.fixture
def connection(dsn: str, kept_connection: "KeptConnection") -> Iterator[psycopg.Connection[Any]]:
    """Yield a plain connection in autocommit mode, as daemons use it. Its backend may have plans of earlier tests."""
    yield kept_connection.open(dsn)
    kept_connection.give_back()


@pytest.fixture
def new_connection(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """Yield a plain connection with its own backend, for tests of plans."""
    from jobs.queue.sql.arrays import register_arrays

    with psycopg.connect(dsn, autocommit=True) as opened:
        register_arrays(opened)
        yield opened


@pytest.fixture
def other_connection(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """Yield a second connection, for races."""
    from jobs.queue.sql.arrays import register_arrays

    with psycopg.connect(dsn, autocommit=True) as opened:
        register_arrays(opened)
        yield opened


@pytest.fixture
def world(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> "World":
    """Return a world for the scriptable connector (`tests.support.scripted`), for this process and its children."""
    from tests.support.scripted import CONNECTORS, World

    settings.CRAWLCTL_CONNECTORS = CONNECTORS
    monkeypatch.setenv("CRAWLCTL_CONNECTORS", ",".join(CONNECTORS))
    return World(tmp_path / "world")


@pytest.fixture
def rival(dsn: str, connection: psycopg.Connection[Any]) -> Iterator[Rival]:
    """Return a rival that calls a function which must wait for a lock of `connection`."""
    with psycopg.connect(dsn, autocommit=True) as watcher:
        made = Rival(watcher, connection)
        yield made
        made.end()


@pytest.fixture
def sink(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> "Sink":
    """Return a scriptable output (`tests.support.scripted_output`), for this process and its children."""
    from tests.support.scripted_output import OUTPUTS, Sink

    settings.CRAWLCTL_OUTPUTS = OUTPUTS
    monkeypatch.setenv("CRAWLCTL_OUTPUTS", ",".join(OUTPUTS))
    return Sink(tmp_path / "sink")


@pytest.fixture(scope="session")
def manage_py() -> Path:
    return Path(__file__).resolve().parent.parent / "manage.py"


@pytest.fixture(scope="session")
def chromium() -> str:
    """
    Return the path of a Chromium without windows, which needs a third of the computing of a Chromium with windows.

    Debian's command is a shell that has the browser as its child. A signal to it would not reach the browser.
    """
    assert _BROWSER.exists(), "install Debian's package chromium-headless-shell"
    return str(_BROWSER)
