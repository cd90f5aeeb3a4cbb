"""Proves that a job keeps the last versions of its documents, and that a page and the API show the differences."""

import pytest

from jobs.authorities import verbs
from jobs.authorities.models import AuthorityConnection
from jobs.connectors.repository.base import Ending
from jobs.duties import versions as surplus
from jobs.duties.versions import remove_surplus_versions
from jobs.models import DocumentVersion, Job, QueueItem, RepositoryConnection
from jobs.queries.documents.versions import text_of
from jobs.queries.jobs.set_up import read_set_up
from jobs.queue.flushing.versions import MOST_TEXT
from jobs.queue.removing.drop import drop
from jobs.ui.specification import describe
from jobs.verbs import editing
from tests.integration.test_archive_interfaces import reader
from tests.integration.test_queue_flush import OneWorker
from tests.support.api import assert_problem, client_of
from tests.support.cluster import NOON, seconds
from tests.support.factories import facts_of, hash_of, make_documents, make_output
from tests.support.stepping import Main


@pytest.fixture
def crawl(connection, tmp_path):
    return OneWorker(connection, output=make_output(tmp_path / "out.jsonl"))


@pytest.fixture
def read(crawl):
    """Return a function that crawls the document `page` once, and finds this text."""
    make_documents(crawl.lane, ["page"])
    Job.objects.filter(pk=crawl.job.pk).update(kept_versions=3)

    def crawl_once(text, *, kept_versions=3, headers=None, now=NOON, **outcome):
        QueueItem.objects.filter(hash=hash_of("page")).update(stage=0, outcome=0, seq=1)
        claimed = crawl.claim(now=now)["page"]
        found = {"text": text, "headers": headers or {"Content-Type": "text/plain"}}
        crawl.flush(claimed, facts={"kept_versions": kept_versions}, now=now, **found, **outcome)

    return crawl_once


def kept_versions():
    return [(version.number, version.code, text_of(version)) for version in DocumentVersion.objects.order_by("number")]


# --- Keeping ---------------------------------------------------------------------------------------


def test_an_answer_with_another_text_is_a_new_version(read):
    for text in ("one", "one", "two"):
        read(text)

    assert kept_versions() == [(1, "200", "one"), (2, "200", "two")]


def test_only_the_newest_versions_are_kept(read):
    for text in ("one", "two", "three", "four"):
        read(text, kept_versions=2)

    assert kept_versions() == [(3, "200", "three"), (4, "200", "four")]


def test_a_job_that_keeps_no_versions_stores_none(read):
    read("one", kept_versions=0)

    assert kept_versions() == []


def test_a_document_that_disappears_has_a_version_without_a_text(read):
    read("one")
    read("", ending=Ending.EXCLUDED, code="404", removes=True)

    assert kept_versions() == [(1, "200", "one"), (2, "404", "")]


def test_a_failed_attempt_is_no_version(read):
    read("one")
    read("", ending=Ending.RETRY, code="503", references=None, retry_after=9.0)

    assert kept_versions() == [(1, "200", "one")]


@pytest.mark.parametrize(("wanted", "numbers"), [(1, [3]), (2, [2, 3]), (0, [])])
def test_surplus_versions_are_deleted_when_a_job_keeps_fewer(read, crawl, connection, wanted, numbers):
    for text in ("one", "two", "three"):
        read(text)
    others = copy_versions(job=10**9)

    set_kept_versions(crawl.job, wanted)
    removed = Main(connection).step(remove_surplus_versions)

    assert removed == 3 - wanted
    assert [version.number for version in DocumentVersion.objects.filter(job=crawl.job).order_by("number")] == numbers
    assert DocumentVersion.objects.filter(job=10**9).count() == others
    assert not Job.objects.filter(surplus_versions_after__isnull=False).exists()


def test_surplus_versions_are_deleted_in_steps(read, crawl, connection, monkeypatch):
    monkeypatch.setattr(surplus, "_READ_AT_ONCE", 4)
    for text in ("one", "two", "three"):
        read(text)
    for number in range(5):
        copy_versions(job=crawl.job.pk, hash_=hash_of(f"copy{number}"))
    set_kept_versions(crawl.job, 1)
    main = Main(connection)

    removed = [main.step(remove_surplus_versions) for _ in range(6)]

    assert all(one <= 4 for one in removed)
    assert (sum(removed), DocumentVersion.objects.count()) == (12, 6)
    assert main.step(remove_surplus_versions) == 0


def test_a_higher_number_of_kept_versions_deletes_none_and_is_shown(read, crawl):
    read("one")

    set_kept_versions(crawl.job, 7)

    job = Job.objects.get(pk=crawl.job.pk)
    assert job.surplus_versions_after is None
    shown = dict(describe(read_set_up(job.pk)))
    assert shown["Kept versions"] == "7"


def set_kept_versions(job, versions):
    """Change the number of versions that a job keeps, after its run."""
    Job.objects.filter(pk=job.pk).update(phase="inactive")
    editing.change_job(job.pk, kept_versions=versions, made_by="a test", now=NOON)


def copy_versions(*, job, hash_=None):
    """Copy the versions of the document `page` to another job or document; return their number."""
    rows = list(DocumentVersion.objects.filter(hash=hash_of("page")))
    for row in rows:
        row.job_id, row.hash = job, hash_ or row.hash
    return len(DocumentVersion.objects.bulk_create(rows))


def test_headers_are_kept_without_cookies(read):
    read("one", headers={"Content-Type": "text/html", "Set-Cookie": "secret=1", "X-Strange": "a\0b\udc80"})

    assert DocumentVersion.objects.get().headers == "Content-Type: text/html\nX-Strange: a?b?"


def test_a_long_text_is_kept_up_to_a_limit_and_marked_as_cut(read):
    read("é" * (MOST_TEXT + 1))

    version = DocumentVersion.objects.get()
    assert (version.length, version.is_cut, text_of(version)) == (MOST_TEXT, True, "é" * MOST_TEXT)


def test_the_versions_of_a_document_are_deleted_with_the_document(crawl, read):
    read("one")
    QueueItem.objects.update(stage=0, outcome=0, seq=1, action=1)
    claimed = crawl.claim()["page"]

    class NoOutputs:
        def remove(self, cursor, *, claims, jobs, now):
            return ()

    facts = facts_of(crawl.job)
    drop(
        crawl.connection,
        worker=crawl.worker.id,
        claims=[claimed],
        jobs={facts.id: facts},
        outputs=NoOutputs(),
        now=NOON,
    )

    assert not QueueItem.objects.exists()
    assert kept_versions() == []


def test_when_a_job_begins_to_keep_versions_its_next_run_reads_all_documents(crawl):
    Job.objects.filter(pk=crawl.job.pk).update(phase="inactive")
    before = Job.objects.get(pk=crawl.job.pk).specification_version

    editing.change_job(crawl.job.pk, kept_versions=2, made_by="a test", now=NOON)
    editing.change_job(crawl.job.pk, kept_versions=5, made_by="a test", now=NOON)

    assert Job.objects.get(pk=crawl.job.pk).specification_version == before + 1


# --- Showing ---------------------------------------------------------------------------------------


@pytest.fixture
def page(read, crawl):
    read("Opens at nine.\nCloses at five.", headers={"ETag": '"1"'})
    read("Opens at nine.\n<b>Closes</b> at six.", headers={"ETag": '"2"'}, now=NOON + seconds(3600))
    read("Opens at ten.\n<b>Closes</b> at six.", headers={"ETag": '"3"'}, now=NOON + seconds(7200))
    return f"{crawl.job.pk}/{hash_of('page').hex}"


def test_the_page_of_a_document_leads_to_its_versions(page):
    viewer = client_of("viewer")

    assert f"/documents/{page}/versions/" in viewer.get(f"/documents/{page}/").content.decode()
    shown = viewer.get(f"/documents/{page}/versions/").content.decode()
    assert "compared with version 2" in shown
    assert "1 line removed, 1 line added" in shown
    assert "Opens at nine." in shown
    assert "ETag: &quot;3&quot;" in shown
    assert "&lt;b&gt;Closes&lt;/b&gt;" in shown
    assert "<b>Closes" not in shown


def test_any_two_versions_are_compared(page):
    shown = client_of("viewer").get(f"/documents/{page}/versions/?version=3&earlier=1").content.decode()

    assert "compared with version 1" in shown
    assert "2 lines removed, 2 lines added" in shown


@pytest.mark.parametrize("query", ["version=9", "version=x", "version=3&earlier=9", "version=-1"])
def test_an_unknown_version_is_not_found(page, query):
    assert client_of("viewer").get(f"/documents/{page}/versions/?{query}").status_code == 404


def test_the_page_of_a_document_without_versions_says_how_to_keep_some(crawl):
    make_documents(crawl.lane, ["page"])

    shown = client_of("viewer").get(f"/documents/{crawl.job.pk}/{hash_of('page').hex}/versions/").content.decode()

    assert "The job keeps no versions." in shown


def test_the_api_has_the_versions_and_their_differences(page):
    viewer, address = client_of("viewer"), f"/api/v1/documents/{page.replace('/', '-')}/versions/"

    listed = viewer.get(address).json()
    found = viewer.get(f"{address}2/").json()

    assert (listed["kept"], [version["number"] for version in listed["versions"]]) == (3, [3, 2, 1])
    assert (found["headers"], found["earlier"], found["text"]) == (
        'ETag: "2"',
        1,
        "Opens at nine.\n<b>Closes</b> at six.",
    )
    assert found["difference"]["lines"] == [
        {"kind": "equal", "text": "Opens at nine.", "amount": 1},
        {"kind": "removed", "text": "Closes at five.", "amount": 1},
        {"kind": "added", "text": "<b>Closes</b> at six.", "amount": 1},
    ]
    assert viewer.get(f"{address}1/").json()["difference"] is None
    assert_problem(viewer.get(f"{address}9/"), 404, "not_found")
    assert_problem(viewer.get(f"{address}2/?earlier=x"), 400, "invalid")


def test_a_protected_version_is_read_by_users_with_a_token_only(page, crawl, tmp_path):
    users = tmp_path / "users.yaml"
    users.write_text("users: {alice: {groups: [editors]}, bob: {}}")
    group = verbs.create_group(name="g", made_by="root")
    file = {"path": str(users)}
    verbs.create(AuthorityConnection, name="users", kind="file", configuration=file, group=group.pk, made_by="root")
    rules = [{"pattern": ".", "allow": ["editors"], "deny": []}]
    Job.objects.filter(pk=crawl.job.pk).update(access_rules=rules)
    RepositoryConnection.objects.filter(pk=crawl.job.repository_id).update(authority_group=group)

    readers = {name: reader(name) for name in ("alice", "bob")}
    for address in (f"/documents/{page}/versions/", f"/api/v1/documents/{page.replace('/', '-')}/versions/2/"):
        answers = {name: client.get(address) for name, client in readers.items()}

        assert {name: answer.status_code for name, answer in answers.items()} == {"alice": 200, "bob": 403}
        assert b"Opens" in answers["alice"].content
        assert b"Opens" not in answers["bob"].content
