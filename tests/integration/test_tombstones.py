"""
Proves that a restoration returns removed documents to every output in one step, without a request, unchanged.
"""

import os
import sys
import time

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.models import F

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, VIEWER
from jobs.connectors.output.registry import open_output
from jobs.lifecycle.job import Kind, Phase, RunEnd
from jobs.loops.restoring import perform_restoration
from jobs.models import (
    IndexedDocument,
    Job,
    OutLinks,
    OutputConnection,
    PartitionedJob,
    QueueItem,
    Restoration,
    SearchDocument,
)
from jobs.partitions.facts import send_fact
from jobs.partitions.placement import SLOTS
from jobs.partitions.slots import KEY, SlotMap
from jobs.queue.removing.clear_output import clear_some
from jobs.queue.removing.orphans import drop_orphans
from jobs.verbs import connections, control, editing, restoring
from nodes.errors import Refused
from tests.integration.test_against_an_oracle import UNSOUND
from tests.support.api import client_of, make_user
from tests.support.cluster import NOON, seconds
from tests.support.factories import make_output
from tests.support.guarded_site import GuardedSite
from tests.support.partitions import be_partition
from tests.support.processes import held_by, read_lines

_TEXTS = "SELECT hash, url, title, description, text, content_type, language, metadata, fetched_at FROM jobs_searchdocument ORDER BY hash"
_ITEMS = """
SELECT hash, lane_id, identifier, stage, indexed_before, run_no, outcome, result_code, version, validators, depth, redirects
  FROM jobs_queueitem ORDER BY hash
"""
_LINKS = "SELECT hash, targets, is_redirect FROM jobs_outlinks ORDER BY hash"
_ACCOUNT = "SELECT output_id, hash, version FROM jobs_indexeddocument ORDER BY output_id, hash"


# Columns that a removal and its restore must leave unchanged, by table.
FILLED = {
    "jobs_searchdocument": "hash, url, title, description, text, content_type, language, fetched_at",
    "jobs_queueitem": "hash, lane_id, identifier, stage, indexed_before, outcome, result_code, version, validators, depth, redirects",
    "jobs_outlinks": "hash, targets, is_redirect",
    "jobs_indexeddocument": "output_id, hash, version",
}
DOCUMENTS = int(os.environ.get("CRAWLCTL_TEST_DOCUMENTS", "2000"))
_FILL = """
WITH root AS (SELECT * FROM jobs_queueitem WHERE identifier LIKE '%%/root'), made AS (
    SELECT n, md5(n::text)::uuid AS hash, 'scripted://here/more' || n AS url FROM generate_series(1, %(documents)s) AS n
), items AS (
    INSERT INTO jobs_queueitem (hash, job_id, lane_id, identifier, stage, indexed_before, rescan, run_no, action, outcome, result_code,
                                version, validators, depth)
    SELECT made.hash, root.job_id, root.lane_id, url, 2, true, false, root.run_no, 0, 1, 'OK', '1:' || md5(url), '"' || n || '"', 1
      FROM made, root
), links AS (
    INSERT INTO jobs_outlinks (hash, job_id, targets, is_redirect)
    SELECT made.hash, root.job_id, ARRAY[md5((n + 1)::text)::uuid, root.hash], false FROM made, root
), held AS (
    INSERT INTO jobs_indexeddocument (output_id, hash, version, indexed_at)
    SELECT %(output)s, hash, '1:' || md5(url), now() FROM made
), counted AS (
    INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
    SELECT job_id, lane_id, run_no, 'stage', 2, 1, 'OK', %(documents)s FROM root
)
INSERT INTO jobs_searchdocument (output_id, hash, url, title, description, text, content_type, language, fetched_at, written_at)
SELECT %(output)s, hash, url, 'Ünïcode ' || n, '', repeat(md5(n::text) || E' \\u2028 words\n', 40), 'text/html', 'de', now(), now()
  FROM made
"""


def fill(site, *, documents):
    """Add `documents` documents of about 2 KB each to the search output."""
    Job.objects.get(pk=site.job_id).outputs.set([site.search])
    IndexedDocument.objects.exclude(output=site.search).delete()
    site.cluster.connection.execute(_FILL, {"documents": documents, "output": site.search.pk})


def checksum(site, table):
    query = f"SELECT count(*), md5(string_agg(md5(ROW({FILLED[table]})::text), '' ORDER BY hash)) FROM {table}"
    return site.cluster.connection.execute(query).fetchone()


class Snapshot:
    """A snapshot of all rows, texts and lines that a removal deletes."""

    def __init__(self, site):
        run = site.cluster.connection.execute
        self.texts, self.items, self.links, self.account = (
            run(query).fetchall() for query in (_TEXTS, _ITEMS, _LINKS, _ACCOUNT)
        )


@pytest.fixture
def file(tmp_path):
    return tmp_path / "out.jsonl"


@pytest.fixture
def site(connection, world, file):
    site = GuardedSite(connection, world, guard_percent=None, outputs=[make_output(file)])
    site.run()
    return site


def bring_back(site, **facts):
    return perform_restoration(restoring.restore(site.job_id, made_by="operator", now=site.cluster.clock.at, **facts))


def assert_is_sound(site):
    for about, query in UNSOUND.items():
        assert site.cluster.connection.execute(query).fetchall() == [], about


def test_documents_that_a_clean_up_removed_are_restored_unchanged(site, file):
    site.put_root(links=site.pages[:5])
    site.run()
    lost = set(site.pages[5:])
    assert site.held == site.everything - lost
    requests_before = len(site.world.log())

    done = bring_back(site)

    assert (done.restored, done.unread, done.refused) == (25, 0, "")
    assert site.held == site.everything
    assert held_by(file) == {f"scripted://here/{name}" for name in site.everything}
    assert len(site.world.log()) == requests_before
    assert_is_sound(site)


def test_a_restoration_returns_texts_lines_links_and_rows_byte_by_byte(site, file):
    before, lines = Snapshot(site), read_lines(file)
    site.world.remove("root")
    site.run()
    assert site.held == set()

    bring_back(site)

    after = Snapshot(site)
    assert after.texts == before.texts
    assert after.account == before.account
    assert after.links == before.links
    pages = {row[0] for row in before.items if not row[2].endswith("root")}
    assert [row for row in after.items if row[0] in pages] == [row for row in before.items if row[0] in pages]
    written = {line["url"]: line for line in lines}
    assert {line["url"]: line for line in read_lines(file, since=len(lines)) if line["action"] == "add"} == written


def test_a_restoration_returns_many_documents_byte_by_byte(site, capsys):
    """
    An environment variable sets the number of documents. With 100,000, the test gives the figure of docs/removals.md.
    """
    fill(site, documents=DOCUMENTS)
    before = {table: checksum(site, table) for table in FILLED}
    began = time.monotonic()
    Job.objects.filter(pk=site.job_id).update(phase=Phase.SHUTTING_DOWN, run_no=F("run_no") + 1)
    control.wake_job(site.cluster.connection, job_id=site.job_id, now=site.cluster.clock.at)
    while QueueItem.objects.exists():
        site.cluster.work()
    removed = time.monotonic()
    site.halt()
    assert SearchDocument.objects.count() == 0

    done = bring_back(site)

    took = f"{removed - began:.1f} s to remove, {time.monotonic() - removed:.1f} s to bring back"
    with capsys.disabled():
        sys.stdout.write(f"{done.restored:,} documents: {took}\n")
    assert done.restored == DOCUMENTS + 31
    assert {table: checksum(site, table) for table in FILLED} == before


def test_half_of_a_site_that_was_lost_for_an_hour_returns_in_one_step(site):
    for page in site.pages[:15]:
        site.world.remove(page)
    site.run()
    assert site.held == site.everything - set(site.pages[:15])

    assert bring_back(site).restored == 15

    assert site.held == site.everything
    assert_is_sound(site)


def test_the_next_run_continues_with_released_documents(site):
    site.put_root(links=site.pages[:5])
    site.run()
    bring_back(site)
    site.put_root(text="another text")

    job = site.run()

    assert job.run_end == RunEnd.FINISHED
    assert site.held == site.everything
    assert set(QueueItem.objects.filter(job=job).values_list("run_no", flat=True)) == {3}
    assert_is_sound(site)


def test_a_restoration_does_not_overwrite_a_document_reread_meanwhile(site):
    site.put_root(links=site.pages[5:])
    site.run()
    site.world.put("page0", text="a newer text")
    site.put_root()
    site.run()

    bring_back(site, run_no=2)

    assert SearchDocument.objects.get(url="scripted://here/page0").text == "a newer text"
    assert_is_sound(site)


def test_documents_of_a_host_that_has_moved_to_another_partition_are_left_out(site, settings, connection):
    site.put_root(links=site.pages[:5])
    site.run()
    be_partition(settings, "a")
    PartitionedJob.objects.create(job_id=site.job_id, number=7)
    send_fact(connection, "a", "a", KEY, SlotMap(1, ("b",) * SLOTS).as_json())
    before = QueueItem.objects.count()

    bring_back(site)

    assert QueueItem.objects.count() == before
    assert Restoration.objects.get().ended_at is not None


def test_an_interrupted_restoration_continues(site, monkeypatch):
    monkeypatch.setattr("jobs.queue.removing.restore._AT_ONCE", 4)
    site.world.remove("root")
    site.run()
    wanted = restoring.restore(site.job_id, made_by="operator", now=NOON)
    real, calls = SearchDocument.objects.count, []

    class Killed(Exception):
        pass

    def dies(done):
        calls.append(done)
        if len(calls) == 3:
            raise Killed

    with pytest.raises(Killed):
        perform_restoration(wanted, report=dies)
    assert 0 < real() < 31

    done = perform_restoration(wanted)

    assert (done.restored, site.held) == (31, site.everything)
    assert_is_sound(site)


def test_a_document_whose_text_is_lost_is_read_again_in_the_next_run(site, file):
    Job.objects.get(pk=site.job_id).outputs.remove(site.search)
    site.put_root(links=site.pages[:5])
    site.run()
    file.unlink()

    done = bring_back(site)

    assert (done.restored, done.unread) == (0, 25)
    site.put_root()
    site.run()
    assert {f"scripted://here/{name}" for name in site.pages[5:]} <= held_by(file)


def test_expired_documents_return_and_are_checked_again(connection, world):
    site = GuardedSite(connection, world, kind=Kind.CONTINUOUS, expire_after=seconds(100))
    site.ask("start")
    for _ in range(20):
        site.cluster.work()
    assert site.held == site.everything
    site.cluster.let_pass(200)
    for _ in range(20):
        site.cluster.work()
    assert site.held == set()

    bring_back(site)

    assert site.held == site.everything
    assert not QueueItem.objects.filter(check_time=None).exists()
    assert_is_sound(site)


def clear(site, output):
    site.cluster.let_pass(1)
    connections.clear(output.pk, made_by="administrator", now=site.cluster.clock.at)


def clear_outputs(site):
    """Let a worker clear outputs, and remove documents that no job keeps there."""
    for step in (clear_some, drop_orphans):
        while step(site.cluster.connection, opens=open_output, apart_from=frozenset()).output is not None:
            pass


def remove_output(site, output):
    editing.change_job(
        site.job_id, outputs=[one for one in site.job.outputs.all() if one != output], made_by="operator", now=NOON
    )


def restore_output(site, output):
    return perform_restoration(restoring.restore_output(site.job_id, output.pk, made_by="operator", now=NOON))


@pytest.mark.parametrize("at_once", [7, 500])
def test_an_output_that_was_cleared_comes_back_byte_by_byte(site, file, monkeypatch, at_once):
    monkeypatch.setattr("jobs.queue.removing.clear_output._AT_ONCE", at_once)
    before, lines, requests_before = Snapshot(site), read_lines(file), len(site.world.log())
    other = OutputConnection.objects.get(connector="jsonl")
    for output in (site.search, other):
        clear(site, output)
    clear_outputs(site)
    assert (site.held, held_by(file)) == (set(), set())

    for output in (site.search, other):
        (wanted,) = restoring.restore_cleared(output.pk, made_by="administrator", now=NOON)
        assert perform_restoration(wanted).restored == 31

    after = Snapshot(site)
    assert (after.texts, after.account, after.items, after.links) == (
        before.texts,
        before.account,
        before.items,
        before.links,
    )
    written = {line["url"]: line for line in lines}
    last = {line["url"]: line for line in read_lines(file)}
    assert last == written
    assert len(site.world.log()) == requests_before
    assert_is_sound(site)


def test_a_restoration_ends_a_clearing_in_progress(site, monkeypatch):
    monkeypatch.setattr("jobs.queue.removing.clear_output._AT_ONCE", 7)
    clear(site, site.search)
    clear_some(site.cluster.connection, opens=open_output, apart_from=frozenset())
    assert len(site.held) == 24

    (wanted,) = restoring.restore_cleared(site.search.pk, made_by="administrator", now=NOON)
    clear_outputs(site)
    perform_restoration(wanted)

    assert site.held == site.everything


def test_an_output_removed_from_a_job_is_restored_with_its_documents(site):
    before = Snapshot(site)
    remove_output(site, site.search)
    clear_outputs(site)
    assert site.held == set()

    done = restore_output(site, site.search)

    assert done.restored == 31
    assert site.search in site.job.outputs.all()
    assert Snapshot(site).texts == before.texts
    site.world.put("page0", text="a newer text")
    assert site.run().run_end == RunEnd.FINISHED
    assert SearchDocument.objects.get(url="scripted://here/page0").text == "a newer text"
    assert_is_sound(site)


def test_a_restored_output_keeps_documents_written_after_its_clearing(site):
    clear(site, site.search)
    clear_outputs(site)
    site.world.put("page0", text="a newer text")
    site.run()
    assert site.held == site.everything

    assert restore_output(site, site.search).restored == 0

    assert SearchDocument.objects.get(url="scripted://here/page0").text == "a newer text"
    assert_is_sound(site)


def test_removals_of_a_run_and_of_a_clearing_are_restored_separately(site):
    site.put_root(links=site.pages[5:])
    site.run()
    clear(site, site.search)
    clear_outputs(site)

    assert restore_output(site, site.search).restored == 26
    assert site.held == site.everything - set(site.pages[:5])
    assert bring_back(site).restored == 5

    assert site.held == site.everything


def test_an_output_that_lost_nothing_cannot_be_restored(site):
    with pytest.raises(Refused, match="has no documents that were removed from output search"):
        restoring.restore_output(site.job_id, site.search.pk, made_by="operator", now=NOON)
    with pytest.raises(Refused, match="was not cleared"):
        restoring.restore_cleared(site.search.pk, made_by="operator", now=NOON)


def test_outputs_are_restored_by_api_page_and_command(site, client, capsys):
    operator, administrator = client_of(OPERATOR), client_of(ADMINISTRATOR)
    client.force_login(User.objects.get(username="a administrator"))
    address = f"/api/v1/jobs/{site.job_id}"
    clear(site, site.search)
    clear_outputs(site)

    (shown,) = operator.get(f"{address}/removals/").json()["outputs"]
    assert (shown["output"], shown["documents"], shown["was_taken_away"]) == (site.search.pk, 31, False)
    assert "Output search, cleared" in client.get(f"/jobs/{site.job_id}/removals/").content.decode()
    assert operator.post(f"/api/v1/outputs/{site.search.pk}/restore/").status_code == 403
    assert administrator.post(f"/api/v1/outputs/{site.search.pk}/restore/").json()[0]["output"] == site.search.pk
    perform_restoration(Restoration.objects.latest("pk"))
    assert site.held == site.everything

    remove_output(site, site.search)
    clear_outputs(site)
    both = {"output": site.search.pk, "run_no": 1}
    assert operator.post(f"{address}/restore/", both, format="json").status_code == 400
    assert operator.post(f"{address}/restore/", {"output": site.search.pk}, format="json").status_code == 202
    perform_restoration(Restoration.objects.latest("pk"))
    assert site.held == site.everything

    clear(site, site.search)
    clear_outputs(site)
    client.post(f"/jobs/{site.job_id}/restore/", {"output": site.search.pk})
    perform_restoration(Restoration.objects.latest("pk"))
    assert site.held == site.everything

    clear(site, site.search)
    clear_outputs(site)
    call_command("restore", "site", "--output", "search")
    assert "restored documents: 31" in capsys.readouterr().out
    assert site.held == site.everything


def test_a_job_that_was_deleted_by_mistake_is_restored_with_all_documents(site, file):
    before = Snapshot(site)
    job = site.job
    site.ask("delete")
    for _ in range(60):
        site.cluster.work()
    assert (Job.objects.count(), SearchDocument.objects.count(), QueueItem.objects.count()) == (0, 0, 0)

    done = perform_restoration(restoring.restore_deleted(job.pk, made_by="administrator", now=NOON))

    assert done.restored == 31
    assert Snapshot(site).texts == before.texts
    assert OutLinks.objects.count() == 31
    again = Job.objects.get(pk=job.pk)
    assert (again.name, again.specification, again.status) == (job.name, job.specification, "Not running")
    assert held_by(file) == {f"scripted://here/{name}" for name in site.everything}
    assert site.run().run_end == RunEnd.FINISHED
    assert site.held == site.everything
    assert_is_sound(site)


def test_a_deleted_job_whose_name_is_used_again_cannot_be_restored(site, world):
    deleted = site.job_id
    site.ask("delete")
    for _ in range(60):
        site.cluster.work()
    world.make_job("site", seeds=["root"])

    with pytest.raises(Refused, match="Another job has the name site"):
        restoring.restore_deleted(deleted, made_by="administrator", now=NOON)


def test_no_tombstones_are_kept_if_the_setting_is_off(connection, world, settings):
    settings.CRAWLCTL_ENVIRONMENT = {"crawl.keep_removed": 0}
    site = GuardedSite(connection, world, guard_percent=None)
    site.run()
    site.world.remove("root")
    site.run()

    with pytest.raises(Refused):
        restoring.restore(site.job_id, made_by="operator", now=NOON)


def test_operators_restore_by_api_and_by_command(site, capsys):
    site.put_root(links=[])
    site.run()
    client = client_of(OPERATOR)

    shown = client.get(f"/api/v1/jobs/{site.job_id}/removals/").json()
    answer = client.post(f"/api/v1/jobs/{site.job_id}/restore/", {"run_no": 2}, format="json")

    assert [(run["run_no"], run["documents"]) for run in shown["runs"]] == [(2, 30)]
    assert (answer.status_code, answer.json()["run_no"]) == (202, 2)
    assert client.post(f"/api/v1/jobs/{site.job_id}/restore/", {"run_no": 7}, format="json").status_code == 409
    assert client_of(VIEWER).post(f"/api/v1/jobs/{site.job_id}/restore/").status_code == 403

    call_command("restore", "site", "--run", "2")

    assert "restored documents: 30" in capsys.readouterr().out
    assert site.held == site.everything


def test_administrators_restore_a_deleted_job_by_api(site):
    deleted = site.job_id
    site.ask("delete")
    for _ in range(60):
        site.cluster.work()
    client = client_of(ADMINISTRATOR)

    assert [job["id"] for job in client.get("/api/v1/deleted-jobs/").json()["results"]] == [deleted]
    assert client.post(f"/api/v1/deleted-jobs/{deleted}/restore/").status_code == 202
    assert client.get("/api/v1/deleted-jobs/").json()["results"] == []
    assert client.get(f"/api/v1/jobs/{deleted}/").status_code == 200


def test_a_run_and_a_deleted_job_are_restored_on_pages(site, client):
    site.put_root(links=[])
    site.run()
    client.force_login(make_user(ADMINISTRATOR))

    page = client.get(f"/jobs/{site.job_id}/removals/").content.decode()
    answer = client.post(f"/jobs/{site.job_id}/restore/", {"run": "2"}, follow=True).content.decode()

    assert 'name="run" value="2"' in page
    assert "Workers are restoring the removals of run 2." in answer
    assert perform_restoration(Restoration.objects.get()).restored == 30
    assert "Restored documents: 30." in client.get(f"/jobs/{site.job_id}/removals/").content.decode()

    site.ask("delete")
    for _ in range(60):
        site.cluster.work()

    deleted = client.get("/jobs/deleted/").content.decode()
    # Every table has a row with a key, because the style sheet hides all other tables.
    assert "site" in deleted
    assert f'<tr data-key="{site.job_id}">' in deleted
    client.post(f"/jobs/deleted/{site.job_id}/restore/")
    assert Job.objects.get(pk=site.job_id).status == "Not running"


def test_viewers_restore_nothing_on_pages(site, client):
    client.force_login(make_user(VIEWER))

    assert client.post(f"/jobs/{site.job_id}/restore/", {"run": "1"}).status_code == 403
    assert client.post(f"/jobs/deleted/{site.job_id}/restore/").status_code == 403
