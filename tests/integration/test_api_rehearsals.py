"""The API rehearses a change of a job for the users who may save it."""

import pytest

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR
from jobs.models import Job
from tests.support.api import client_of
from tests.support.guarded_site import GuardedSite
from tests.support.scripted import url_of

CHANGE = {"specification": {"excludes": ["page0"]}}


@pytest.fixture
def site(connection, world):
    site = GuardedSite(connection, world, pages=2, guard_percent=None)
    site.run()
    return site


def rehearse(site, role=ADMINISTRATOR, **change):
    return client_of(role).post(f"/api/v1/jobs/{site.job_id}/rehearse/", change)


def test_a_rehearsal_has_the_documents_the_outputs_the_hosts_and_the_starts(site):
    answer = rehearse(site, **CHANGE)

    assert answer.status_code == 200
    body = answer.json()
    assert (body["documents"], body["staying"], body["dropped"]) == (3, 2, 1)
    assert body["refused"] == [{"reason": "the job excludes page0", "number": 1, "examples": [url_of("page0")]}]
    assert body["losses"] == [{"output": "search", "documents": 1}]
    assert [(host["host"], host["before"], host["after"]) for host in body["hosts"]] == [("here", 3, 2)]
    assert (body["arrivals"]["likely"], body["starts_after"]) == (0, [])
    assert Job.objects.get(pk=site.job_id).specification == {}
    assert (body["silent"], body["notes"]) == ([], [])


def test_a_rehearsal_needs_the_role_and_shows_the_errors_of_a_save(site):
    assert rehearse(site, OPERATOR, **CHANGE).status_code == 403

    answer = rehearse(site, specification={"no such field": 1})

    assert answer.status_code == 400
    assert list(answer.json()["fields"]) == ["specification.no such field"]
