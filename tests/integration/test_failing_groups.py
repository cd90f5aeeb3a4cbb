"""If a manager cannot stuff one group, it stuffs the others, and pages show the failure until the group works again."""

import psycopg
import pytest
from django.utils import timezone

from jobs.duties import stuff as duty
from jobs.duties.stuff import stuff_groups
from jobs.models import Batch, ThrottleGroup
from jobs.queries.cluster.page import read_cluster_page
from jobs.queries.jobs.page import read_job_page
from jobs.ui.cluster_screen import cluster_screen
from jobs.ui.job_screen import job_screen
from tests.support.api import client_of
from tests.support.cluster import register_node
from tests.support.factories import make_documents, make_lane, make_policy, make_running_job
from tests.support.stepping import Manager


class Crawl:
    """Two jobs of one manager, each in its own group with documents to hand out."""

    def __init__(self, connection):
        register_node(connection, "worker")
        self.manager = Manager(connection)
        self.broken, self.sound = (
            make_running_job(self.manager.node, policy=make_policy(name)) for name in ("newspapers", "archives")
        )
        for running in (self.broken, self.sound):
            make_documents(make_lane(running.seed, f"h{running.job.pk}.example"), [f"page {running.job.pk}"])

    def stuff(self):
        return self.manager.step(stuff_groups)

    def offered(self, running):
        return Batch.objects.filter(group_id=running.group.id).exists()


@pytest.fixture
def crawl(connection):
    return Crawl(connection)


@pytest.fixture
def break_stuffing(crawl, monkeypatch):
    """
    Return a function that makes stuffing of one group fail with an error. A call with None repairs the stuffing.
    """
    stuff = duty.stuff

    def by(error):
        def stuff_or_fail(connection, *, group, **facts):
            if group == crawl.broken.group and error is not None:
                raise error
            return stuff(connection, group=group, **facts)

        monkeypatch.setattr(duty, "stuff", stuff_or_fail)

    return by


def troubles_of_cluster():
    now = timezone.now()
    return [row["says"] for row in cluster_screen(read_cluster_page(now=now), now=now)["troubles"]]


def troubles_of_job(running):
    now = timezone.now()
    return [row["says"] for row in job_screen(read_job_page(running.job.pk, now=now), now=now)["troubles"]]


def test_a_group_that_cannot_be_stuffed_logs_a_line_and_delays_no_other_group(crawl, break_stuffing):
    break_stuffing(ValueError("no such thing\nDETAIL: password=secret"))

    with pytest.raises(ValueError, match="no such thing"):
        crawl.stuff()

    assert (crawl.offered(crawl.broken), crawl.offered(crawl.sound)) == (False, True)
    (trouble,) = troubles_of_cluster()
    assert f"group {crawl.broken.group.id} (newspapers)" in trouble
    assert "ValueError: no such thing. " in trouble
    assert "secret" not in trouble
    assert (troubles_of_job(crawl.broken), troubles_of_job(crawl.sound)) == ([trouble], [])


def listed_to(client):
    """Return the beginning and the reason of the failure of each group. The key is the name of the group in the API."""
    rows = client.get("/api/v1/groups/").json()["results"]
    return {row["name"]: (row["failing_since"], row["failing_why"]) for row in rows}


def test_the_api_shows_since_when_and_why_a_group_cannot_be_stuffed(crawl, break_stuffing):
    viewer = client_of("viewer")
    break_stuffing(ValueError("no such thing\nDETAIL: password=secret"))
    with pytest.raises(ValueError, match="no such thing"):
        crawl.stuff()

    since = ThrottleGroup.objects.get(pk=crawl.broken.group.id).failing_since.isoformat().replace("+00:00", "Z")

    assert listed_to(viewer) == {"newspapers": (since, "ValueError: no such thing"), "archives": (None, "")}
    break_stuffing(None)
    crawl.stuff()
    assert listed_to(viewer) == {"newspapers": (None, ""), "archives": (None, "")}


def test_an_abort_by_the_database_is_logged_and_ends_the_pass(crawl, break_stuffing):
    break_stuffing(psycopg.errors.QueryCanceled("canceling statement due to statement timeout"))

    with pytest.raises(psycopg.errors.QueryCanceled):
        crawl.stuff()

    (trouble,) = troubles_of_job(crawl.broken)
    assert "QueryCanceled: canceling statement due to statement timeout" in trouble


def test_a_new_reason_keeps_the_beginning_of_the_failure(crawl, break_stuffing):
    def fail(error):
        break_stuffing(error)
        with pytest.raises(type(error)):
            crawl.stuff()
        return ThrottleGroup.objects.get(pk=crawl.broken.group.id)

    first, later = fail(ValueError("one")), fail(KeyError("other"))

    assert first.failing_since == later.failing_since
    assert (first.failing_why, later.failing_why) == ("ValueError: one", "KeyError: 'other'")


def test_a_recovery_ends_the_lines_about_a_failing_group(crawl, break_stuffing):
    break_stuffing(ValueError("no such thing"))
    with pytest.raises(ValueError, match="no such thing"):
        crawl.stuff()

    break_stuffing(None)
    crawl.stuff()

    assert crawl.offered(crawl.broken)
    assert (troubles_of_cluster(), troubles_of_job(crawl.broken)) == ([], [])
