"""A deleted or truncated JSON lines file is noticed, shown, and written again on request."""

# ruff: noqa: F811 (fixtures of another file)

import os
import shutil
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from django.test import Client
from psycopg.rows import namedtuple_row

from crawlctl.access.roles import ADMINISTRATOR, VIEWER
from jobs.attention.outputs import outputs_that_lost_lines
from jobs.connectors.output.lost_lines import DIRECTORY, memory_of
from jobs.connectors.repository.base import Ending
from jobs.loops.worker.outputs import JobOutputs
from jobs.management.standard_output import DocumentStream
from jobs.models import LostLines
from jobs.verbs import connections
from nodes.database.clock import read_clock
from tests.integration.test_outputs import (
    NOON,
    OTHER_PAGE,
    PAGE,
    JobWithOutputs,
    actions,
    flushed,  # noqa: F401 (a fixture)
    lines,  # noqa: F401 (a fixture)
    worker,  # noqa: F401 (a fixture)
)
from tests.support.api import client_of, make_user


@pytest.fixture(autouse=True)
def var(settings, tmp_path):
    settings.VAR_DIR = tmp_path / "var"
    return settings.VAR_DIR


@pytest.fixture
def job(lines):
    return JobWithOutputs("job", lines)


@pytest.fixture
def path(lines):
    return Path(lines.configuration["path"])


@pytest.fixture
def written_length(job, path, flushed):
    """Write the file by a first flush. Return its length."""
    flushed(job.indexed(PAGE))
    return path.stat().st_size


def losses():
    return list(LostLines.objects.values_list("machine", "was_bytes", "is_bytes"))


@pytest.mark.parametrize("left", [None, 0, 10])
def test_a_file_that_lost_lines_is_noticed_at_the_next_append(job, path, flushed, written_length, left):
    path.unlink() if left is None else os.truncate(path, left)

    flushed(job.indexed(OTHER_PAGE))
    flushed(job.indexed(PAGE, "new", version="1:v2"))

    assert losses() == [(os.uname().nodename, written_length, left or 0)]
    assert actions(job.row.outputs.get()) == [("add", OTHER_PAGE), ("add", PAGE)]


def test_the_replacement_of_a_file_by_a_shorter_file_is_noticed(job, path, flushed, written_length):
    flushed(job.indexed(OTHER_PAGE, "long " * 100))
    was = path.stat().st_size
    shorter = path.with_suffix(".new")
    shorter.write_bytes(path.read_bytes()[:written_length])
    shorter.rename(path)

    flushed(job.indexed(PAGE, "new", version="1:v2"))

    assert losses() == [(os.uname().nodename, was, written_length)]


def test_the_replacement_of_a_file_by_a_longer_file_is_no_loss(job, path, flushed, written_length):
    longer = path.with_suffix(".new")
    longer.write_bytes(path.read_bytes() * 2)
    longer.rename(path)

    flushed(job.indexed(OTHER_PAGE))

    assert losses() == []


def test_a_torn_line_that_a_killed_writer_left_is_no_loss(job, path, flushed, written_length):
    with path.open("ab") as file:
        file.write(b'{"action":"add"')

    flushed(job.indexed(OTHER_PAGE))

    assert losses() == []


def test_even_a_run_without_changes_notices_the_loss(dsn, job, path, flushed, written_length):
    """One process works on both runs: on the run in which the file is deleted, and on the next run."""
    outputs = JobOutputs()
    unchanged = job.ended(PAGE, Ending.UNCHANGED, "304", references=[])
    with psycopg.connect(dsn, row_factory=namedtuple_row) as connection:
        outputs.write(connection.cursor(), results=[unchanged], now=NOON)
        path.unlink()
        outputs.write(connection.cursor(), results=[unchanged], now=NOON)
        assert losses() == []

        of_next_run = replace(unchanged, job=replace(job.facts, run_no=4))
        outputs.write(connection.cursor(), results=[of_next_run], now=NOON)

    assert losses() == [(os.uname().nodename, written_length, 0)]
    assert not path.exists()


def test_a_report_of_a_loss_survives_the_rollback_of_its_flush(dsn, job, path, flushed, written_length):
    path.unlink()

    with psycopg.connect(dsn, row_factory=namedtuple_row) as connection:
        JobOutputs().write(connection.cursor(), results=[job.indexed(OTHER_PAGE)], now=NOON)
        connection.rollback()

    assert len(losses()) == 1


def test_a_machine_without_a_remembered_length_reports_no_loss(var, job, path, flushed, written_length):
    shutil.rmtree(var / DIRECTORY)
    path.unlink()

    flushed(job.indexed(OTHER_PAGE))

    assert losses() == []


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"path": 1}'])
def test_an_unreadable_remembered_length_reports_no_loss(var, job, path, flushed, written_length, text):
    (memory,) = (var / DIRECTORY).iterdir()
    memory.write_text(text)
    path.unlink()

    flushed(job.indexed(OTHER_PAGE))

    assert losses() == []


def test_a_var_directory_that_cannot_be_written_fails_no_flush(var, job, path, flushed):
    var.write_text("a file")

    flushed(job.indexed(PAGE))

    assert actions(job.row.outputs.get()) == [("add", PAGE)]


def test_an_output_of_a_new_database_reports_no_loss_of_an_older_database(
    connection, job, path, flushed, written_length
):
    connection.execute("DELETE FROM jobs_indexeddocument")
    path.unlink()

    flushed(job.indexed(OTHER_PAGE))

    assert losses() == []


def test_a_changed_path_of_an_output_is_not_reported_as_a_loss(lines, job, path, flushed, written_length):
    path.unlink()
    flushed(job.indexed(OTHER_PAGE))
    assert len(losses()) == 1

    connections.change(type(lines), lines.pk, configuration={"path": str(path.with_suffix(".other"))})

    flushed(job.indexed(OTHER_PAGE))

    assert losses() == []


@pytest.mark.parametrize("write_again", [connections.index_again, connections.clear])
def test_a_request_to_write_all_documents_again_ends_the_report(lines, job, path, flushed, written_length, write_again):
    path.unlink()
    flushed(job.indexed(OTHER_PAGE))
    assert len(losses()) == 1

    write_again(lines.pk, made_by="a test", now=read_clock())
    assert losses() == []

    # A loss is not reported while the output still waits for its documents to be written again.
    path.unlink()
    flushed(job.indexed(PAGE), job.indexed(OTHER_PAGE))
    assert losses() == []
    assert len(actions(lines)) == 2
    path.unlink()
    flushed(job.indexed(PAGE, "new", version="1:v2"))
    assert len(losses()) == 1


def test_a_moved_file_of_standard_output_is_not_reported_as_a_loss(var, lines, job, path, flushed, written_length):
    stream = DocumentStream(lines, on_closed=pytest.fail)
    stream.start()
    stream.finish()
    assert not path.exists()

    flushed(job.indexed(OTHER_PAGE))

    assert losses() == []


def test_page_api_and_attention_list_show_the_loss(lines, job, path, flushed, written_length):
    path.unlink()
    flushed(job.indexed(OTHER_PAGE))
    sentence = f"Output lines lost lines on {os.uname().nodename}: its file had {written_length} B and now has 0 B."

    (line,) = outputs_that_lost_lines(NOON)
    assert (line.kind, line.subject) == ("lines_lost", "lines")
    assert line.sentence.startswith(sentence)

    administrator = Client()
    administrator.force_login(make_user(ADMINISTRATOR, name="root"))
    page = administrator.get(line.link).content.decode()
    button = f"/admin/jobs/outputconnection/{lines.pk}/index-again/"
    assert sentence in page
    assert f'href="{button}' in page.partition(sentence)[2][:300]

    viewer = client_of(VIEWER)
    (lost,) = viewer.get(f"/api/v1/outputs/{lines.pk}/").json()["lost_lines"]
    assert (lost["was_bytes"], lost["is_bytes"]) == (written_length, 0)

    assert administrator.post(button).status_code == 302
    assert outputs_that_lost_lines(NOON) == []
    assert sentence not in administrator.get(line.link).content.decode()


def test_remembered_lengths_are_stored_where_no_output_may_write(var, lines):
    from jobs.connectors.roots import why_not_written

    assert memory_of(lines.pk, Path("/x"))._state.is_relative_to(var / DIRECTORY)
    assert "its own files" in why_not_written(str(var / DIRECTORY / "1.json"))
