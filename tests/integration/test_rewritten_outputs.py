"""Proves that outputs are rewritten or cleared on request, and that documents that no job keeps are removed."""

# ruff: noqa: F811 (fixtures of another file)

import datetime as dt
from pathlib import Path

import psycopg
import pytest

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR
from jobs.connectors.output.registry import open_output
from jobs.models import Activity, IndexedDocument, Job, OutputConnection
from jobs.queue.removing import orphans
from jobs.queue.removing.clear_output import clear_some
from jobs.queue.removing.orphans import drop_orphans
from jobs.verbs import connections, editing
from jobs.verbs.seeds import SeedWanted
from nodes.errors import Unknown
from tests.integration.test_outputs import (
    NOON,
    OTHER_PAGE,
    PAGE,
    JobWithOutputs,
    actions,
    flushed,  # noqa: F401 (a fixture)
    lines,  # noqa: F401 (a fixture)
    search_output,  # noqa: F401 (a fixture)
    texts,
    worker,  # noqa: F401 (a fixture)
)
from tests.support.api import assert_problem, client_of

LATER = NOON + dt.timedelta(hours=1)


def clear_all(connection):
    """Clear outputs, chunk by chunk, until none is left to clear. Return the number of removed documents."""
    documents = 0
    while (done := clear_some(connection, opens=open_output, apart_from=frozenset())).output is not None:
        assert not done.refused
        documents += done.documents
    return documents


def test_documents_are_removed_from_the_given_output_only(connection, search_output, lines, flushed):
    job = JobWithOutputs("job", search_output, lines)
    flushed(job.indexed(PAGE), job.indexed(OTHER_PAGE))

    connections.clear(search_output.pk, made_by="a test", now=LATER)

    assert clear_all(connection) == 2
    assert texts() == {}
    assert {action for action, _ in actions(lines)} == {"add"}
    assert IndexedDocument.objects.filter(output=lines).count() == 2
    assert OutputConnection.objects.get(pk=search_output.pk).clear_before is None
    deletions = Activity.objects.filter(activity="document deletion")
    assert {(row.entity, row.output_id, row.job_id) for row in deletions} == {
        (url, search_output.pk, job.row.pk) for url in (PAGE, OTHER_PAGE)
    }


def test_a_file_gets_a_line_for_each_removed_document(connection, lines, flushed):
    job = JobWithOutputs("job", lines)
    flushed(job.indexed(PAGE))

    connections.clear(lines.pk, made_by="a test", now=LATER)
    clear_all(connection)

    assert actions(lines) == [("add", PAGE), ("delete", PAGE)]


def test_documents_written_after_the_request_stay(connection, search_output, flushed):
    job = JobWithOutputs("job", search_output)
    connections.clear(search_output.pk, made_by="a test", now=NOON - dt.timedelta(hours=1))
    flushed(job.indexed(PAGE))

    assert clear_all(connection) == 0
    assert list(texts()) == [PAGE]


def test_a_refusing_output_keeps_its_record_and_shows_the_reason(connection, lines, flushed):
    job = JobWithOutputs("job", lines)
    flushed(job.indexed(PAGE))
    Path(lines.configuration["path"]).unlink()
    Path(lines.configuration["path"]).mkdir()
    connections.clear(lines.pk, made_by="a test", now=LATER)

    done = clear_some(connection, opens=open_output, apart_from=frozenset())

    assert (done.output, bool(done.refused)) == (lines.pk, True)
    assert IndexedDocument.objects.count() == 1
    assert OutputConnection.objects.get(pk=lines.pk).clearing_refused == done.refused
    assert clear_some(connection, opens=open_output, apart_from=frozenset({lines.pk})).output is None


def test_two_workers_do_not_clear_one_output_concurrently(connection, dsn, search_output, flushed):
    flushed(JobWithOutputs("job", search_output).indexed(PAGE))
    connections.clear(search_output.pk, made_by="a test", now=LATER)

    with psycopg.connect(dsn) as other, other.transaction():
        other.execute("SELECT FROM jobs_outputconnection WHERE id = %s FOR NO KEY UPDATE", [search_output.pk])
        assert clear_some(connection, opens=open_output, apart_from=frozenset()).output is None

    assert clear_all(connection) == 1


def drop_all(connection):
    """Remove documents that no job keeps, chunk by chunk, until all outputs were searched. Return their number."""
    documents = 0
    while (done := drop_orphans(connection, opens=open_output, apart_from=frozenset())).output is not None:
        assert not done.refused
        documents += done.documents
    return documents


def leave(job, *outputs):
    """Let the job continue with these outputs only."""
    editing.change_job(
        job.row.pk, outputs=outputs, seeds=[SeedWanted(("http://a.example/",))], made_by="a test", now=NOON
    )


@pytest.mark.parametrize("at_once", [1, 500])
def test_documents_of_a_single_job_are_removed_from_outputs_with_the_job(
    connection, search_output, lines, flushed, monkeypatch, at_once
):
    monkeypatch.setattr(orphans, "_AT_ONCE", at_once)
    leaving, staying = JobWithOutputs("leaving", search_output, lines), JobWithOutputs("staying", lines)
    flushed(leaving.indexed(PAGE), leaving.indexed(OTHER_PAGE))
    flushed(staying.indexed(OTHER_PAGE))

    leave(leaving, search_output)

    assert drop_all(connection) == 1
    assert actions(lines)[-1] == ("delete", PAGE)
    assert set(texts()) == {PAGE, OTHER_PAGE}
    assert IndexedDocument.objects.filter(output=lines).count() == 1
    deletion = Activity.objects.get(activity="document deletion")
    assert (deletion.entity, deletion.output_id) == (PAGE, lines.pk)
    assert OutputConnection.objects.get(pk=lines.pk).orphans_after is None


def test_a_removal_that_a_detached_output_refuses_is_retried(connection, lines, search_output, flushed):
    job = JobWithOutputs("job", lines, search_output)
    flushed(job.indexed(PAGE))
    path = Path(lines.configuration["path"])
    kept = path.rename(path.with_suffix(".kept"))
    path.mkdir()

    leave(job, search_output)
    done = drop_orphans(connection, opens=open_output, apart_from=frozenset())

    assert (done.output, done.refused) == (lines.pk, OutputConnection.objects.get(pk=lines.pk).clearing_refused)
    path.rmdir()
    kept.rename(path)
    assert drop_all(connection) == 1


def test_a_document_that_another_job_writes_meanwhile_stays(
    connection, rival, other_connection, search_output, lines, flushed, worker
):
    leaving, other = JobWithOutputs("leaving", lines, search_output), JobWithOutputs("other", lines)
    flushed(leaving.indexed(PAGE))
    leave(leaving, search_output)

    with connection.transaction():
        flushed(other.indexed(PAGE))
        rival.start_and_wait(drop_all, other_connection)

    assert rival.result() == 0
    assert actions(lines)[-1] == ("add", PAGE)


@pytest.mark.parametrize("action", [connections.index_again, connections.clear])
def test_a_request_to_clear_or_rewrite_makes_the_next_run_check_everything(search_output, action):
    job = JobWithOutputs("job", search_output)
    Job.objects.update(from_the_beginning=False)

    action(search_output.pk, made_by="a test", now=LATER)

    assert Job.objects.get(pk=job.row.pk).from_the_beginning


def test_a_request_to_reindex_a_missing_output_is_refused(connection):
    with pytest.raises(Unknown):
        connections.index_again(7_000_000, made_by="a test", now=LATER)


def test_only_administrators_may_use_the_api_of_outputs(search_output):
    address = f"/api/v1/outputs/{search_output.pk}/"

    administrator = client_of(ADMINISTRATOR)
    assert administrator.post(f"{address}reindex/").json()["trusted_from"]
    assert administrator.post(f"{address}clear/").status_code == 202
    assert_problem(client_of(OPERATOR).post(f"{address}clear/"), 403, "permission_denied")
