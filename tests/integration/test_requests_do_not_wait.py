"""
Proves that pages and the API only record requests of operators, so no request waits for a running crawl.
"""

import pytest

from crawlctl.access.roles import ADMINISTRATOR
from jobs.lifecycle.job import Pause, Phase
from jobs.models import Job, QueueItem
from tests.support.api import client_of, make_documents, make_job, set_phase

# Tables that a running crawl writes all the time.
QUEUE = "jobs_queueitem, jobs_lanestate, jobs_batch, jobs_turn, jobs_binstate"
# For each operation: the state of the job before it, and ManifoldCF's name of the status after it.
ORDERS = {
    "start": ({}, "READYFORSTARTUP"),
    "pause": ({"phase": Phase.ACTIVE}, "PAUSING"),
    "resume": ({"phase": Phase.ACTIVE, "pause": Pause.PAUSED}, "RESUMING"),
    "abort": ({"phase": Phase.ACTIVE}, "ABORTING"),
    "delete": ({}, "READYFORDELETE"),
}


@pytest.mark.parametrize("place", ["page", "API"])
@pytest.mark.parametrize("order", ORDERS)
def test_a_request_is_recorded_while_a_crawl_has_its_queue_locked(connection, order, place):
    before, after = ORDERS[order]
    job = make_job()
    make_documents(job, 3)
    set_phase(job, **before)
    client = client_of(ADMINISTRATOR)

    with connection.transaction():
        connection.execute(f"LOCK TABLE {QUEUE} IN EXCLUSIVE MODE")
        if place == "page":
            response = client.post(f"/jobs/{job.pk}/transition/", {"transition": order}, format="multipart")
        else:
            response = client.post(f"/api/v1/jobs/{job.pk}/{order}/")

    assert response.status_code in {200, 202, 302}, response.content
    assert Job.objects.get().manifoldcf_status == after
    assert QueueItem.objects.count() == 3
