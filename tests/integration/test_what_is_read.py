"""
No page, list or duty reads more of a big table than it shows, on a queue of many documents.

Each statement is explained as it runs, and what PostgreSQL says that it read counts: rows that were given, and rows
that a filter threw away. So a count, an offset, a sort and a scan are found in whatever words they are written.
"""

import json

import psycopg
import pytest
from django.db import connection as django_connection
from django.urls import get_resolver

from jobs.duties.check import ASTRAY
from jobs.lifecycle.document import Stage
from jobs.loops.loop import calls
from jobs.loops.manager import MAIN_DUTIES, OWNER_DUTIES
from jobs.queries.documents import STATES
from nodes.lifecycle import CLUSTER_SCOPE
from tests.api import client_of
from tests.filled_queue import FilledQueue, Shape

DOCUMENTS = 30_000
# A third of them is done, some hundred have failed, and what nothing is in is known without looking. (Of a few that no
# index knows among many, a list ends after five seconds, and says what would narrow it.)
# What may be read of a big table by one statement. Lists show 50 and 100, and a host has a few lanes.
A_LOT = 2_000
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

# Reports are about all that happened in a stretch of time, and end after 15 s at the latest.
_REPORTS = "reports/"
_LISTS = [
    "",
    "documents/",
    *(f"documents/?state={state}" for state in STATES),
    "documents/?host=h7.example",
    "nodes/",
    "hosts/",
    "hosts/denied/",
    "cluster/",
    "search/?q=word",
    "reports/queue/",
    "admin/jobs/job/",
    "admin/jobs/throttlepolicy/",
    "api/v1/jobs/",
    "api/v1/seeds/",
    "api/v1/job-events/",
    "api/v1/policies/",
    "api/v1/documents/",
    *(f"api/v1/documents/?state={stage.name.lower()}" for stage in Stage),
    "api/v1/documents/?outcome=failed",
    "api/v1/groups/",
    "api/v1/cluster/requests/",
    "api/v1/nodes/",
    "api/v1/bins/",
    "api/v1/deny-list/",
    "api/v1/node-events/",
    "api/v1/search/?q=word",
    "api/v1/reports/queue/",
]

_MORE = [
    """
    WITH done AS (
        UPDATE jobs_queueitem
           SET stage = 2, seq = NULL, outcome = CASE WHEN substr(hash::text, 1, 2) = '7f' THEN 3 ELSE 1 END,
               result_code = CASE WHEN substr(hash::text, 1, 2) = '7f' THEN '500' ELSE '200' END
         WHERE substr(hash::text, 2, 1) < '5' OR substr(hash::text, 1, 2) = '7f'
        RETURNING job_id, lane_id, outcome, result_code
    )
    INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
    SELECT job_id, lane_id, 1, 'stage', 2, outcome, result_code, count(*) FROM done GROUP BY 1, 2, 6, 7
    """,
    """
    INSERT INTO jobs_outlinks (hash, job_id, targets, is_redirect)
    SELECT hash, job_id, ARRAY[hash], false FROM jobs_queueitem
    """,
    """
    INSERT INTO jobs_batch (group_id, node_scope, kind, state, documents, created_at)
    SELECT (SELECT id FROM jobs_throttlegroup LIMIT 1), 'cluster', 'process', 'done', 32, now()
      FROM generate_series(1, 20000)
    """,
    """
    INSERT INTO jobs_turn (batch_id, lane_id, bin_id, documents, requests, gap, closed_at)
    SELECT id, 1, 1, 32, 1, 0, now() FROM jobs_batch
    """,
    """
    INSERT INTO jobs_jobevent (job_id, job_name, at, kind, made_by, message, detail)
    SELECT job_id, 'a job', now() - n * interval '1 s', 'start', 'a test', 'started', '{}'
      FROM generate_series(1, 5000) AS n, (SELECT min(id) AS job_id FROM jobs_job) AS job
    """,
    """
    INSERT INTO nodes_nodeevent (node_id, scope, kind, message, at)
    SELECT (SELECT id FROM nodes_node LIMIT 1), 'cluster', 'started', 'started', now() - n * interval '1 s'
      FROM generate_series(1, 10000) AS n
    """,
]


@pytest.fixture
def queue(connection):
    filled = FilledQueue(connection, documents=DOCUMENTS, shape=Shape(bins=1_000))
    for statement in _MORE:
        connection.execute(statement)
    connection.execute("ANALYZE")
    return filled


def rows_read(plan):
    """Of each big table, how many rows of it this plan has read."""
    found = {}

    def look(node):
        table = node.get("Relation Name")
        if table in BIG and node["Node Type"] != "ModifyTable":
            thrown_away = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
            read = (node["Actual Rows"] + thrown_away) * node["Actual Loops"]
            found[table] = max(found.get(table, 0), read)
        for below in node.get("Plans", ()):
            look(below)

    look(plan)
    return found


def explain(text, params):
    with psycopg.Cursor(django_connection.connection) as cursor:
        found = cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) {text}", params).fetchone()[0]
    return (found if isinstance(found, list) else json.loads(found))[0]["Plan"]


class Reader:
    """Notes of each statement that Django executes what it read too much of."""

    def __init__(self):
        self.statements, self.excesses = 0, []

    def __call__(self, execute, text, params, many, context):
        if isinstance(text, str) and text.lstrip().upper().startswith(_READS):
            self.statements += 1
            read = {table: rows for table, rows in rows_read(explain(text, params)).items() if rows > A_LOT}
            if read:
                self.excesses.append((read, " ".join(text.split())[:300]))
        return execute(text, params, many, context)


def test_no_page_and_no_list_reads_more_than_it_shows(queue):
    administrator = client_of("administrator")
    job = min(queue.facts)
    reader = Reader()

    with django_connection.execute_wrapper(reader):
        for path in [*_LISTS, f"jobs/{job}/", f"api/v1/jobs/{job}/", f"api/v1/jobs/{job}/counts/"]:
            answer = administrator.get(f"/{path}")
            assert answer.status_code == 200, path
            excesses, reader.excesses = reader.excesses, []
            assert not excesses, f"/{path} reads {excesses}"

    assert reader.statements > 50


def test_no_question_of_a_duty_reads_more_than_what_is_under_way(queue):
    facts = {"me": queue.manager.id, "scope": CLUSTER_SCOPE, "now": queue.now()}

    plan = explain_on(queue.connection, f"SELECT {calls(OWNER_DUTIES)}, {calls(MAIN_DUTIES)}", facts)

    assert {table: rows for table, rows in rows_read(plan).items() if rows > A_LOT} == {}


def explain_on(connection, text, params):
    return connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) {text}", params).fetchone()[0][0]["Plan"]


@pytest.mark.parametrize("invariant", list(ASTRAY))
def test_no_check_of_an_invariant_reads_the_queue(queue, invariant):
    plan = explain_on(queue.connection, ASTRAY[invariant], {"draw": 0.5})

    assert rows_read(plan).get("jobs_queueitem", 0) <= 20 * 5_000


def test_every_list_of_the_api_is_looked_at():
    lists = {path.split("?")[0] for path in _LISTS}

    missing = {
        path
        for path in list_addresses(get_resolver())
        if path.startswith("api/v1/") and not path.startswith("api/v1/reports/") and path not in lists
    }

    of_no_rows = {"api/v1/", "api/v1/schema/", "api/v1/docs/", "api/v1/token/"}
    asked_with_post = {
        "api/v1/policies/preview/",
        "api/v1/cluster/rebalance/",
        "api/v1/bins/stop/",
        "api/v1/deny-list/remove/",
    }
    of_few_rows = {"api/v1/repositories/", "api/v1/outputs/", "api/v1/settings/", "api/v1/settings/versions/"}
    assert missing <= of_no_rows | asked_with_post | of_few_rows


def list_addresses(resolver, before=""):
    for pattern in resolver.url_patterns:
        path = before + str(pattern.pattern).lstrip("^").rstrip("$")
        if hasattr(pattern, "url_patterns"):
            yield from list_addresses(pattern, path)
        elif "<" not in path and "(" not in path:
            yield path
