"""Proves that pages, the API and a command show archives, and that archived content never runs in the browser."""

import datetime as dt

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from rest_framework.test import APIClient

from crawlctl.access.roles import ADMINISTRATOR
from jobs.archive import files
from jobs.archive.records import Archived, Format, RecordKind, digest_of
from jobs.authorities import verbs
from jobs.authorities.models import AuthorityConnection
from jobs.models import ArchiveFile, ArchiveRecord, Job, RepositoryConnection
from nodes.stores.opening import open_store
from tests.support.api import NOON, assert_problem, client_of, make_documents, make_job, make_user
from tests.support.s3 import create_bucket, s3_server

pytestmark = pytest.mark.django_db

BODY = b"<html><script>alert(1)</script>words</html>"
WHEN = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)


@pytest.fixture
def administrator():
    return client_of(ADMINISTRATOR)


@pytest.fixture
def record(tmp_path):
    """Return a record of a document, in a file below the directory of the test."""
    (document,) = make_documents(make_job(), 1)
    return make_archive_record(document, tmp_path)


def make_archive_record(document, directory):
    """Write an exchange of a document into an archive file in a directory; return its record."""
    archived = Archived(
        url=document.identifier,
        date=WHEN,
        kind=RecordKind.RESPONSE,
        status=200,
        request_head=b"GET / HTTP/1.1\r\n\r\n",
        response_head=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-A: <b>\r\n\r\n",
        body=BODY,
        digest=digest_of(BODY),
    )
    file = files.OpenFile.create(directory / "x.warc.gz", Format.WARC, software="crawlctl", date=WHEN)
    (place,) = file.append([archived])
    file.close()
    facts = {"job_id": document.job_id, "node_id": document.hash, "host": "here", "opened_at": NOON}
    row = ArchiveFile.objects.create(root=str(directory), path="x.warc.gz", format="warc", **facts)
    return ArchiveRecord.objects.create(
        file=row, job_id=document.job_id, hash=document.hash, run_no=1, offset=place.offset, length=place.length,
        kind="response", status=200, digest=archived.digest, fetched_at=NOON,
    )  # fmt: skip


def test_pages_lead_from_a_document_to_the_escaped_body(administrator, record):
    listed = administrator.get(reverse("document-archive", args=[record.job_id, record.hash])).content.decode()
    address = reverse("archive-record", args=[record.pk])
    assert address in listed
    shown = administrator.get(address).content.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;words" in shown
    assert "<script>alert(1)" not in shown
    assert "X-A: &lt;b&gt;" in shown
    assert "x.warc.gz" in administrator.get(reverse("job-archive", args=[record.job_id])).content.decode()
    document = administrator.get(reverse("document", args=[record.job_id, record.hash])).content.decode()
    assert reverse("document-archive", args=[record.job_id, record.hash]) in document


@pytest.mark.parametrize("address", ["/archive/{}/body/", "/api/v1/archive-records/{}/body/"])
def test_a_raw_body_is_sent_as_a_download(administrator, record, address):
    answer = administrator.get(address.format(record.pk))
    assert answer.content == BODY
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["X-Content-Type-Options"] == "nosniff"


@pytest.fixture
def editors(record, tmp_path):
    """Let only editors read the documents of the record's job. alice is an editor, and bob is not."""
    users = tmp_path / "users.yaml"
    users.write_text("users: {alice: {groups: [editors]}, bob: {}}")
    group = verbs.create_group(name="g", made_by="root")
    file = {"path": str(users)}
    verbs.create(AuthorityConnection, name="users", kind="file", configuration=file, group=group.pk, made_by="root")
    job = Job.objects.get(pk=record.job_id)
    job.access_rules = [{"pattern": ".", "allow": ["editors"], "deny": []}]
    job.save(update_fields=["access_rules"])
    RepositoryConnection.objects.filter(pk=job.repository_id).update(authority_group=group)


def reader(name):
    """Return a client with the session of an administrator of this name."""
    user = make_user(ADMINISTRATOR)
    user.username = name
    user.save()
    client = APIClient()
    client.force_login(user)
    return client


@pytest.mark.parametrize(
    "address", ["/archive/{}/", "/archive/{}/body/", "/api/v1/archive-records/{}/", "/api/v1/archive-records/{}/body/"]
)
def test_a_protected_record_is_read_by_users_with_a_token_only(editors, record, address):
    answers = {name: reader(name).get(address.format(record.pk)) for name in ("alice", "bob")}

    assert {name: answer.status_code for name, answer in answers.items()} == {"alice": 200, "bob": 403}
    assert b"alert(1)" in answers["alice"].content
    assert b"alert(1)" not in answers["bob"].content
    assert b"You have no token for it." in answers["bob"].content


def test_a_record_of_a_deleted_job_is_not_shown(administrator, record):
    Job.objects.filter(pk=record.job_id).delete()

    answer = administrator.get(f"/api/v1/archive-records/{record.pk}/")

    assert_problem(answer, 403, "permission_denied")
    assert "no longer exists" in answer.json()["detail"]


def test_the_api_lists_archive_files_and_records_and_reads_a_record(administrator, record):
    listed = administrator.get(f"/api/v1/archive-files/?job={record.job_id}").json()["results"]
    assert [(row["path"], row["state"]) for row in listed] == [("x.warc.gz", "open")]
    document = f"{record.job_id}-{record.hash.hex}"
    found = administrator.get(f"/api/v1/archive-records/?document={document}").json()["results"]
    assert [(row["id"], row["digest"]) for row in found] == [(record.pk, digest_of(BODY))]
    read = administrator.get(f"/api/v1/archive-records/{record.pk}/").json()
    assert (read["text"], read["is_cut"]) == (BODY.decode(), False)
    assert read["response_head"].startswith("HTTP/1.1 200 OK")


def test_a_record_on_another_machine_is_refused_with_the_machines_name(administrator, record, tmp_path):
    (tmp_path / "x.warc.gz").unlink()
    refused = administrator.get(f"/api/v1/archive-records/{record.pk}/")
    assert refused.status_code == 409
    assert "of machine here" in refused.json()["detail"]
    assert administrator.get(reverse("archive-record", args=[record.pk])).status_code == 409
    assert administrator.get("/api/v1/archive-records/987654321/").status_code == 404


@pytest.fixture(params=["directory", "bucket"])
def in_a_store(request, record, tmp_path, monkeypatch):
    """Move the file of the record to a store, which is the only place that has it."""
    if request.param == "bucket":
        environment = request.getfixturevalue("server")
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        create_bucket("doors")
        address = "s3://doors"
    else:
        (tmp_path / "store").mkdir()
        address = f"dir:{tmp_path / 'store'}"
    path = tmp_path / "x.warc.gz"
    size = path.stat().st_size
    open_store(address).put("x.warc.gz", path, sha256=files.sha256_of(path))
    path.unlink()
    ArchiveFile.objects.update(stores={address: NOON.isoformat()}, length=size, state="stored", removed_at=NOON)
    return address


@pytest.fixture
def server(tmp_path):
    with s3_server(tmp_path) as environment:
        yield environment


@pytest.mark.django_db(transaction=True)
def test_a_file_without_a_local_copy_is_read_from_its_store(administrator, record, in_a_store, tmp_path, capsys):
    read = administrator.get(f"/api/v1/archive-records/{record.pk}/").json()
    assert read["text"] == BODY.decode()
    assert administrator.get(f"/api/v1/archive-records/{record.pk}/body/").content == BODY
    assert administrator.get(reverse("archive-record", args=[record.pk])).status_code == 200
    (listed,) = administrator.get("/api/v1/archive-files/").json()["results"]
    assert (list(listed["stores"]), listed["problem"]) == ([in_a_store], "")
    assert in_a_store in administrator.get(reverse("job-archive", args=[record.job_id])).content.decode()

    call_command("archive", "show", "x.warc.gz")
    assert " response     200        43 http://" in capsys.readouterr().out
    call_command("archive", "show", "x.warc.gz", "--offset", str(record.offset))
    assert "<script>alert(1)</script>" in capsys.readouterr().out
    call_command("archive", "copy", "x.warc.gz", str(tmp_path / "y.barc"), "--to", "barc")
    assert [one.body for one in files.read_all(tmp_path / "y.barc")] == [BODY]


@pytest.mark.django_db(transaction=True)
def test_a_store_that_does_not_answer_is_refused_with_its_name(administrator, record, tmp_path):
    (tmp_path / "x.warc.gz").unlink()
    ArchiveFile.objects.update(stores={f"dir:{tmp_path / 'absent'}": NOON.isoformat()}, length=9)
    refused = administrator.get(f"/api/v1/archive-records/{record.pk}/")
    assert refused.status_code == 409
    assert "absent: the directory does not exist" in refused.json()["detail"]
    with pytest.raises(CommandError, match="absent: the directory does not exist"):
        call_command("archive", "show", "x.warc.gz")


def test_the_command_shows_and_copies_an_archive_file(record, tmp_path, capsys):
    call_command("archive", "show", str(tmp_path / "x.warc.gz"))
    assert " response     200        43 http://" in capsys.readouterr().out
    call_command("archive", "show", str(tmp_path / "x.warc.gz"), "--offset", str(record.offset))
    assert "<script>alert(1)</script>" in capsys.readouterr().out
    call_command("archive", "copy", str(tmp_path / "x.warc.gz"), str(tmp_path / "y.barc"), "--to", "barc")
    assert "Copied 1 answers" in capsys.readouterr().out
    assert [one.body for one in files.read_all(tmp_path / "y.barc")] == [BODY]


def test_the_command_refuses_files_that_are_no_archives(tmp_path, record):
    (tmp_path / "page.html").write_text("<html>")
    for given in (
        ["show", str(tmp_path / "page.html")],
        ["show", str(tmp_path / "none.warc")],
        ["show", str(tmp_path / "x.warc.gz"), "--offset", "7"],
        ["copy", str(tmp_path / "x.warc.gz"), str(tmp_path / "page.html"), "--to", "warc"],
    ):
        with pytest.raises(CommandError) as refused:
            call_command("archive", *given)
        assert refused.value.returncode == 2
