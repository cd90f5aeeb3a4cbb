"""Proves that two workers share a login form that protects a hundred pages (ManifoldCF's SessionTester)."""

import gzip
import time
from urllib.parse import quote_plus

import pytest

from jobs.archive import barc
from jobs.models import ArchiveRecord, Job, RepositoryConnection
from jobs.verbs import connections, control, editing
from jobs.verbs.seeds import SeedWanted
from tests.support.factories import NOON, make_output, make_policy
from tests.support.guarded import PAGES, PASSWORD, serve_guarded
from tests.support.processes import held_by, wait_for


@pytest.fixture
def site():
    with serve_guarded() as served:
        yield served


@pytest.fixture
def daemons(cluster):
    cluster.start("runmanager", "runworker", "runworker")
    return cluster


def make_job(cluster, site, *, password=PASSWORD, **limits):
    fields = [{"name": "user", "value": "ali"}, {"name": "password", "secret": password}]
    connection = connections.create(
        RepositoryConnection,
        name="treasury",
        connector="web",
        configuration={"allow_private_networks": True, "logins": [{**site.login, "fields": fields}]},
    )
    return editing.create_job(
        name="treasure",
        repository=connection,
        outputs=[make_output(cluster.output)],
        seeds=[SeedWanted((site.url("/index"),), make_policy(**({"open_requests": 4} | limits)))],
        specification={},
        made_by="a test",
        now=NOON,
    ).job


def all_of(site):
    return {site.url("/index"), *(site.url(f"/page/{n}") for n in range(PAGES))}


def test_one_login_serves_a_hundred_documents_and_the_second_run(daemons, site):
    job = make_job(daemons, site)

    assert daemons.run(job) == "finished"
    assert held_by(daemons.output) == all_of(site)
    assert daemons.database.documents() == {(2, "200"): PAGES + 1}
    assert len(site.logins) == 1
    assert sorted(site.pages) == sorted(f"/page/{n}" for n in range(PAGES))
    activities = daemons.database.rows(
        "SELECT activity, result_code FROM jobs_activity WHERE activity LIKE '%% login sequence'"
    )
    assert sorted(activities) == [("begin login sequence", "OK"), ("end login sequence", "OK")]

    assert daemons.run(job) == "finished"
    assert len(site.logins) == 1


def test_a_session_that_the_site_ends_is_renewed_once(daemons, site):
    site.ends_after = 40

    assert daemons.run(make_job(daemons, site)) == "finished"
    assert held_by(daemons.output) == all_of(site)
    assert len(site.logins) == 2


def test_another_worker_logs_in_if_the_first_one_dies_during_its_login(cluster, site):
    _, *workers = cluster.start("runmanager", "runworker", "runworker")
    site.answers.clear()
    job = make_job(cluster, site)
    cluster.start_job(job)
    wait_for(lambda: site.logins, saying="a worker logs in")
    node_id = cluster.database.value("SELECT node_id FROM jobs_gate")

    next(worker for worker in workers if cluster.node_of(worker).id == node_id).kill()
    site.answers.set()

    assert cluster.wait_for_end(job) == "finished"
    assert held_by(cluster.output) == all_of(site)
    assert len(site.logins) == 2


def test_a_wrong_password_pauses_the_job_after_one_attempt_with_a_reason(daemons, site):
    job = make_job(daemons, site, password="hunter2")

    daemons.start_job(job)
    wait_for(lambda: Job.objects.get(pk=job.pk).pause == "paused", saying="the job is paused")

    job.refresh_from_db()
    assert (
        job.reason == "treasury: the login the door failed: the login page came again; check the user and the password"
    )
    assert [sent["password"] for sent in site.logins] == ["hunter2"]
    for table in ("jobs_repositoryconnection", "jobs_session", "jobs_activity", "jobs_jobevent", "jobs_queueitem"):
        assert daemons.database.value(f"SELECT count(*) FROM {table} AS row WHERE row::text LIKE '%%hunter2%%'") == 0

    # A resume tries the login once more, and nothing was lost.
    control.resume(job.pk, made_by="a test", now=NOON)
    wait_for(
        lambda: len(site.logins) == 2 and Job.objects.get(pk=job.pk).pause == "paused",
        saying="the login was tried once more, and the job is paused",
    )
    assert daemons.database.documents() == {(2, "200"): 1, (0, ""): PAGES}


def test_a_paused_job_finishes_after_its_password_is_corrected(daemons, site):
    job = make_job(daemons, site, password="hunter2")
    daemons.start_job(job)
    wait_for(lambda: Job.objects.get(pk=job.pk).pause == "paused", saying="the job is paused")

    correct(job, logins=[site.login])
    control.resume(job.pk, made_by="a test", now=NOON)

    assert daemons.wait_for_end(job) == "finished"
    assert held_by(daemons.output) == all_of(site)
    assert [sent["password"] for sent in site.logins] == ["hunter2", PASSWORD]


def test_workers_apply_an_edited_connection_of_a_running_job_in_5_seconds(daemons, site):
    job = make_job(daemons, site, open_requests=1, min_gap=0.2)
    daemons.start_job(job)
    wait_for(lambda: len(site.pages) >= 5, saying="the job has read five pages")

    correct(job, user_agent="edited/1")
    edited_at = time.monotonic()

    wait_for(lambda: site.agents[-1][0] > edited_at + 6, saying="six seconds of requests have passed")
    assert {agent for at, agent in site.agents if at > edited_at + 5} == {"edited/1"}
    assert Job.objects.get(pk=job.pk).manifoldcf_status == "ACTIVE"


def correct(job, **configuration):
    """Edit the job's connection as an administrator would."""
    stored = RepositoryConnection.objects.get(pk=job.repository_id)
    connections.change(RepositoryConnection, stored.pk, configuration={**stored.configuration, **configuration})


def bytes_of_archives(root):
    """Return the bytes of all archive files, as they are and inflated."""
    found = []
    for path in root.rglob("*"):
        if path.is_file():
            found.append(path.read_bytes())
        if path.name.endswith(".warc.gz"):
            found.append(gzip.decompress(found[-1]))
        elif path.name.endswith(".barc"):
            with path.open("rb") as file:
                for record in barc.read_records(file):
                    lines = [*record.meta, *record.request, *record.response]
                    found.append(b"\n".join(b": ".join(line) for line in lines) + b"\n" + record.body)
    return b"\n".join(found)


@pytest.mark.parametrize("form", ["warc", "barc"])
def test_no_byte_of_a_login_is_in_any_archive_file(cluster, site, form):
    root = cluster.machine.directory / "archive"
    cluster.start("runmanager", "runworker", "runworker", CRAWLCTL_ARCHIVE_ROOT=str(root))
    job = make_job(cluster, site)
    Job.objects.filter(pk=job.pk).update(archive=form)
    # The session ends in the middle, so there is a second login.
    site.ends_after = 40
    # A page that redirects to the form in spite of a session.
    site.forbidden = frozenset({"/page/7"})

    assert cluster.run(job) == "finished"
    assert held_by(cluster.output) == all_of(site) - {site.url("/page/7")}
    assert len(site.logins) >= 2

    archived = bytes_of_archives(root)
    assert ArchiveRecord.objects.filter(status=200).count() >= PAGES
    assert archived.count(b"Treasure /page/8") >= 1
    cookies = [cookie for _, cookie in site.told if cookie]
    assert cookies
    values = {part.partition("=")[2] for cookie in cookies for part in cookie.split("; ")}
    secrets = {PASSWORD, quote_plus(PASSWORD), *values, *site.tokens.values(), *site.tokens, *site.sessions}
    secrets |= {login["token"] for login in site.logins}
    assert not [secret for secret in secrets if secret.encode() in archived]
    names = [b"cookie:", b"authorization:", b"cookie2:", b"user=ali", b"type=password"]
    assert not [name for name in names if name in archived.lower()]
