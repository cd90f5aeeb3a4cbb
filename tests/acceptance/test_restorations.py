"""Proves that restorations by real processes are exact to the byte, also after SIGKILL and a restart."""

from contextlib import contextmanager

import psycopg
from django.utils import timezone

from jobs.models import OutputConnection, Restoration
from jobs.verbs import editing, restoring
from tests.support.processes import read_lines, wait_for

# All columns that a removal changes. The seed's row is left out, because the run that removes documents reads the seed
# again.
COMPARED = {
    "texts": """
        SELECT hash, url, title, description, text, content_type, language, fetched_at
          FROM jobs_searchdocument WHERE hash <> %(hash)s ORDER BY hash
    """,
    "account": "SELECT output_id, hash, version FROM jobs_indexeddocument WHERE hash <> %(hash)s ORDER BY output_id, hash",
    "links": "SELECT hash, targets, is_redirect FROM jobs_outlinks WHERE hash <> %(hash)s ORDER BY hash",
    "documents": """
        SELECT hash, lane_id, identifier, stage, indexed_before, run_no, outcome, result_code, version, validators, depth, redirects,
               fetched_at
          FROM jobs_queueitem WHERE hash <> %(hash)s ORDER BY hash
    """,
}
# Query that locks a document of the second chunk of a restoration.
IN_THE_MIDDLE = """
SELECT FROM jobs_tombstone
 WHERE hash = (SELECT hash FROM jobs_tombstone GROUP BY hash ORDER BY hash OFFSET 700 LIMIT 1)
   FOR UPDATE
"""
WAITS_FOR_A_LOCK = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


def read_compared(database, seed):
    with psycopg.connect(database.dsn) as connection:
        hash_ = connection.execute("SELECT hash FROM jobs_queueitem WHERE identifier = %s", [seed]).fetchone()[0]
        return {name: connection.execute(query, {"hash": hash_}).fetchall() for name, query in COMPARED.items()}


@contextmanager
def hold_second_chunk(database):
    """Hold the restoration in its second chunk: the chunk writes its documents and cannot commit."""
    with psycopg.connect(database.dsn) as connection:
        connection.execute(IN_THE_MIDDLE)
        yield
        connection.rollback()


def test_a_restoration_continues_after_all_processes_were_killed(cluster, serve):
    site = serve(pages=1_200, hosts=1, traps=0)
    daemons = cluster.start("runmanager", "runworker")
    job = cluster.make_job(site, open_requests=8)
    search = OutputConnection.objects.create(name="search", connector="search")
    facts = {"made_by": "a test", "now": timezone.now()}
    editing.change_job(job.pk, outputs=[*job.outputs.all(), search], guard_percent=None, **facts)
    assert cluster.run(job) == "finished"
    before, lines = read_compared(cluster.database, site.start_url), read_lines(cluster.output)
    editing.change_job(job.pk, specification={**job.specification, "exclude": ["[0-9]/."]}, **facts)
    assert cluster.run(job) == "finished"
    assert cluster.database.value("SELECT count(*) FROM jobs_searchdocument") == 1
    requests = site.count_requests()

    with hold_second_chunk(cluster.database):
        wanted = restoring.restore(job.pk, made_by="a test", now=timezone.now())
        chunks = Restoration.objects.filter(pk=wanted.pk, restored=500)
        wait_for(
            lambda: chunks.exists() and cluster.database.value(WAITS_FOR_A_LOCK),
            saying="the second chunk is in progress",
        )
        for daemon in daemons:
            daemon.kill()
    assert Restoration.objects.get(pk=wanted.pk).restored == 500
    cluster.start("runmanager", "runworker")

    done = wait_for(
        lambda: Restoration.objects.filter(pk=wanted.pk, ended_at__isnull=False).first(), saying="the restoration ends"
    )
    assert (done.restored, done.unread, done.refused) == (1_199, 0, "")
    assert read_compared(cluster.database, site.start_url) == before
    last = {line["url"]: line for line in read_lines(cluster.output)}
    first = {line["url"]: line for line in lines}
    assert {**last, site.start_url: None} == {**first, site.start_url: None}
    assert site.count_requests() == requests
