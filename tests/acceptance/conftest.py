"""Fixtures that give each acceptance test a fresh database and a directory, and end everything the test started."""

import pytest

from jobs.settings.table import FILE_ROOTS, OUTPUT_ROOT
from tests.support.daemons import Cluster
from tests.support.processes import Machine, copy_of, new_database, serve_site


@pytest.fixture(autouse=True)
def anywhere(settings):
    """Let connections that this process stores use any path. Separate tests cover the confinement of paths."""
    values = {OUTPUT_ROOT.path: "/", FILE_ROOTS.path: ("/",)}
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **values}


@pytest.fixture
def machine(template, tmp_path, django_db_blocker):
    """Run processes on a separate database. The ORM and `control` of this process use the same database."""
    with copy_of(template) as database, database.as_django(), django_db_blocker.unblock():
        made = Machine(database, tmp_path)
        try:
            yield made
        finally:
            made.clean_up()


@pytest.fixture
def cluster(machine):
    """Return a cluster of daemons on the machine, with none started yet."""
    return Cluster(machine)


@pytest.fixture
def new_machine(test_server, tmp_path):
    """Return a machine whose database has no tables yet."""
    with new_database() as database:
        made = Machine(database, tmp_path)
        try:
            yield made
        finally:
            made.clean_up()


@pytest.fixture
def serve(tmp_path):
    """Serve synthetic sites until the test ends."""
    running = []

    def start(**options):
        context = serve_site(tmp_path / f"site-{len(running)}.log", **options)
        running.append(context)
        return context.__enter__()

    yield start
    for context in running:
        context.__exit__(None, None, None)
