"""
Proves that a verification finds and repairs exactly the missing, ghost and stale documents of an output.
"""

# ruff: noqa: F811 (fixtures of another file)

import json
import os
import threading
import uuid

import psycopg
import pytest

from jobs.attention.outputs import outputs_out_of_sync
from jobs.connectors.output import jsonl_listing, search
from jobs.connectors.output.buckets import ranges_of
from jobs.connectors.output.registry import open_output
from jobs.connectors.repository.base import hash_of
from jobs.lifecycle.document import Stage
from jobs.loops.restoring import perform_restoration
from jobs.models import IndexedDocument, OutputConnection, OutputFault, OutputVerification, QueueItem, SearchDocument
from jobs.partitions.placement import even_owner, slot_of
from jobs.queue import verified
from jobs.verbs import restoring
from jobs.verification import finding, kinds, repairing, verbs
from jobs.verification.attempts import AnotherAttempt, state_of
from nodes.errors import Invalid, Refused
from nodes.permissions import may_do_everything
from nodes.tasks.context import TaskContext
from nodes.tasks.models import Task
from tests.integration.test_against_an_oracle import UNSOUND
from tests.integration.test_outputs import (
    OTHER_PAGE,
    PAGE,
    JobWithOutputs,
    flushed,  # noqa: F401 (a fixture)
    search_output,  # noqa: F401 (a fixture)
    worker,  # noqa: F401 (a fixture)
)
from tests.support.cluster import NOON, seconds
from tests.support.factories import make_output
from tests.support.guarded_site import GuardedSite
from tests.support.partitions import be_partition
from tests.support.processes import held_by
from tests.support.waiting import wait_until

# Number of documents in the test of samples, of which 0.1 % are damaged.
DOCUMENTS = int(os.environ.get("CRAWLCTL_TEST_DOCUMENTS", "200000"))


@pytest.fixture(autouse=True)
def var(settings, tmp_path):
    settings.VAR_DIR = tmp_path / "var"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "out.jsonl"


@pytest.fixture
def site(connection, world, file):
    """Return a site whose 31 documents are in a search output and in a file."""
    site = GuardedSite(connection, world, guard_percent=5, outputs=[make_output(file)])
    site.run()
    return site


@pytest.fixture
def lines(site):
    return OutputConnection.objects.get(connector="jsonl")


def url(name):
    return f"scripted://here/{name}"


def verify(output, **facts):
    return verbs.verify_output(output, made_by="a test", **facts)


def found(verification):
    """Return the documents that a verification found, by kind."""
    faults = OutputFault.objects.filter(verification=verification)
    by_kind = {}
    for fault in faults:
        by_kind.setdefault(fault.kind, set()).add(fault.identifier.rpartition("/")[2])
    assert sum(map(len, by_kind.values())) == verification.faults
    return by_kind


def results(verification):
    return {
        fault.identifier.rpartition("/")[2]: fault.result
        for fault in OutputFault.objects.filter(verification=verification)
    }


def waiting():
    return {item.identifier.rpartition("/")[2] for item in QueueItem.objects.filter(stage=Stage.PENDING)}


def rewrite(file, change):
    """Rewrite the lines of a file in place: `change` gets the facts of a line and returns lines as bytes."""
    written = [change(json.loads(line)) for line in file.read_bytes().splitlines()]
    with file.open("r+b") as opened:
        opened.truncate()
        opened.write(b"".join(line for each in written for line in each))


def as_line(facts):
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def without(*names):
    return lambda facts: [] if facts["url"] in map(url, names) else [as_line(facts)]


def ghost_line(name):
    return as_line({"action": "add", "url": url(name), "title": "", "text": "x", "version": "1:x"})


def host_of_partition(name):
    hosts = (f"h{number}.example" for number in range(1000))
    return next(host for host in hosts if even_owner(slot_of(host), "ab") == name)


def make_ghost_row(site, name):
    document = SearchDocument.objects.filter(output=site.search).first()
    document.pk = (site.search.pk, hash_of(url(name)))
    document.url = url(name)
    SearchDocument.objects.create(
        **{field.attname: getattr(document, field.attname) for field in SearchDocument._meta.concrete_fields}
    )


def explained(connection, query, facts):
    return "\n".join(line for (line,) in connection.execute(f"EXPLAIN {query}", facts))


def assert_is_sound(connection):
    for about, query in UNSOUND.items():
        assert connection.execute(query).fetchall() == [], about


def test_outputs_of_a_crawl_are_in_sync(site, lines):
    for output in (site.search, lines):
        done = verify(output, repairs=True)

        assert (done.documents, done.faults, done.repaired, done.damaged) == (31, 0, 0, 0)
        assert state_of(done) == "done"
    assert waiting() == set()
    assert outputs_out_of_sync(NOON) == []


def test_each_fault_of_a_search_output_is_found(site):
    SearchDocument.objects.filter(url=url("page1")).delete()
    SearchDocument.objects.filter(url=url("page2")).update(fetched_at=NOON - seconds(60), written_at=NOON - seconds(60))
    make_ghost_row(site, "never")

    done = verify(site.search)

    assert found(done) == {"missing": {"page1"}, "stale": {"page2"}, "ghost": {"never"}}
    assert done.documents == 32
    assert waiting() == set()


def test_each_fault_of_a_file_is_found(site, lines, file):
    rewrite(file, without("page1"))
    with file.open("ab") as opened:
        opened.write(ghost_line("never") + ghost_line("page2"))
        opened.write(as_line({"action": "delete", "url": url("page3"), "version": ""}))
        opened.write(b'{"action":"add","url":"scripted://here/page4","title":"\xff\n' + b"nonsense\n")
        opened.write(b'{"action":"add","url":"scripted://here/page5"')

    done = verify(lines)

    assert found(done) == {"missing": {"page1", "page3"}, "stale": {"page2"}, "ghost": {"never"}}
    assert (done.documents, done.damaged) == (32, 2)


def test_documents_without_their_last_line_are_found(site, lines, file):
    site.world.put("page7", text="another text")
    site.run()
    *kept, last = file.read_bytes().splitlines(keepends=True)
    assert json.loads(last)["url"] == url("page7")
    file.write_bytes(b"".join(kept) + last.replace(b'"version":', b'"version'))

    done = verify(lines)

    assert (found(done), done.damaged) == ({"stale": {"page7"}}, 1)


def test_a_repair_writes_exactly_the_damaged_documents_again(site, lines, file, connection):
    rewrite(file, without("page1", "page2"))
    SearchDocument.objects.filter(url=url("page3")).delete()
    length = file.stat().st_size

    of_file, of_search = verify(lines, repairs=True), verify(site.search, repairs=True)

    assert waiting() == {"page1", "page2", "page3"}
    assert (of_file.repaired, of_search.repaired) == (2, 1)
    assert_is_sound(connection)
    site.run()
    # All others were found unchanged.
    assert {json.loads(line)["url"] for line in file.read_bytes()[length:].splitlines()} == {
        url(name) for name in ("page1", "page2", "page3")
    }
    assert held_by(file) == {url(name) for name in site.everything}
    for output in (site.search, lines):
        assert verify(output).faults == 0
    assert_is_sound(connection)


def test_a_full_run_repairs_a_file_that_was_deleted(site, lines, file):
    file.unlink()

    done = verify(lines, repairs=True)
    site.run()

    assert (done.missing, done.repaired) == (31, 31)
    assert held_by(file) == {url(name) for name in site.everything}
    assert verify(lines).faults == 0


def test_a_document_that_cannot_be_read_stays_missing(site):
    SearchDocument.objects.filter(url=url("page1")).delete()
    site.world.put("page1", fails="500")
    verify(site.search, repairs=True)
    site.run()

    assert found(verify(site.search)) == {"missing": {"page1"}}


def test_a_budget_limits_the_number_of_repairs(site, lines, file):
    rewrite(file, without("page1", "page2", "page3"))

    first = verify(lines, repairs=True, most=2)

    assert (first.missing, first.repaired, len(waiting())) == (3, 2, 2)
    (line,) = outputs_out_of_sync(NOON)
    assert (line.subject, "3 missing" in line.sentence) == (lines.name, True)


def test_ghosts_are_removed_from_the_outputs(site, lines, file):
    make_ghost_row(site, "never")
    with file.open("ab") as opened:
        opened.write(ghost_line("never"))

    for output in (site.search, lines):
        done = verify(output, repairs=True)
        assert results(done) == {"never": "removed"}
        assert verify(output).faults == 0
    assert site.held == site.everything
    assert held_by(file) == {url(name) for name in site.everything}


def test_many_ghosts_are_removed_only_if_the_verification_allows_it(site, lines, file):
    with file.open("ab") as opened:
        opened.write(b"".join(ghost_line(f"never{number}") for number in range(25)))

    held_back = verify(lines, repairs=True)

    assert "25 of 56 documents" in held_back.question
    assert held_back.repaired == 0
    assert set(results(held_back).values()) == {"held back"}
    assert held_back.question in outputs_out_of_sync(NOON)[0].sentence
    assert verify(lines, repairs=True, allows_removals=True).repaired == 25
    assert verify(lines).faults == 0


def test_documents_of_other_partitions_stay_in_a_shared_file(site, lines, file, settings):
    be_partition(settings, "b")
    of_here, of_another = (host_of_partition(name) for name in "ba")
    urls = [f"https://{of_here}/never", f"https://{of_another}/theirs", "csv:table#theirs"]
    with file.open("ab") as opened:
        opened.write(b"".join(as_line({"action": "add", "url": one, "version": "1:x"}) for one in urls))

    done = verify(lines, repairs=True, allows_removals=True)

    assert (results(done), done.documents) == ({"never": "removed"}, 32)
    assert held_by(file) == {url(name) for name in site.everything} | set(urls[1:])
    assert verify(lines).faults == 0


def twin_of(output):
    """Return another connection that names the same file."""
    return OutputConnection.objects.create(name="twin", connector=output.connector, configuration=output.configuration)


def write_for(output, file):
    """Let an output write a document of its own job."""
    with file.open("ab") as opened:
        opened.write(as_line({"action": "add", "url": PAGE, "version": "1:x"}))
    record(output)


def record(output):
    IndexedDocument.objects.create(output=output, hash=uuid.UUID(hash_of(PAGE)), version="1:x", indexed_at=NOON)


def test_documents_of_another_output_stay_in_a_shared_file(site, lines, file):
    write_for(twin_of(lines), file)

    done = verify(lines, repairs=True, allows_removals=True)

    assert done.faults == 0
    assert PAGE in held_by(file)


def test_a_ghost_that_another_output_writes_before_the_repair_stays(site, lines, file):
    twin = twin_of(lines)
    with file.open("ab") as opened:
        opened.write(as_line({"action": "add", "url": PAGE, "version": "1:x"}))

    def should_continue(progress):
        if progress.compared_at is not None and not IndexedDocument.objects.filter(output=twin).exists():
            record(twin)
        return True

    done = verbs.carry_out(scheduled(lines, repairs=True), should_continue=should_continue)

    assert (done.ghost, results(done)) == (1, {"page": "of another output"})
    assert PAGE in held_by(file)


def test_a_ghost_stays_if_its_host_moves_away_before_the_repair(site, lines, file, settings):
    be_partition(settings, "b")
    host = host_of_partition("b")
    with file.open("ab") as opened:
        opened.write(as_line({"action": "add", "url": f"https://{host}/moves", "version": "1:x"}))
    verification = scheduled(lines, repairs=True)

    def should_continue(progress):
        if progress.compared_at is not None:
            be_partition(settings, "a")
        return True

    done = verbs.carry_out(verification, should_continue=should_continue)

    assert (done.ghost, results(done)) == (1, {"moves": "of another partition"})
    assert f"https://{host}/moves" in held_by(file)


@pytest.mark.parametrize("of_file", [True, False])
def test_a_ghost_that_a_job_keeps_is_read_again(site, lines, of_file):
    output = lines if of_file else site.search
    IndexedDocument.objects.filter(output=output, hash=hash_of(url("page1"))).delete()

    done = verify(output, repairs=True)

    assert results(done) == {"page1": "read again"}
    site.run()
    assert verify(output).faults == 0
    assert site.held == site.everything


def test_a_removed_ghost_of_a_job_can_be_restored(site, connection):
    key = hash_of(url("page1"))
    IndexedDocument.objects.filter(output=site.search, hash=key).delete()
    QueueItem.objects.filter(hash=key).update(indexed_before=False)
    text = SearchDocument.objects.get(hash=key).text
    assert results(verify(site.search, repairs=True)) == {"page1": "removed"}
    assert not SearchDocument.objects.filter(hash=key).exists()

    perform_restoration(
        restoring.restore_output(site.job_id, site.search.pk, made_by="operator", now=site.cluster.clock.at)
    )

    assert SearchDocument.objects.get(hash=key).text == text
    assert verify(site.search).faults == 0


@pytest.mark.parametrize("of_file", [True, False])
def test_restored_documents_are_in_sync(site, lines, of_file, connection):
    site.put_root(links=site.pages[5:])
    site.run()
    assert site.held == {"root", *site.pages[5:]}
    perform_restoration(restoring.restore(site.job_id, made_by="operator", now=site.cluster.clock.at))
    assert site.held == site.everything

    assert verify(lines if of_file else site.search).faults == 0


def test_the_record_of_a_document_without_a_job_is_deleted(site, lines, file):
    rewrite(file, without("page1"))
    QueueItem.objects.filter(identifier=url("page1")).delete()

    assert results(verify(lines, repairs=True)) == {"": "record deleted"}
    assert verify(lines).faults == 0


def test_a_claimed_document_is_skipped(search_output, flushed):
    job = JobWithOutputs("job", search_output)
    flushed(job.indexed(PAGE), job.indexed(OTHER_PAGE))
    SearchDocument.objects.all().delete()
    result = job.indexed(PAGE)

    done = verify(search_output, repairs=True)

    assert (done.missing, done.skipped, done.repaired) == (1, 1, 1)
    flushed(result)
    (fault,) = OutputFault.objects.filter(verification=verify(search_output))
    assert (fault.kind, fault.identifier) == ("missing", OTHER_PAGE)


# --- Writes of a crawl meanwhile -----------------------------------------------------------------


def test_a_document_written_during_the_verification_is_no_fault(site, lines, file, monkeypatch):
    """The file is listed first. Then a run changes, adds and removes documents before the record is read."""
    read = finding.read_groups

    def late(cursor, output_id, output, buckets):
        for group in read(cursor, output_id, output, buckets):
            site.world.put("page1", text="changed")
            site.world.put("new", text="new")
            site.put_root(links=[*site.pages[1:], "new"])
            site.run()
            yield group

    monkeypatch.setattr(finding, "read_groups", late)

    assert verify(lines).faults == 0
    assert url("new") in held_by(file)


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_verification_waits_for_a_flush_in_progress(site, lines, file, dsn, is_committed):
    """A flush records its document, then writes the line, and has not ended when the verification looks."""
    key = hash_of(url("never"))
    with psycopg.connect(dsn) as writer:
        writer.execute(
            "INSERT INTO jobs_indexeddocument (output_id, hash, version, indexed_at) VALUES (%s, %s, '1:x', now())",
            (lines.pk, key),
        )
        with file.open("ab") as opened:
            opened.write(ghost_line("never"))
        done = []
        thread = threading.Thread(target=lambda: done.append(_in_thread(lines)))
        thread.start()
        try:
            wait_until(lambda: _waits(site.cluster.connection), within=20)
            if is_committed:
                writer.commit()
            else:
                writer.rollback()
        finally:
            writer.rollback()
            thread.join()

    assert done[0].ghost == (0 if is_committed else 1)


def _in_thread(output):
    from django.db import connection

    try:
        return verify(output)
    finally:
        connection.close()


def _waits(connection):
    return connection.execute(
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%jobs_indexeddocument%')"
    ).fetchone()[0]


def test_a_file_that_is_replaced_meanwhile_ends_the_verification(site, lines, file, monkeypatch):
    rewrite(file, without("page1"))
    read = finding.read_groups

    def late(*arguments):
        for group in read(*arguments):
            file.rename(file.with_suffix(".old"))
            yield group

    monkeypatch.setattr(finding, "read_groups", late)

    with pytest.raises(Refused, match="was replaced during its verification"):
        verify(lines)
    assert state_of(OutputVerification.objects.get()) == "refused"


# --- Kills ---------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(finding, "_AT_ONCE", 3)
    monkeypatch.setattr(repairing, "_AT_ONCE", 3)
    monkeypatch.setattr(jsonl_listing, "MOST", 12)


def scheduled(output, **facts):
    facts = {"repairs": True, **facts}
    return verbs.start(output.pk, may=may_do_everything, made_by="a test", **facts)


def carry_out(verification):
    context = TaskContext(task=verification.task, group="generic")
    kinds.verify(context, Task.objects.get(pk=verification.task).arguments)
    verification.refresh_from_db()
    return verification


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("kill_at", range(1, 11, 2))
def test_a_killed_verification_counts_and_repairs_each_document_once(site, lines, file, monkeypatch, kill_at):
    rewrite(file, without("page1", "page2", "page3", "page4", "page5", "page6", "page7"))
    with file.open("ab") as opened:
        opened.write(ghost_line("never1") + ghost_line("never2"))
    verification = scheduled(lines)
    calls = iter(range(1, 1000))
    note = finding.note

    def dying(*arguments, **facts):
        note(*arguments, **facts)
        if next(calls) == kill_at:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(finding, "note", dying)
        patched.setattr(repairing, "note", dying)
        with pytest.raises(Killed):
            carry_out(verification)

    done = carry_out(verification)

    assert (done.attempt, done.documents, done.missing, done.ghost, done.repaired) == (2, 33, 7, 2, 9)
    assert waiting() == {f"page{number}" for number in range(1, 8)}
    site.run()
    assert held_by(file) == {url(name) for name in site.everything}
    assert verify(lines).faults == 0
    assert_is_sound(site.cluster.connection)


def test_an_attempt_of_a_verification_that_was_replaced_changes_nothing(site, lines, file):
    rewrite(file, without("page1"))
    verification = scheduled(lines)
    old = OutputVerification.objects.get(pk=verification.pk)
    OutputVerification.objects.update(attempt=1)

    with pytest.raises(AnotherAttempt):
        finding.find(old, open_output(lines), None, should_continue=lambda _progress: True)

    assert not OutputFault.objects.exists()


@pytest.mark.usefixtures("small_chunks")
def test_a_large_file_is_read_in_several_passes(site, lines, file):
    rewrite(file, without("page1", "page2"))

    done = verify(lines)

    assert (done.documents, found(done)) == (31, {"missing": {"page1", "page2"}})


def test_a_cancelled_verification_stops(site, lines):
    verification = scheduled(lines)
    context = TaskContext(task=verification.task, group="generic", is_cancelled=lambda: True)

    kinds.verify(context, Task.objects.get(pk=verification.task).arguments)

    verification.refresh_from_db()
    assert (verification.documents, verification.ended_at) == (0, None)


def test_a_template_makes_verifications_with_a_budget(site, lines, file):
    rewrite(file, without("page1", "page2"))
    context = TaskContext(task=77, group="generic")

    result = kinds.verify(context, {"output": lines.name, "repair": True, "most": 1})

    assert (result["missing"], result["repaired"]) == (2, 1)
    assert kinds.verify(context, {"output": lines.name})["verification"] == result["verification"]


# --- Refusals ------------------------------------------------------------------------------------


def test_an_output_that_cannot_list_is_refused(site):
    with pytest.raises(Refused, match="it keeps no documents"):
        verify(OutputConnection.objects.create(name="nothing", connector="null"))


def test_a_file_of_another_machine_is_refused(connection, tmp_path):
    output = make_output(tmp_path / "elsewhere.jsonl")

    with pytest.raises(Refused, match="Verify the output on the machine whose workers write it"):
        verify(output)


@pytest.mark.parametrize("facts", [{"sample": 0}, {"sample": 101}, {"sample": float("nan")}, {"most": -1}])
def test_invalid_numbers_of_a_verification_are_named(site, facts):
    with pytest.raises(Invalid):
        verify(site.search, **facts)
    assert not OutputVerification.objects.exists()


# --- Samples -------------------------------------------------------------------------------------


_FILL = """
WITH made AS (SELECT md5(n::text)::uuid AS hash, n FROM generate_series(1, %(documents)s) AS n), held AS (
    INSERT INTO jobs_indexeddocument (output_id, hash, version, indexed_at) SELECT %(output)s, hash, '1', %(at)s FROM made
)
INSERT INTO jobs_searchdocument (output_id, hash, url, title, description, text, content_type, language, fetched_at, written_at)
SELECT %(output)s, hash, 'http://a.example/' || n, '', '', 'text', '', '', %(at)s, %(at)s FROM made WHERE random() >= 0.001
"""


def test_a_sample_finds_damage_of_one_document_in_a_thousand(connection, search_output):
    """With CRAWLCTL_TEST_DOCUMENTS=1000000, the sample reads less than 5 % of a million documents."""
    facts = {"documents": DOCUMENTS, "output": search_output.pk, "at": NOON}
    connection.execute(_FILL, facts)
    connection.execute("ANALYZE jobs_indexeddocument, jobs_searchdocument")

    done = verify(search_output, sample=4)

    assert len(done.buckets) == 164
    assert 0 < done.documents < 0.05 * DOCUMENTS
    assert done.missing > 0
    assert (done.ghost, done.stale) == (0, 0)


def test_a_bucket_of_hashes_is_read_by_an_index(connection, search_output):
    connection.execute(_FILL, {"documents": 20_000, "output": search_output.pk, "at": NOON})
    connection.execute("ANALYZE jobs_indexeddocument, jobs_searchdocument")
    ((low, high),) = ranges_of([77])
    for query in (verified._RECORDS, search._LIST):
        plan = explained(connection, query, {"output": search_output.pk, "low": low, "high": high})

        assert "Seq Scan" not in plan
