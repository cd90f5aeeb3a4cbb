"""
Proves that an export has each row once, even if attempts are killed, and only rows that the role of its user may see.
"""

import asyncio
import csv
import io
import itertools
import json
import stat
from dataclasses import replace
from urllib.parse import parse_qs

import pytest
from arro3.io import read_parquet
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from crawlctl.live.topics import is_topic, read_screen
from jobs.api.downloads import safe_cell
from jobs.exports import cleaning, files, formats, verbs, writing
from jobs.exports.models import Export
from jobs.exports.sources import SOURCES
from jobs.models import Activity, QueueItem
from nodes.errors import Invalid
from nodes.permissions import may_do_everything
from nodes.tasks.context import TaskContext
from nodes.tasks.models import ArchivedTask, Task, TaskTemplate
from tests.support.api import NOON, assert_problem, client_of, make_documents, make_job
from tests.support.partitions import be_partition
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db


class Killed(BaseException):
    """The exception that stands for a kill of the process."""


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(writing, "ROWS_OF_A_PART", 10)


@pytest.fixture(autouse=True)
def directory(tmp_path, settings):
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, "exports.directory": str(tmp_path / "exports")}
    return tmp_path / "exports"


@pytest.fixture
def job():
    return make_job()


def request(what="documents", form="csv", **filter_):
    return verbs.request(what=what, format=form, filter=filter_, may=may_do_everything, made_by="a test")


def write(export, *, retry=0, is_cancelled=lambda: False):
    """Run an attempt of the task of an export. Return the export, read again from the database."""
    context = TaskContext(task=export.task, group="generic", retry_number=retry, is_cancelled=is_cancelled)
    writing.write_export(context, {"what": export.what, "format": export.format, "filter": export.filter})
    export.refresh_from_db()
    return export


def rows_of(export):
    path = files.find_file(export)
    match export.format:
        case "csv":
            return list(csv.DictReader(io.StringIO(path.read_text(), newline="")))
        case "jsonl":
            return [json.loads(line) for line in path.read_text().splitlines()]
        case _:
            reader = read_parquet(path)
            names = reader.schema.names
            return [
                dict(zip(names, row, strict=True))
                for batch in reader
                for row in zip(*([cell.as_py() for cell in batch.column(name)] for name in names), strict=True)
            ]


@pytest.mark.parametrize("form", Export.Format.values)
def test_an_export_has_each_document_once_in_each_format(job, form):
    documents = make_documents(job, 57, fetched_at=NOON)

    export = write(request(form=form))

    rows = rows_of(export)
    assert sorted(row["identifier"] for row in rows) == sorted(document.identifier for document in documents)
    assert (export.rows, export.total, export.bytes) == (57, 57, files.find_file(export).stat().st_size)
    assert list(rows[0]) == list(SOURCES["documents"].columns)
    assert {(row["job"], row["host"], row["result_code"]) for row in rows} == {("manual", "docs.test", "200")}


def test_parquet_keeps_the_types_of_columns(job):
    make_documents(job, 3, fetched_at=NOON)

    (row, *_) = rows_of(write(request(form="parquet")))

    assert (row["fetched_at"], row["depth"], row["changed_at"]) == (NOON, 0, None)


# Each attempt has eight steps that write four parts, and three steps that write the whole file. The kill comes before
# one of the steps.
@pytest.mark.parametrize("kill_at", range(1, 12))
def test_a_killed_export_continues_and_has_the_same_rows(job, kill_at, monkeypatch):
    make_documents(job, 35)
    form = tuple(Export.Format.values)[kill_at % 3]
    undisturbed = rows_of(write(request(form=form)))
    export = request(form=form)
    with monkeypatch.context() as patched:
        calls = itertools.count(1)
        for module, name in (
            (formats, "write_part"),
            (formats, "join"),
            (formats, "sync_directory"),
            (writing, "_end"),
        ):
            patched.setattr(module, name, _dying(getattr(module, name), calls, kill_at))
        with pytest.raises(Killed):
            write(export)
    parts = Export.objects.get(pk=export.pk).parts

    export = write(export, retry=1)

    assert rows_of(export) == undisturbed
    assert (len(parts), export.parts[: len(parts)]) == (min(4, (kill_at - 1) // 2), parts)
    assert files.files_of(export.pk) == [export.file]


def _dying(step, calls, kill_at):
    """Wrap a step of an attempt. The attempt is killed before the step with this number."""

    def run(*args, **kwargs):
        if next(calls) == kill_at:
            raise Killed
        return step(*args, **kwargs)

    return run


def test_an_attempt_of_an_export_that_was_replaced_changes_nothing(job):
    make_documents(job, 25)
    export = request()
    old = writing._begin(TaskContext(task=export.task, group="generic"), {})
    done = write(export, retry=1)
    content = files.find_file(done).read_bytes()

    with pytest.raises(writing.AnotherAttempt):
        writing._write_parts(TaskContext(task=export.task, group="generic"), old, SOURCES["documents"], {"now": NOON})

    done.refresh_from_db()
    assert (done.attempt, files.find_file(done).read_bytes()) == (2, content)


def test_an_export_continues_at_its_first_missing_part(job, directory):
    make_documents(job, 25)
    export = request()
    begun = writing._begin(TaskContext(task=export.task, group="generic"), {})
    source = SOURCES["documents"]
    _, query = writing.read_filter(source, export.filter)
    writing._write_part(begun, source, source.read(query, None, 10))
    (part,) = directory.iterdir()
    part.unlink()

    assert len(rows_of(write(export, retry=1))) == 25


def test_documents_appear_once_although_the_queue_changes_meanwhile(job, monkeypatch):
    stay = {document.identifier for document in make_documents(job, 40)}
    make_documents(job, 40, host="moves.test")
    read = SOURCES["documents"].read
    hosts = iter(f"new-{number}.test" for number in range(100))

    def moving(query, after, limit):
        part = read(query, after, limit)
        victims = QueueItem.objects.filter(identifier__contains="moves.test").values_list("hash", flat=True)[:5]
        QueueItem.objects.filter(hash__in=list(victims)).delete()
        make_documents(job, 3, host=next(hosts))
        return part

    export = request(form="jsonl")
    monkeypatch.setattr(writing, "find", lambda _name: replace(SOURCES["documents"], read=moving))

    found = [row["identifier"] for row in rows_of(write(export))]

    assert len(found) == len(set(found))
    assert stay <= set(found)


@each_row("first", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_a_cell_that_looks_like_a_formula_gets_an_apostrophe(first):
    assert safe_cell(f"{first}1+1") == f"'{first}1+1"


def test_cells_of_csv_are_no_formulas(job):
    make_documents(job, 1)
    QueueItem.objects.update(identifier='=HYPERLINK("http://evil.test")')

    (row,) = rows_of(write(request()))

    assert row["identifier"] == '\'=HYPERLINK("http://evil.test")'


def test_history_is_exported_in_the_order_of_time(job):
    Activity.objects.bulk_create(
        Activity(
            started_at=NOON,
            seconds=0.5,
            job=job,
            repository=job.repository,
            activity="fetch",
            entity=f"http://docs.test/{number}",
            bytes=number,
            result_code="200",
        )
        for number in range(25)
    )
    span = {"since": "2026-06-01T11:00:00Z", "until": "2026-06-01T13:00:00Z"}

    rows = rows_of(write(request("history", "parquet", **span)))

    assert [row["bytes"] for row in rows] == list(range(25))
    assert {(row["started_at"], row["seconds"], row["job"]) for row in rows} == {(NOON, 0.5, "manual")}


@pytest.mark.parametrize("what", ["activity", "bandwidth", "results", "queue"])
def test_reports_are_exported_with_their_columns(job, what):
    make_documents(job, 3)
    Activity.objects.create(
        started_at=NOON, job=job, repository=job.repository, activity="fetch", entity="http://a.test/", bytes=10
    )
    span = (
        {"identifier": "docs"}
        if what == "queue"
        else {"since": "2026-06-01T11:00:00Z", "until": "2026-06-01T13:00:00Z"}
    )

    (row,) = rows_of(write(request(what, "jsonl", **span)))

    assert list(row) == list(SOURCES[what].columns)


def test_an_empty_csv_has_the_names_of_its_columns(job):
    export = write(request())

    assert files.find_file(export).read_text().strip() == ",".join(SOURCES["documents"].columns)


def test_a_cancelled_export_leaves_no_file(job, directory):
    make_documents(job, 25)
    calls = iter([False, True, True])

    export = write(request(), is_cancelled=lambda: next(calls))

    assert (verbs.with_state(export).state, list(directory.iterdir())) == ("cancelled", [])


def test_each_task_of_a_template_makes_a_new_export(job):
    make_documents(job, 3)
    task = Task.objects.create(
        kind="export", retry_policy={}, created_by="nightly", scheduled_at=NOON, arguments={"what": "documents"}
    )

    writing.write_export(TaskContext(task=task.pk, group="generic"), {"what": "documents", "format": "csv"})

    export = Export.objects.get(task=task.pk)
    assert (export.rows, export.created_by) == (3, "nightly")


@pytest.mark.parametrize(
    ("facts", "fields"),
    [
        ({"what": "secrets"}, {"what"}),
        ({"format": "exe"}, {"format"}),
        ({"filter": {"jobs": [1]}}, {"filter.jobs"}),
        ({"filter": {"state": ["no state"]}}, {"filter.state"}),
        ({"filter": [1]}, {"filter"}),
    ],
)
def test_invalid_fields_of_an_export_are_named(facts, fields):
    wanted = {"what": "documents", "format": "csv", "filter": {}} | facts

    answer = client_of("operator").post("/api/v1/exports/", wanted, format="json")

    assert_problem(answer, 400, "invalid", fields=fields)
    assert not Export.objects.exists()


def test_an_invalid_pattern_fails_the_export_with_its_reason(job):
    export = request(identifier="(")
    with pytest.raises(Invalid):
        write(export)

    export.refresh_from_db()
    assert verbs.with_state(export).state == "failed"
    assert "identifier" in verbs.with_state(export).problem


def test_an_export_is_made_and_downloaded_through_the_api(job):
    make_documents(job, 12)
    operator, viewer = client_of("operator"), client_of("viewer")

    answer = operator.post("/api/v1/exports/", {"what": "documents", "format": "csv"}, format="json")
    made = answer.json()
    assert (answer.status_code, made["state"], made["file"]) == (201, "waiting", None)
    assert_problem(viewer.get(f"/api/v1/exports/{made['id']}/file/"), 409, "refused")
    export = write(Export.objects.get(pk=made["id"]))

    shown = viewer.get(f"/api/v1/exports/{export.pk}/").json()
    sent = viewer.get(shown["file"])
    assert (shown["state"], shown["rows"]) == ("done", 12)
    assert sent["Content-Type"] == "text/csv; charset=utf-8"
    assert sent["Content-Disposition"].startswith('attachment; filename="documents-')
    assert _body_of(sent) == files.find_file(export).read_bytes()
    assert viewer.post("/api/v1/exports/", {"what": "documents", "format": "csv"}, format="json").status_code == 403
    assert viewer.delete(f"/api/v1/exports/{export.pk}/").status_code == 403
    assert operator.delete(f"/api/v1/exports/{export.pk}/").status_code == 204
    assert viewer.get(f"/api/v1/exports/{export.pk}/").status_code == 404


def _body_of(response):
    async def read():
        return [chunk async for chunk in response.streaming_content]

    return b"".join(asyncio.run(read()))


def test_an_open_export_is_cancelled_and_not_deleted(job):
    operator = client_of("operator")
    export = request()

    assert_problem(operator.delete(f"/api/v1/exports/{export.pk}/"), 409, "refused")
    assert operator.post(f"/api/v1/exports/{export.pk}/cancel/").json()["state"] == "cancelled"
    assert_problem(operator.post(f"/api/v1/exports/{export.pk}/cancel/"), 409, "refused")


def test_a_user_who_may_not_see_the_history_sees_no_export_of_it(job):
    user = User.objects.create_user("auditor")
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_export", "view_queueitem"]))
    export = write(request("history"))
    client = client_of()
    client.force_login(user)

    assert client.get("/api/v1/exports/").json()["results"] == []
    assert client.get(f"/api/v1/exports/{export.pk}/file/").status_code == 404


def test_a_lost_task_is_shown_as_the_reason_of_the_failure(job):
    export = request()
    Task.objects.filter(pk=export.task).delete()
    ArchivedTask.objects.create(
        id=export.task,
        kind="export",
        retry_policy={},
        created_by="a test",
        why="tried-too-many-times",
        archived_at=NOON,
        last_message="no space left",
    )

    assert (verbs.with_state(export).state, verbs.with_state(export).problem) == ("failed", "no space left")

    cleaning.end_lost_exports()
    ArchivedTask.objects.all().delete()
    export.refresh_from_db()
    assert verbs.with_state(export).problem == "no space left"


def test_the_cleaner_deletes_expired_exports_and_orphaned_files(job, directory):
    kept, old = write(request()), write(request())
    Export.objects.filter(pk=old.pk).update(expires_at=NOON)
    (directory / "export-999999-1-1.part").touch()
    (directory / "notes.txt").touch()

    result = cleaning.clean_exports(TaskContext(task=1, group="generic"), {})

    assert result == {"deleted": 1, "files": 2}
    assert {path.name for path in directory.iterdir()} == {kept.file, "notes.txt"}


def test_the_template_of_the_cleaner_is_built_in():
    assert TaskTemplate.objects.get(urn="clean-exports").is_built_in


def test_the_pages_of_exports_show_schedule_and_delete(job):
    make_documents(job, 3)
    client = client_of("operator")
    report = client.get("/reports/documents/?identifier=docs&job=" + str(job.pk))
    new = report.context["export"]
    assert 'value="parquet"' in client.get(new).content.decode()
    (what,), (filter_,) = parse_qs(new.partition("?")[2]).values()

    answer = client.post("/exports/new/", {"what": what, "filter": filter_, "format": "jsonl"}, format="multipart")
    export = Export.objects.get()

    assert answer.status_code == 302
    assert (export.filter["job"], export.filter["identifier"]) == ([job.pk], "docs")
    write(export)
    page = client.get("/exports/").content.decode()
    assert reverse("export-file", args=[export.pk]) in page
    assert client.get(reverse("export-file", args=[export.pk]))["Content-Type"] == "application/x-ndjson"
    client.post(reverse("export-delete", args=[export.pk]))
    assert not Export.objects.exists()


def test_an_open_page_follows_an_export_to_its_end(job):
    make_documents(job, 3)
    export = request()
    context = client_of("operator").get("/exports/").context
    assert is_topic(context["topic"])
    assert read_screen(context["topic"]) == context["screen"]

    write(export)

    (row,) = read_screen(context["topic"])["exports"]
    assert (row["state"], row["file"], row["cancels"], len(row["deletes"])) == ("done", "Download", [], 1)


def test_a_filtered_list_of_exports_gets_no_live_updates(job):
    user = User.objects.create_user("auditor")
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_export", "view_queueitem"]))
    request("history")
    client = Client()
    client.force_login(user)

    context = client.get("/exports/").context

    assert (context["topic"], context["screen"]["exports"]) == ("", [])


@each_row("text", ["{", "[" * 5_000, '{"host": "\\ud800"}', '{"host": "\\u0000"}', '{"job": [1e999]}'])
def test_the_page_names_the_invalid_part_of_a_filter(text):
    given = {"what": "documents", "filter": text, "format": "csv"}

    answer = client_of("operator").post("/exports/new/", given, format="multipart")

    assert answer.status_code == 400
    assert "This is not a JSON object." in answer.content.decode()


def test_viewers_see_no_form_of_exports(job):
    viewer = client_of("viewer")

    assert viewer.get("/exports/new/").status_code == 403
    assert "/exports/new/" not in viewer.get("/exports/").content.decode()


def test_files_of_exports_are_private(job, directory):
    write(request())

    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_partitions_with_one_directory_do_not_delete_each_others_files(job, directory, settings):
    make_documents(job, 3)
    own = write(request())

    be_partition(settings, "b")
    Export.objects.all().delete()
    theirs = write(request())
    result = cleaning.clean_exports(TaskContext(task=1, group="generic"), {})

    assert result == {"deleted": 0, "files": 0}
    assert (directory / own.file).is_file()
    assert files.find_file(theirs).parent == directory / "b"


def test_a_file_of_a_replaced_attempt_stays_until_its_export_is_deleted(job, monkeypatch):
    make_documents(job, 3)
    export = request()
    Task.objects.filter(pk=export.task).delete()

    def write_meanwhile(_export):
        write(export)
        return "the worker was lost"

    monkeypatch.setattr(cleaning, "why_lost", write_meanwhile)
    Export.objects.update(attempt=1)
    assert cleaning.end_lost_exports() == 0

    assert len(rows_of(export)) == 3
