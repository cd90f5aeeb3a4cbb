"""
Proves that no page, list or duty reads many more rows of a big table than it shows, even if the queue is long.

Each statement is explained as it runs. The test counts the rows that PostgreSQL returned from a table, and the rows
that a filter removed. So it finds each count, offset, sort or scan that reads too many rows.
"""

import copy
import json
import re
from contextlib import contextmanager

import psycopg
import pytest
from django.db import connection as django_connection
from django.test.utils import CaptureQueriesContext

from jobs.connectors.repository.base import hash_of
from jobs.duties import allocate
from jobs.duties.check import VIOLATIONS
from jobs.duties.connectors import WATCHED_JOBS
from jobs.duties.finish import JOBS_WITHOUT_CLAIMS
from jobs.duties.history import HISTORIES_TO_CLEAR
from jobs.duties.reseed import JOBS_TO_RESEED
from jobs.duties.transient_jobs import PASSING_JOBS
from jobs.duties.windows import SCHEDULED_JOBS
from jobs.loops.loop import calls
from jobs.loops.manager.duty_tables import MAIN_DUTIES, OWNER_DUTIES
from jobs.models import Job, QueueItem
from jobs.queries.documents import conditions
from jobs.queue.sql.arrays import register_arrays
from nodes.lifecycle import CLUSTER_SCOPE
from tests.support.addresses import addresses
from tests.support.api import client_of
from tests.support.crowd import bring_in
from tests.support.filled_queue import FilledQueue, Shape
from tests.support.processes import copy_of
from tests.support.tables import each_row

DOCUMENTS = 30_000
# Number of rows in each other table that pages list or offer for selection.
MANY = 4_000
# Number of rows that a statement may read of a big table. Lists show 50 and 100 rows, and a host has a few lanes. A
# third of the documents are done, and some hundred have failed. A state without documents needs no read. (A list of few
# documents among many, without an index, ends after five seconds with a hint.)
A_LOT = 3_500
BIG = {
    "jobs_queueitem",
    "jobs_outlinks",
    "jobs_indexeddocument",
    "jobs_searchdocument",
    "jobs_batch",
    "jobs_turn",
    "jobs_jobevent",
    "nodes_nodeevent",
}
_READS = ("SELECT", "WITH", "(SELECT")

# Tables that are read whole: groups, since the main manager reads each in every
# pass, and texts that match a query, of which a bounded number is ranked.
_READ_WHOLE = {"jobs_throttlegroup", "jobs_searchdocument"}
# Addresses to which this rule does not apply: reports over a time range (they
# end after at most 15 s), metrics (read once in 5 s for all clients), addresses that send no statement of ours or
# change something, and the history of Django's admin.
_OTHERS = frozenset(
    {
        "reports/",
        "api/v1/reports/",
        "metrics",
        "manual/",
        "api/v1/schema/",
        "api/v1/docs/",
        "login/",
        "logout/",
        "admin/login/",
        "admin/logout/",
        "admin/autocomplete/",
    }
)
_OF_DJANGO = "/history/"
# Limits of a page: its number of statements, however many rows exist, and its number of characters, with a few rows in
# each list.
_STATEMENTS = 40
_LONGEST = 400_000
# Addresses of one job show all its seeds. A list of jobs does not.
_ALL_SEEDS = re.compile(r"/api/v1/jobs/\d+/")


@pytest.fixture(scope="module")
def filled(template, django_db_blocker):
    """Return a database with a long queue, and the queue. Both are made once, because that takes some seconds."""
    with django_db_blocker.unblock(), copy_of(template) as database:
        with database.as_django(), psycopg.connect(database.dsn, autocommit=True) as connection:
            register_arrays(connection)
            queue = FilledQueue(connection, documents=DOCUMENTS, shape=Shape(bins=1_000))
            bring_in(connection, many=MANY)
        yield database, queue


@pytest.fixture
def queue(filled, django_db_blocker):
    """Return the queue in a database that only this test uses."""
    with django_db_blocker.unblock(), copy_of(filled[0]) as own, own.as_django(), _queue_in(own, filled[1]) as queue:
        yield queue


@pytest.fixture
def administrator(queue):
    return client_of("administrator")


@pytest.fixture
def read_queue(filled):
    """Return the queue in the database of all these tests, which may only be read."""
    with _queue_in(*filled) as queue:
        queue.connection.execute("SET default_transaction_read_only = on")
        yield queue


@contextmanager
def _queue_in(database, made):
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        register_arrays(connection)
        queue = copy.copy(made)
        queue.connection = connection
        yield queue


def rows_read(plan, of=frozenset(BIG)):
    """Return the number of rows of each big table that this plan has read."""
    found = {}

    def look(node):
        table = node.get("Relation Name")
        if table in of and node["Node Type"] != "ModifyTable":
            thrown_away = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
            read = (node["Actual Rows"] + thrown_away) * node["Actual Loops"]
            found[table] = max(found.get(table, 0), read)
        for below in node.get("Plans", ()):
            look(below)

    look(plan)
    return found


def tables_read_whole(plan):
    """Return the tables that a plan reads from their first row to their last."""
    mine = {plan["Relation Name"]} if plan["Node Type"] == "Seq Scan" else set()
    return mine.union(*(tables_read_whole(below) for below in plan.get("Plans", ())))


def explain(text, params):
    with psycopg.Cursor(django_connection.connection) as cursor:
        found = cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) {text}", params).fetchone()[0]
    return (found if isinstance(found, list) else json.loads(found))[0]["Plan"]


class Reader:
    """
    Explains each statement of Django, and records the tables of which it read too many rows.

    A statement with the same parameters is explained once: it reads the same rows each time, since nothing changes them.
    """

    def __init__(self, *, of=frozenset(BIG)):
        self.of, self.statements, self.excesses, self.read_whole = of, 0, [], set()
        self._plans = {}

    def __call__(self, execute, text, params, many, context):
        if isinstance(text, str) and text.lstrip().upper().startswith(_READS):
            self.statements += 1
            plan = self._plan(text, params)
            self.read_whole |= tables_read_whole(plan)
            read = {table: rows for table, rows in rows_read(plan, self.of).items() if rows > A_LOT}
            if read:
                self.excesses.append((read, " ".join(text.split())[:300]))
        return execute(text, params, many, context)

    def _plan(self, text, params):
        asked = text, repr(params)
        if asked not in self._plans:
            self._plans[asked] = explain(text, params)
        return self._plans[asked]


def test_no_page_or_list_reads_many_more_rows_than_it_shows(queue, administrator):
    reader = Reader(of=_large_tables(queue.connection) - _READ_WHOLE)
    answered, wrong = [], []

    with django_connection.execute_wrapper(reader):
        for path in addresses(queue.connection, but=_OTHERS):
            if path.endswith(_OF_DJANGO):
                continue
            reader.statements, reader.excesses = 0, []
            answer = administrator.get(path)
            assert answer.status_code != 500, path
            if reader.excesses:
                wrong.append(f"{path} reads {reader.excesses}")
            if reader.statements > _STATEMENTS:
                wrong.append(f"{path} asks {reader.statements} times")
            if len(answer.content) > _LONGEST and not _ALL_SEEDS.match(path):
                wrong.append(f"{path} has {len(answer.content)} characters")
            if answer.status_code == 200:
                answered.append(path)

    assert not wrong, "\n".join(wrong)
    assert len(answered) > 120


@each_row("things", ["jobs", "policies", "repositories", "outputs", "nodes"])
def test_searched_and_ordered_lists_read_only_the_rows_they_show(queue, administrator, things):
    reader = Reader(of=_large_tables(queue.connection))
    newest = "started_at" if things == "nodes" else "name"
    word = administrator.get(f"/api/v1/{things}/?ordering=-{newest}").json()["results"][0]["name"].split()[0]

    with django_connection.execute_wrapper(reader):
        for query in (
            f"search={word}",
            f"search={word[:4]}",
            "search=nothing",
            f"ordering={newest}",
            f"ordering=-{newest}",
        ):
            answer = administrator.get(f"/api/v1/{things}/?{query}")

            assert answer.status_code == 200, answer.content
            assert bool(answer.json()["results"]) == (query != "search=nothing"), query
            assert reader.excesses == [], query


def test_documents_are_found_by_their_address_among_many(administrator):
    one = QueueItem.objects.order_by("hash").first()
    url, beginning = one.identifier, f"http://{one.lane.bin.name}/"
    QueueItem.objects.filter(hash=one.hash, job=one.job_id).update(hash=hash_of(url))
    reader = Reader()

    with django_connection.execute_wrapper(reader):
        by_address = administrator.get("/api/v1/documents/", {"url": url}).json()["results"]
        by_beginning = administrator.get("/api/v1/documents/", {"url_begins": beginning}).json()["results"]

    assert [document["url"] for document in by_address] == [url]
    assert all(document["url"].startswith(beginning) for document in by_beginning)
    assert by_beginning
    assert reader.excesses == []


def test_an_address_is_explained_by_indexes_among_many(administrator):
    one, page = QueueItem.objects.filter(stage=0, seq__isnull=False).order_by("hash")[:2]
    url = one.identifier
    QueueItem.objects.filter(hash=page.hash, job=page.job_id).update(found_on=page.hash, job=one.job_id)
    QueueItem.objects.filter(hash=one.hash, job=one.job_id).update(hash=hash_of(url), found_on=page.hash)
    reader = Reader()

    with django_connection.execute_wrapper(reader):
        answer = administrator.get("/api/v1/explain/", {"url": url}).json()
        asked = reader.statements
        forecast = administrator.get("/api/v1/explain/", {"url": f"{url}/unknown"}).json()

    assert answer["is_known"]
    assert [step["url"] for step in answer["jobs"][0]["path"]] == [page.identifier]
    assert not forecast["is_known"]
    assert reader.excesses == []
    assert asked <= _STATEMENTS
    assert reader.statements - asked <= _STATEMENTS
    assert reader.read_whole & {"jobs_queueitem", "jobs_outlinks", "jobs_indexeddocument"} == set()


def test_documents_of_a_host_with_very_many_lanes_are_found_by_an_index(queue, monkeypatch):
    monkeypatch.setattr(conditions, "FEW_LANES", 0)
    client = client_of("administrator")

    with CaptureQueriesContext(django_connection) as executed:
        answer = client.get("/api/v1/documents/?host=h7.example")

    assert {document["host"] for document in answer.json()["results"]} == {"h7.example"}
    (listing,) = [query["sql"] for query in executed if 'FROM "jobs_queueitem"' in query["sql"]]
    assert _indexes_of("jobs_bin", explain(listing, None)) == {"bin_by_name"}


def _indexes_of(table, plan):
    """Return the names of the indexes by which a plan finds rows of a table."""
    mine = {plan.get("Index Name")} if plan.get("Relation Name") == table else set()
    return mine.union(*(_indexes_of(table, below) for below in plan.get("Plans", ())))


def _large_tables(connection):
    found = connection.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND reltuples > %s",
        [A_LOT],
    ).fetchall()
    return {row[0] for row in found}


def test_conditions_of_duties_read_only_active_rows(read_queue):
    facts = {"me": read_queue.manager.id, "scope": CLUSTER_SCOPE, "now": read_queue.now()}

    plan = explain_on(read_queue.connection, f"SELECT {calls(OWNER_DUTIES)}, {calls(MAIN_DUTIES)}", facts)

    assert {table: rows for table, rows in rows_read(plan).items() if rows > A_LOT} == {}


def test_checks_that_are_repeated_for_running_jobs_read_no_other_jobs(read_queue):
    facts = {"scope": CLUSTER_SCOPE, "now": read_queue.now()}

    for query in (JOBS_WITHOUT_CLAIMS, PASSING_JOBS):
        plan = explain_on(read_queue.connection, query, facts)

        assert rows_read(plan, {"jobs_job"}) == {"jobs_job": pytest.approx(0, abs=len(read_queue.facts))}


def test_duties_find_their_rows_among_very_many_jobs_and_connections(queue):
    Job.objects.filter(phase="inactive").update(start_method="window_begin", schedule_due_at="2100-01-01T00:00Z")
    queue.connection.execute("ANALYZE jobs_job, jobs_repositoryconnection, jobs_outputconnection")
    facts = {"scope": CLUSTER_SCOPE, "now": queue.now()}
    of = {"jobs_job", "jobs_repositoryconnection", "jobs_outputconnection"}

    for query in (SCHEDULED_JOBS, HISTORIES_TO_CLEAR, WATCHED_JOBS):
        plan = explain_on(queue.connection, query, facts)

        assert {table: rows for table, rows in rows_read(plan, of).items() if rows > len(queue.facts)} == {}, query


def test_running_jobs_are_checked_again_only_after_a_change_of_seeds(queue):
    Job.objects.update(phase="active", pause="no", run_no=1, reseed_at="2100-01-01T00:00Z", ungrouped=0, unread=0)
    Job.objects.order_by("pk").last().seeds.create(urls=["http://new.example/"])
    queue.connection.execute("VACUUM ANALYZE jobs_job")
    facts = {"scope": CLUSTER_SCOPE, "now": queue.now()}

    for query in (allocate._MARKED, JOBS_TO_RESEED):
        plan = explain_on(queue.connection, query, facts)

        assert plan["Actual Rows"] == 1
        assert rows_read(plan, {"jobs_job", "jobs_seed"}) == {"jobs_job": 1}, query


def test_the_check_for_a_leaving_owner_does_not_read_each_group(read_queue):
    plan = explain_on(read_queue.connection, f"SELECT {allocate._OWNERS_LEAVE}", {"scope": CLUSTER_SCOPE})

    read = rows_read(plan, {"jobs_throttlegroup", "nodes_node"})
    assert read["jobs_throttlegroup"] <= 10
    assert read["nodes_node"] <= 10


def explain_on(connection, text, params):
    return connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) {text}", params).fetchone()[0][0]["Plan"]


@each_row("invariant", list(VIOLATIONS))
def test_no_check_of_an_invariant_reads_the_queue(read_queue, invariant):
    plan = explain_on(read_queue.connection, VIOLATIONS[invariant], {"draw": 0.5})

    assert rows_read(plan).get("jobs_queueitem", 0) <= 20 * 5_000
