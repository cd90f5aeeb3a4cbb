"""Proves that the form of a job can show the effects of a change, and stores the change only when it is saved."""

import uuid

import pytest

from crawlctl.access.roles import ADMINISTRATOR, VIEWER
from jobs.connectors.repository.base import hash_of
from jobs.lifecycle.document import Stage
from jobs.models import Job, OutLinks, QueueItem, RejectedAddress
from jobs.verbs import rehearsing
from nodes.tasks.models import Task
from tests.integration.test_first_job import NEW, SENT
from tests.integration.test_pages import page_client
from tests.support.api import client_of
from tests.support.factories import make_job, make_lane, make_policy

pytestmark = pytest.mark.django_db

SEED, PRIVATE, ELSEWHERE = "http://a.example/", "http://a.example/private/x", "http://b.example/y"


def key(url):
    return uuid.UUID(hash_of(url))


@pytest.fixture
def job():
    """Return a crawled job: its seed links to a document, and to an address on another host, which was refused."""
    job = make_job(urls=(SEED,), policy=make_policy(min_gap=60.0))
    lane = make_lane(job.seeds.get())
    QueueItem.objects.bulk_create(
        QueueItem(hash=key(url), job=job, lane=lane, identifier=url, stage=Stage.DONE, run_no=1)
        for url in (SEED, PRIVATE)
    )
    OutLinks.objects.create(hash=key(SEED), job=job, targets=[key(PRIVATE)])
    RejectedAddress.objects.create(job=job, hash=key(ELSEWHERE), identifier=ELSEWHERE, found_on=key(SEED))
    return job


def send(job, client=None, **fields):
    seed = job.seeds.get()
    sent = {
        "name": job.name,
        "built_for": "web",
        "outputs": [output.pk for output in job.outputs.all()],
        "priority": 5,
        "kind": "once",
        "hop_mode": "accurate",
        "start_method": "manual",
        "guard_documents": 20,
        "specification_allow_private_networks": "on",
        "seeds-TOTAL_FORMS": 1,
        "seeds-INITIAL_FORMS": 1,
        "seeds-0-id": seed.pk,
        "seeds-0-urls": "\n".join(seed.urls),
        "seeds-0-policy": seed.policy_id,
    }
    return (client or page_client("administrator")).post(f"/admin/jobs/job/{job.pk}/change/", sent | fields)


def sentences(answer):
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_the_form_shows_the_effects_and_stores_nothing(job):
    page = sentences(send(job, specification_exclude="/private/", specification_scope="any", _rehearse=1))

    assert "2 documents now: 1 stay, 1 leave, 1 arrive." in page
    assert "Leave: the exclude pattern &#x27;/private/&#x27; matches it: 1" in page
    assert PRIVATE in page
    assert ELSEWHERE in page
    assert "Documents that arrive may lead to more" in page
    assert Job.objects.get(pk=job.pk).specification == {"allow_private_networks": True}


def test_the_form_keeps_its_input_and_can_be_saved_after_a_rehearsal(job):
    client, change = page_client("administrator"), {"specification_exclude": "/private/"}

    assert ">/private/</textarea>" in sentences(send(job, client, **change, _rehearse=1))
    answer = send(job, client, **change)

    assert answer.status_code == 302
    assert Job.objects.get(pk=job.pk).specification["exclude"] == ["/private/"]


def test_an_invalid_change_shows_its_problem_instead_of_effects(job):
    page = sentences(send(job, specification_exclude="(", _rehearse=1))

    assert "pattern" in page
    assert "Rehearsal: the next full run" not in page


def test_a_rehearsal_that_takes_long_is_made_by_a_task(job, monkeypatch):
    monkeypatch.setattr(rehearsing, "_LONGEST", 0)

    page = sentences(send(job, specification_exclude="/private/", _rehearse=1))

    task = Task.objects.get()
    assert f"task {task.pk}" in page
    assert (task.kind, task.created_by, task.arguments["job"]) == ("rehearsal", "a administrator", job.pk)
    assert Job.objects.get(pk=job.pk).specification == {"allow_private_networks": True}


def test_only_users_who_may_save_a_job_may_rehearse_its_changes(job):
    address = f"/admin/jobs/job/{job.pk}/change/"

    assert "Rehearse" in sentences(client_of(ADMINISTRATOR).get(address))
    viewer = client_of(VIEWER)
    assert "Rehearse" not in viewer.get(address, follow=True).content.decode()
    assert send(job, viewer, _rehearse=1).status_code == 403


def test_the_form_of_a_new_job_is_not_stored_by_a_rehearsal():
    page_client("administrator").post(NEW, SENT | {"addresses": "example.org", "_rehearse": 1})

    assert not Job.objects.exists()
