"""A job with a secret that cannot be decrypted, as after a restore without the key, waits and names the connection."""

import pytest

from jobs.attention.jobs import held_jobs
from jobs.duties.connectors import watch_connectors
from jobs.models import Job, RepositoryConnection
from nodes.database.sealing import can_open, seal
from tests.support.cluster import NOON
from tests.support.factories import make_policy, make_running_job
from tests.support.stepping import Main


@pytest.fixture
def main(connection):
    return Main(connection)


@pytest.fixture
def job(main, settings):
    """Return a running job with a login whose password is encrypted with the key of this machine."""
    settings.SECRET_KEY = "the key before the restore"
    job = make_running_job(main.node, policy=make_policy()).job
    login = {
        "name": "door",
        "pages": "^http://a/",
        "hosts": ["a"],
        "fields": [{"name": "password", "secret": seal("open sesame")}],
    }
    RepositoryConnection.objects.filter(pk=job.repository_id).update(name="treasury", configuration={"logins": [login]})
    return job


def checked_job(main, job):
    main.step(watch_connectors)
    return Job.objects.get(pk=job.pk)


def test_a_job_with_secrets_that_can_be_decrypted_is_not_held(main, job):
    assert checked_job(main, job).connectors_ready


def test_a_job_with_an_undecryptable_secret_waits_and_names_the_connection(main, job, settings):
    settings.SECRET_KEY = "a new machine's key"

    found = checked_job(main, job)

    assert not found.connectors_ready
    assert "the secrets of repository connection treasury cannot be opened" in found.reason
    assert "CRAWLCTL_SECRET_KEY" in found.reason


def test_a_line_of_the_attention_list_names_the_job_and_the_remedy(main, job, settings):
    settings.SECRET_KEY = "a new machine's key"
    checked_job(main, job)

    (line,) = held_jobs(NOON)

    assert line.subject == job.name
    assert "Start the nodes with that key, or enter the secrets again." in line.sentence


def test_the_job_continues_by_itself_when_the_key_is_back(main, job, settings):
    settings.SECRET_KEY = "a new machine's key"
    checked_job(main, job)
    settings.SECRET_KEY = "the key before the restore"

    found = checked_job(main, job)

    assert (found.connectors_ready, found.reason) == (True, "")


def test_the_reason_for_an_undecryptable_secret_does_not_show_the_secret(main, job, settings):
    settings.SECRET_KEY = "a new machine's key"

    found = checked_job(main, job)

    assert "sesame" not in found.reason
    assert "sealed:" not in found.reason


def test_text_that_is_not_sealed_counts_as_readable():
    assert can_open("a plain text")
