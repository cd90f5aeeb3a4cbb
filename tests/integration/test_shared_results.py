"""Proves that pages that are read at the same moment share the queries for their common facts."""

from collections import Counter

import pytest
from django.db import connection as django_connection
from django.test.utils import CaptureQueriesContext

from jobs.ui.topics import read_screen
from nodes.database.shared_results import Moment
from tests.support.api import make_job
from tests.support.factories import make_running_job
from tests.support.stepping import Manager

pytestmark = pytest.mark.django_db

OF_NODES = "FROM nodes_node AS node"
OF_COUNTS = "jobs_jobcounter"
# Table of the latest requests. A process caches these requests for some seconds, but not in tests.
OF_REQUESTS = "jobs_activity"


def times(reading, *words):
    """Return the number of statements with each word while `reading` runs."""
    with CaptureQueriesContext(django_connection) as asked:
        reading()
    return [sum(word in query["sql"] for query in asked.captured_queries) for word in words]


@pytest.mark.parametrize(("topics", "word"), [(["overview", "cluster"], OF_NODES), (["overview", "job"], OF_COUNTS)])
def test_pages_read_at_one_moment_share_their_queries(topics, word):
    job = make_job()
    names = [f"job-{job.pk}" if topic == "job" else topic for topic in topics]

    def read_both():
        return [read_screen(name) for name in names]

    def read_both_at_one_moment():
        with Moment().present():
            return read_both()

    (apart,), (together,) = times(read_both, word), times(read_both_at_one_moment, word)

    assert apart > together
    assert [set(screen) for screen in read_both()] == [set(screen) for screen in read_both_at_one_moment()]


def test_the_overview_sends_each_query_once(connection):
    make_running_job(Manager(connection).node)
    with CaptureQueriesContext(django_connection) as asked, Moment().present():
        read_screen("overview")

    statements = Counter(query["sql"] for query in asked.captured_queries if OF_REQUESTS not in query["sql"])
    assert [statement for statement, times_ in statements.items() if times_ > 1] == []


def test_pages_read_at_the_next_moment_show_changes():
    job = make_job("before")
    first, second = Moment(), Moment()
    with first.present():
        read_screen("overview")
    type(job).objects.update(name="after")

    with first.present():
        assert read_screen(f"job-{job.pk}")["name"] == "before"
    with second.present():
        assert read_screen(f"job-{job.pk}")["name"] == "after"
