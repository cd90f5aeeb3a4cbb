"""
Proves that output connections stored by pages or the API write only below one directory, and that file connections read
only below the allowed directories.
"""

import psycopg
import pytest

from jobs.attention.jobs import held_jobs
from jobs.connectors.output.base import Entry, OutputError
from jobs.connectors.output.registry import open_output
from jobs.connectors.repository.filesystem.kind import FILE_SYSTEM
from jobs.connectors.repository.kind import Seeding, SeedingFailed, SourceSettings
from jobs.connectors.schema import BadSpecification
from jobs.duties.connectors import watch_connectors
from jobs.management.crawl_options import _outputs, _refuse_outside
from jobs.management.crawl_sources import CrawlRefused
from jobs.models import Job, OutputConnection, RepositoryConnection
from jobs.settings.table import FILE_ROOTS, OUTPUT_ROOT
from jobs.verbs import connections
from nodes.database.address import database_dsn
from nodes.errors import Invalid
from nodes.models import NodeEvent
from tests.support.api import assert_problem, client_of
from tests.support.cluster import NOON
from tests.support.factories import make_policy, make_running_job
from tests.support.stepping import Main

pytestmark = pytest.mark.django_db

ENTRY = Entry(hash="0" * 32, url="http://a.example/", content=None, version="", fetched_at=NOON)


@pytest.fixture
def root(tmp_path, settings):
    """Return the directory that both settings name."""
    made = tmp_path / "root"
    made.mkdir()
    allow(settings, made)
    return made


def allow(settings, root):
    values = {OUTPUT_ROOT.path: str(root), FILE_ROOTS.path: (str(root),)}
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **values}


def store_output(path):
    return connections.create(OutputConnection, name="lines", connector="jsonl", configuration={"path": str(path)})


def store_files(directory, *, connector="filesystem"):
    facts = {"roots": [str(directory)]}
    return connections.create(RepositoryConnection, name="files", connector=connector, configuration=facts)


def outside(root, how):
    """Return a path outside of the root. Some of these paths look as if they were below the root."""
    elsewhere = root.parent / "elsewhere"
    elsewhere.mkdir()
    (root / "link").symlink_to(elsewhere)
    return {"absolute": "/etc", "dots": root / ".." / "elsewhere", "link": root / "link", "beside": f"{root}2"}[how]


@pytest.mark.parametrize("how", ["absolute", "dots", "link", "beside"])
def test_a_path_outside_of_the_root_is_refused(root, how):
    directory = outside(root, how)

    with pytest.raises(Invalid, match="CRAWLCTL_OUTPUT_ROOT"):
        store_output(f"{directory}/shadow")
    with pytest.raises(Invalid, match=r"CRAWLCTL_FILE_ROOTS|has \.\. in its path"):
        store_files(directory)

    assert not OutputConnection.objects.exists()
    assert not RepositoryConnection.objects.exists()


def test_paths_below_the_root_are_stored_and_confined_to_the_root(root):
    assert store_output(root / "pages.jsonl").is_confined
    assert store_files(root).is_confined


def test_no_two_outputs_write_one_file(root):
    (root / "link").symlink_to(root)
    (root / "other").mkdir()
    first = store_output(root / "pages.jsonl")
    second = connections.create(
        OutputConnection, name="others", connector="jsonl", configuration={"path": str(root / "others.jsonl")}
    )

    for spelling in ("pages.jsonl", "link/pages.jsonl", "other/../pages.jsonl"):
        facts = {"configuration": {"path": str(root / spelling)}}
        for save in (
            lambda facts=facts: connections.create(OutputConnection, name="third", connector="jsonl", **facts),
            lambda facts=facts: connections.change(OutputConnection, second.pk, **facts),
        ):
            with pytest.raises(Invalid) as refused:
                save()
            (problem,) = refused.value.problems["configuration.path"]
            assert problem.startswith(f"The output lines writes {root}/pages.jsonl already."), spelling
        with pytest.raises(BadSpecification, match="The output lines writes"):
            _outputs([f"jsonl:{root / spelling}"], job_name="a")
    # An output may write the file that belongs to that output already.
    connections.change(OutputConnection, first.pk, configuration={"path": str(root / "link" / "pages.jsonl")})


def test_without_settings_outputs_lie_below_var_and_no_files_are_read(tmp_path, settings):
    settings.CRAWLCTL_ENVIRONMENT = {}
    var = settings.VAR_DIR

    assert store_output(f"{var}/pages.jsonl").is_confined
    for path in (tmp_path / "pages.jsonl", f"{var}/postgres/x", f"{var}/secret-key"):
        with pytest.raises(Invalid, match="Choose"):
            connections.create(OutputConnection, name="x", connector="jsonl", configuration={"path": str(path)})
    with pytest.raises(Invalid, match="CRAWLCTL_FILE_ROOTS allows no directory"):
        store_files(tmp_path)


def test_the_api_names_the_field_of_a_path_outside(root):
    client = client_of("administrator")
    output = {"name": "x", "connector": "jsonl", "configuration": {"path": "/etc/shadow"}}
    files = {"name": "x", "connector": "filesystem", "configuration": {"roots": ["/"]}}

    answers = [
        client.post(f"/api/v1/{kind}/", facts, format="json")
        for kind, facts in (("outputs", output), ("repositories", files))
    ]

    for answer, field in zip(answers, ("configuration.path", "configuration.roots"), strict=True):
        assert_problem(answer, 400, "invalid", fields=[field])


def test_a_path_that_now_leads_outside_of_the_root_is_not_written(root, tmp_path):
    (root / "below").mkdir()
    output = open_output(store_output(root / "below" / "pages.jsonl"))
    (root / "below").rmdir()
    (root / "below").symlink_to(tmp_path)

    with psycopg.connect(database_dsn()) as connection, pytest.raises(OutputError, match="CRAWLCTL_OUTPUT_ROOT"):
        output.add_or_replace(connection.cursor(), [ENTRY])

    assert not (tmp_path / "pages.jsonl").exists()


def test_directories_that_are_now_outside_of_the_roots_are_not_read(root, tmp_path, settings):
    stored = store_files(root)
    allow(settings, tmp_path / "another")
    source = SourceSettings(stored.configuration, seeds=[f"file://{root}/"], is_confined=stored.is_confined)

    with pytest.raises(SeedingFailed, match="CRAWLCTL_FILE_ROOTS"):
        FILE_SYSTEM.seed(source, Seeding(), last_version="")
    with pytest.raises(ValueError, match="CRAWLCTL_FILE_ROOTS"):
        FILE_SYSTEM.runtime().open(source)


def test_a_connection_made_by_a_local_command_is_confined_after_a_change(root, tmp_path):
    made = OutputConnection.objects.create(
        name="local", connector="jsonl", configuration={"path": str(tmp_path / "a.jsonl")}
    )
    open_output(made).check()

    with pytest.raises(Invalid):
        connections.change(OutputConnection, made.pk, configuration={"path": str(tmp_path / "b.jsonl")})
    changed = connections.change(OutputConnection, made.pk, configuration={"path": str(root / "b.jsonl")})

    assert changed.is_confined


# --- Connections older than the roots ----------------------------------------------------------------


@pytest.fixture
def main(connection):
    return Main(connection)


@pytest.fixture
def job(main, root):
    """Return a running job whose output was stored on a page and lies below the root."""
    job = make_running_job(main.node, policy=make_policy(), output=store_output(root / "pages.jsonl")).job
    assert checked_job(main, job).connectors_ready
    return job


def checked_job(main, job):
    main.step(watch_connectors)
    return Job.objects.get(pk=job.pk)


def test_a_job_whose_output_is_outside_of_the_root_waits_with_a_reason(main, job, settings, tmp_path):
    allow(settings, tmp_path / "another")

    found = checked_job(main, job)

    assert not found.connectors_ready
    assert found.reason.startswith(f"output connection lines is not written: {tmp_path}/root/pages.jsonl is outside of")
    (line,) = held_jobs(NOON)
    assert line.subject == job.name
    assert "CRAWLCTL_OUTPUT_ROOT" in line.sentence


@pytest.mark.parametrize("connector", ["filesystem", "archive"])
def test_a_job_whose_directories_are_outside_of_the_roots_waits(main, root, settings, tmp_path, connector):
    job = make_running_job(main.node, policy=make_policy()).job
    Job.objects.filter(pk=job.pk).update(repository=store_files(root, connector=connector))
    assert checked_job(main, job).connectors_ready

    allow(settings, tmp_path / "another")

    found = checked_job(main, job)
    assert not found.connectors_ready
    assert "repository connection files is not read" in found.reason
    assert "CRAWLCTL_FILE_ROOTS" in found.reason


def test_a_job_continues_when_the_root_allows_its_path_again(main, job, root, settings, tmp_path):
    allow(settings, tmp_path / "another")
    checked_job(main, job)

    allow(settings, root)

    found = checked_job(main, job)
    assert (found.connectors_ready, found.reason) == (True, "")


def test_a_path_given_by_a_local_command_is_not_confined(root, tmp_path):
    path = tmp_path / "outside.jsonl"
    facts = {"connector": "jsonl", "configuration": {"path": str(path)}, "is_confined": True}
    OutputConnection.objects.create(name=f"jsonl:{path}", **facts)

    (output,) = _outputs([f"jsonl:{path}"], job_name="docs")

    assert not output.is_confined
    assert NodeEvent.objects.get().message.startswith(f"output jsonl:{path} was changed by crawl: is_confined")


def test_a_crawl_of_a_stored_job_is_refused_outside_of_the_roots(job, root, settings, tmp_path):
    allow(settings, tmp_path / "another")

    with pytest.raises(CrawlRefused, match=r"CRAWLCTL_OUTPUT_ROOT.* Or name the path on the command line"):
        _refuse_outside(job)
