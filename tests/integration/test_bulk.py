"""
Proves that an operation on many documents changes each document of its preview once, in chunks, and no claimed
document.
"""

import itertools
import json

import pytest
from django.core.management import CommandError, call_command

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR
from crawlctl.live.topics import is_topic, read_screen
from jobs.bulk import kinds, verbs
from jobs.bulk.models import BulkOperation
from jobs.connectors.output.base import OutputError
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Phase
from jobs.loops.restoring import perform_restoration
from jobs.models import Batch, IndexedDocument, Job, JobEvent, Outcome, QueueItem, SearchDocument
from jobs.queue import chosen_documents
from jobs.queue.chosen_documents import JobMoves
from jobs.verbs import editing, restoring
from nodes.errors import Invalid, Refused
from nodes.tasks.context import TaskContext
from nodes.tasks.models import Task
from nodes.web.topics import TopicUnknown
from tests.integration.test_against_an_oracle import UNSOUND
from tests.integration.test_queue_flush import OneWorker
from tests.support.api import assert_problem, client_of
from tests.support.cluster import NOON, seconds
from tests.support.factories import make_documents, make_output
from tests.support.guarded_site import GuardedSite
from tests.support.processes import held_by, read_lines

FAILED = {"stage": Stage.DONE, "outcome": Outcome.FAILED}
FINE = {"stage": Stage.DONE, "outcome": Outcome.INDEXED, "result_code": "200", "version": "1:a", "validators": "e"}


@pytest.fixture
def crawl(connection):
    made = OneWorker(connection)
    make_documents(made.lane, ["broken"], result_code="500", failures=3, fetched_at=NOON, **FAILED)
    make_documents(made.lane, ["absent"], result_code="404", fetched_at=NOON + seconds(60), **FAILED)
    make_documents(made.lane, ["fine"], fetched_at=NOON, **FINE)
    return made


@pytest.fixture
def file(tmp_path):
    return tmp_path / "out.jsonl"


@pytest.fixture
def site(connection, world, file):
    site = GuardedSite(connection, world, guard_percent=None, outputs=[make_output(file)])
    site.run()
    return site


def may(_permission):
    return True


def show(operation, job, **filter_):
    return verbs.preview(operation, job, filter_, may=may)


def begin(operation, job, **filter_):
    return verbs.start(show(operation, job, **filter_).token, may=may, made_by="a test")


def work(operation, *, retry=0, is_cancelled=lambda: False):
    context = TaskContext(task=operation.task, group="generic", retry_number=retry, is_cancelled=is_cancelled)
    kinds.carry_out(context, {})
    operation.refresh_from_db()
    return operation


def names(**facts):
    return {item.identifier.rpartition("/")[2] for item in QueueItem.objects.filter(**facts)}


def assert_is_sound(connection):
    for about, query in UNSOUND.items():
        assert connection.execute(query).fetchall() == [], about


@pytest.mark.parametrize(
    ("filter_", "found"),
    [
        ({}, {"broken", "absent"}),
        ({"codes": ["500"]}, {"broken"}),
        ({"pattern": "absent$"}, {"absent"}),
        ({"host": "a.example"}, {"broken", "absent"}),
        ({"host": "b.example"}, set()),
        ({"fetched_before": (NOON + seconds(30)).isoformat()}, {"broken"}),
    ],
)
def test_documents_of_a_filter_are_previewed_and_then_retried(crawl, filter_, found):
    shown = show("retry", crawl.job.pk, **filter_)

    assert shown.documents == len(found)
    assert {example.identifier.rpartition("/")[2] for example in shown.examples} == found
    if found:
        done = work(begin("retry", crawl.job.pk, **filter_))
        assert (done.changed, done.skipped, verbs.state_of(done)) == (len(found), 0, "done")
    assert names(stage=Stage.PENDING) == found


def test_reread_documents_are_requested_like_new_documents(crawl):
    work(begin("re-read", crawl.job.pk, codes=["200"]))

    (document,) = QueueItem.objects.filter(stage=Stage.PENDING)
    assert (document.identifier.rpartition("/")[2], document.version, document.validators) == ("fine", "", "")
    assert set(crawl.claim()) == {"fine"}


def test_expired_documents_are_due_without_validators_and_keep_their_version(crawl):
    make_documents(crawl.lane, ["waits"], check_time=NOON + seconds(86_400))
    QueueItem.objects.update(version="v1", validators="etag")

    done = work(begin("expire", crawl.job.pk, pattern="(fine|waits)$"))

    assert done.changed == 2
    expired = QueueItem.objects.filter(stage=Stage.PENDING, check_time=None, seq__isnull=False)
    assert {item.identifier.rpartition("/")[2] for item in expired} == {"fine", "waits"}
    assert set(expired.values_list("version", "validators")) == {("v1", "")}
    assert set(crawl.claim()) == {"fine", "waits"}


def test_only_expired_documents_that_had_ended_are_counted_again(crawl):
    make_documents(crawl.lane, ["waits"], check_time=NOON + seconds(86_400))
    work(begin("expire", crawl.job.pk, pattern="(broken|waits)$"))

    rows = crawl.connection.execute("SELECT stage, code, amount FROM jobs_counterdelta WHERE amount <> 0").fetchall()
    assert sorted(rows) == [(Stage.PENDING, "", 1), (Stage.DONE, "500", -1)]


def test_counts_of_documents_follow_an_operation(crawl):
    work(begin("retry", crawl.job.pk))

    rows = crawl.connection.execute("SELECT stage, code, amount FROM jobs_counterdelta WHERE amount <> 0").fetchall()
    assert sorted(rows) == [(Stage.PENDING, "", 2), (Stage.DONE, "404", -1), (Stage.DONE, "500", -1)]


@pytest.mark.parametrize("kill_at", range(1, 5))
def test_a_killed_operation_changes_each_document_once(crawl, kill_at, monkeypatch):
    monkeypatch.setattr(chosen_documents, "_READ_AT_ONCE", 3)
    make_documents(crawl.lane, [f"more{number}" for number in range(8)], result_code="500", **FAILED)
    operation = begin("retry", crawl.job.pk)
    calls = itertools.count(1)
    note = kinds._note

    class Killed(BaseException):
        pass

    def dying(cursor, operation, chunk):
        number = next(calls)
        if number == kill_at:
            raise Killed
        note(cursor, operation, chunk)

    with monkeypatch.context() as patched:
        patched.setattr(kinds, "_note", dying)
        with pytest.raises(Killed):
            work(operation)
    operation.refresh_from_db()
    assert operation.changed == QueueItem.objects.filter(stage=Stage.PENDING).count() == 3 * (kill_at - 1)

    done = work(operation, retry=1)

    assert (done.changed, done.attempt, len(names(stage=Stage.PENDING))) == (10, 2, 10)
    amounts = crawl.connection.execute("SELECT sum(amount) FROM jobs_counterdelta WHERE stage = 0").fetchone()
    assert amounts == (10,)


def test_an_attempt_of_a_task_that_was_replaced_changes_nothing(crawl):
    operation = begin("retry", crawl.job.pk)
    context = TaskContext(task=operation.task, group="generic")
    old = kinds._begin(context)
    BulkOperation.objects.update(attempt=2)

    with pytest.raises(kinds.AnotherAttempt):
        chosen_documents.change_next_documents(
            crawl.connection,
            chosen_documents.Operation.RETRY,
            verbs.choice_of(crawl.job.pk, {}),
            after=None,
            most=10,
            job=kinds._facts_of(crawl.connection, crawl.job.pk)[0],
            carries=False,
            outputs=None,
            keeps_history=True,
            now=NOON,
            note=lambda cursor, chunk: kinds._note(cursor, old, chunk),
        )

    assert names(stage=Stage.PENDING) == set()


def test_no_more_documents_than_shown_are_changed(crawl):
    operation = begin("retry", crawl.job.pk)
    make_documents(crawl.lane, [f"later{number}" for number in range(20)], result_code="500", **FAILED)

    assert work(operation).changed == 2
    assert len(names(stage=Stage.PENDING)) == 2


def test_a_removal_of_more_documents_than_shown_is_refused(crawl):
    shown = show("drop", crawl.job.pk, codes=["500"])
    make_documents(crawl.lane, ["later"], result_code="500", **FAILED)

    with pytest.raises(Refused, match="2 documents match now, and the preview showed 1"):
        verbs.start(shown.token, may=may, made_by="a test")
    assert not Task.objects.exists()


def test_a_retry_is_possible_although_the_crawl_continues(crawl):
    shown = show("retry", crawl.job.pk)
    make_documents(crawl.lane, ["later"], result_code="500", **FAILED)

    assert work(verbs.start(shown.token, may=may, made_by="a test")).changed == 2


def test_a_preview_that_is_confirmed_twice_makes_one_operation(crawl):
    token = show("re-read", crawl.job.pk).token

    first = verbs.start(token, may=may, made_by="a test")
    second = verbs.start(token, may=may, made_by="a test")

    assert second == first
    assert Task.objects.filter(kind="bulk").count() == 1


def test_a_refused_removal_leads_to_a_new_preview(crawl):
    administrator = client_of(ADMINISTRATOR)
    page = administrator.get(f"/jobs/{crawl.job.pk}/bulk/?operation=drop&codes=500")
    make_documents(crawl.lane, ["later"], result_code="500", **FAILED)
    given = {"token": page.context["preview"].token, "asked": page.context["request"].GET.urlencode()}

    answer = administrator.post(f"/jobs/{crawl.job.pk}/bulk/start/", given, format="multipart")

    assert administrator.get(answer["Location"]).context["preview"].documents == 2


def test_a_forged_preview_is_refused(crawl):
    with pytest.raises(Invalid):
        verbs.start(show("retry", crawl.job.pk).token + "x", may=may, made_by="a test")


def test_an_operation_on_a_job_in_a_transition_waits_for_a_later_attempt(crawl):
    operation = begin("retry", crawl.job.pk)
    Job.objects.update(phase=Phase.SHUTTING_DOWN)

    with pytest.raises(JobMoves):
        work(operation)

    Job.objects.update(phase=Phase.INACTIVE)
    assert work(operation, retry=1).changed == 2


def test_an_operation_cannot_be_made_without_a_preview(crawl):
    wanted = {"kind": "bulk", "arguments": {"operation": "retry", "job": crawl.job.pk}}
    assert_problem(client_of(OPERATOR).post("/api/v1/tasks/", wanted, format="json"), 400, "invalid", fields={"kind"})
    done = work(begin("retry", crawl.job.pk))

    message = kinds.carry_out(TaskContext(task=done.task + 1, group="generic"), {})

    assert message == "Nothing was changed: this task has no operation. Make a new preview."


def test_a_cancelled_operation_stops(crawl):
    operation = begin("retry", crawl.job.pk)

    work(operation, is_cancelled=lambda: True)

    assert names(stage=Stage.PENDING) == set()
    assert operation.ended_at is None


def causes_of(site):
    """Return the causes of the tombstones of a site's job. No test empties their table."""
    return site.cluster.connection.execute(
        "SELECT DISTINCT cause FROM jobs_tombstone WHERE job_id = %s", (site.job_id,)
    ).fetchall()


def test_dropped_documents_are_removed_from_outputs_and_can_return(site, file):
    connection = site.cluster.connection
    everything = site.held
    texts = SearchDocument.objects.count()

    done = work(begin("drop", site.job_id, pattern="page"))

    dropped = {name for name in everything if "page" in name}
    assert (done.changed, done.skipped) == (len(dropped), 0)
    assert dropped
    assert site.held == everything - dropped
    assert held_by(file) == {f"scripted://here/{name}" for name in everything - dropped}
    assert not QueueItem.objects.filter(identifier__contains="page").exists()
    assert_is_sound(connection)

    back = perform_restoration(restoring.restore(site.job_id, made_by="operator", now=site.cluster.clock.at))

    assert (back.restored, back.unread) == (len(dropped), 0)
    assert site.held == everything
    assert SearchDocument.objects.count() == texts
    assert_is_sound(connection)
    assert causes_of(site) == []


def test_documents_removed_from_one_of_two_files_are_written_again(crawl, file, tmp_path):
    crawl.job.outputs.add(*(outputs := [make_output(file), make_output(tmp_path / "missing" / "out.jsonl")]))
    QueueItem.objects.filter(identifier__endswith="fine").update(indexed_before=True)
    hash_ = QueueItem.objects.get(identifier__endswith="fine").hash
    for output in outputs:
        IndexedDocument.objects.create(output=output, hash=hash_, version="1:a", indexed_at=NOON)

    with pytest.raises(OutputError):
        work(begin("drop", crawl.job.pk, pattern="fine|broken"))

    assert [json.loads(line)["action"] for line in file.read_text().splitlines()] == ["delete"]
    fine, broken = (QueueItem.objects.get(identifier__endswith=name) for name in ("fine", "broken"))
    assert (fine.stage, fine.version) == (Stage.DONE, "")
    assert not broken.indexed_before


class Killed(BaseException):
    pass


def kill_before_the_commit(site, monkeypatch):
    """
    Begin to drop the pages of a site. Kill the process after it has written the lines of the file, and before the
    commit.
    """
    operation = begin("drop", site.job_id, pattern="page")

    def die(*_given):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(kinds, "_note", die)
        with pytest.raises(Killed):
            work(operation)
    return operation


def test_a_drop_that_was_killed_before_its_commit_counts_each_document_once(site, file, monkeypatch):
    everything = site.held
    dropped = {name for name in everything if "page" in name}
    operation = kill_before_the_commit(site, monkeypatch)
    assert site.held == everything

    done = work(operation, retry=1)

    assert (done.changed, done.skipped) == (len(dropped), 0)
    assert site.held == everything - dropped
    assert held_by(file) == {f"scripted://here/{name}" for name in everything - dropped}
    assert_is_sound(site.cluster.connection)
    perform_restoration(restoring.restore(site.job_id, made_by="operator", now=site.cluster.clock.at))
    written = len(read_lines(file))
    site.run()
    # Restored documents keep their versions, so the run writes none.
    assert (site.held, len(read_lines(file))) == (everything, written)


@pytest.mark.parametrize("stages", [[], [{"name": "label", "kind": "metadata", "settings": {"set": ["a = b"]}}]])
def test_documents_whose_drop_was_killed_and_never_repeated_are_written_again(site, file, monkeypatch, stages):
    if stages:
        pipeline = {"stages": [{**stage, "input": "source"} for stage in stages], "outputs": {}}
        now = site.cluster.clock.at
        editing.change_job(site.job_id, pipeline=pipeline, made_by="operator", now=now)
        site.run()
    operation = kill_before_the_commit(site, monkeypatch)
    assert held_by(file) == {"scripted://here/root"}

    work(operation, retry=1, is_cancelled=lambda: True)
    site.run()

    assert held_by(file) == {f"scripted://here/{name}" for name in site.everything}
    assert site.held == site.everything


def test_tombstones_of_dropped_documents_name_the_drop_as_their_cause(site):
    work(begin("drop", site.job_id, pattern="page"))

    assert causes_of(site) == [("dropped",)]


def test_a_claimed_document_is_skipped_by_a_drop(crawl):
    make_documents(crawl.lane, ["due"])
    (claimed,) = crawl.claim().values()
    assert Batch.objects.exists()

    operation = begin("drop", crawl.job.pk, pattern="example")
    work(operation)

    assert names() == {"due"}
    assert QueueItem.objects.get().batch_id == claimed.batch_id
    # The count is negative because the fixture did not count its three documents.
    left = crawl.connection.execute("SELECT sum(amount) FROM jobs_counterdelta WHERE stage = 2").fetchone()
    assert left == (-3,)


def test_a_document_that_another_job_has_claimed_is_skipped(crawl):
    document = QueueItem.objects.get(identifier__endswith="fine")
    make_documents(crawl.lane, ["due"])
    crawl.claim()
    QueueItem.objects.create(
        hash=document.hash,
        job_id=document.job_id + 1_000,
        lane=crawl.lane,
        identifier=document.identifier,
        stage=Stage.ACTIVE,
        batch=Batch.objects.get(),
        run_no=1,
    )

    work(begin("drop", crawl.job.pk, pattern="fine"))

    assert QueueItem.objects.filter(hash=document.hash, job=crawl.job).exists()


def test_forget_removes_documents_from_the_queue_and_not_from_outputs(site):
    never = QueueItem.objects.filter(identifier__contains="page").order_by("hash").first()
    QueueItem.objects.filter(hash=never.hash).update(indexed_before=False)
    IndexedDocument.objects.filter(hash=never.hash).delete()
    indexed = IndexedDocument.objects.count()

    done = work(begin("forget", site.job_id, pattern="page"))

    assert done.changed == 1
    assert not QueueItem.objects.filter(hash=never.hash).exists()
    assert IndexedDocument.objects.count() == indexed


def test_removals_need_a_filter_and_an_administrator(crawl):
    with pytest.raises(Invalid):
        show("drop", crawl.job.pk)
    wanted = {"operation": "drop", "job": crawl.job.pk, "filter": {"pattern": "x"}}

    assert_problem(client_of(OPERATOR).post("/api/v1/bulk/preview/", wanted, format="json"), 403, "permission_denied")
    assert client_of(ADMINISTRATOR).post("/api/v1/bulk/preview/", wanted, format="json").status_code == 200


@pytest.mark.parametrize(
    ("filter_", "field"),
    [
        ({"pattern": "("}, "filter.pattern"),
        ({"age": 3}, "filter.age"),
        ({"codes": "500"}, "filter.codes"),
        ({"fetched_before": "yesterday"}, "filter.fetched_before"),
    ],
)
def test_an_invalid_filter_of_an_operation_is_named(crawl, filter_, field):
    wanted = {"operation": "retry", "job": crawl.job.pk, "filter": filter_}

    answer = client_of(OPERATOR).post("/api/v1/bulk/preview/", wanted, format="json")

    assert_problem(answer, 400, "invalid", fields={field})


def test_an_operation_is_shown_confirmed_and_cancelled_by_api(crawl):
    operator = client_of(OPERATOR)
    wanted = {"operation": "retry", "job": crawl.job.pk, "filter": {"codes": ["500"]}}

    shown = operator.post("/api/v1/bulk/preview/", wanted, format="json").json()
    made = operator.post("/api/v1/bulk/", {"token": shown["token"]}, format="json")

    assert (shown["documents"], shown["examples"][0]["result_code"]) == (1, "500")
    assert (made.status_code, made.json()["state"]) == (201, "waiting")
    assert JobEvent.objects.filter(kind="bulk operation").exists()
    assert operator.post(f"/api/v1/bulk/{made.json()['id']}/cancel/").json()["state"] == "ended early"


def test_a_command_shows_documents_and_changes_nothing(crawl, capsys):
    call_command("bulk", "retry", crawl.job.name, "--code", "500")

    assert "retry: 1 document of" in capsys.readouterr().out
    assert not BulkOperation.objects.exists()
    with pytest.raises(CommandError):
        call_command("bulk", "retry", "no such job")


def test_commands_list_and_cancel_an_operation(crawl, capsys):
    operation = begin("retry", crawl.job.pk)

    call_command("bulk", "list")
    call_command("bulk", "cancel", str(operation.pk))

    waiting = f"{operation.pk}: retry of {crawl.job.name}, waiting, changed 0 and skipped 0 of 2, task {operation.task}"
    assert capsys.readouterr().out.splitlines() == [waiting, f"Operation {operation.pk} ends after its present chunk."]
    assert verbs.state_of(operation) == "ended early"
    with pytest.raises(CommandError, match="has ended") as ended:
        call_command("bulk", "cancel", str(operation.pk))
    with pytest.raises(CommandError) as unknown:
        call_command("bulk", "cancel", "999")
    assert (ended.value.returncode, unknown.value.returncode) == (1, 2)


def test_a_page_shows_the_progress_of_an_operation_and_links_its_task(crawl, django_assert_max_num_queries):
    begun = [begin("retry", crawl.job.pk) for _ in range(5)]
    BulkOperation.objects.filter(pk=begun[0].pk).update(changed=1)
    viewer = client_of(OPERATOR)

    with django_assert_max_num_queries(12):
        page = viewer.get(f"/jobs/{crawl.job.pk}/bulk/")

    assert [row["bar"] for row in page.context["screen"]["operations"]] == ["0.0 % done"] * 4 + ["50 % done"]
    assert f'href="/tasks/{begun[0].task}/"' in page.content.decode()
    viewer.post(f"/jobs/{crawl.job.pk}/bulk/{begun[0].pk}/cancel/")
    Task.objects.all().delete()
    ended = viewer.get(f"/jobs/{crawl.job.pk}/bulk/").context["screen"]["operations"]
    assert [row["task"] for row in ended] == [""] * 4 + [f"task {begun[0].task}"]


def test_an_open_page_follows_an_operation_to_its_end(crawl):
    begun = begin("retry", crawl.job.pk)
    context = client_of(OPERATOR).get(f"/jobs/{crawl.job.pk}/bulk/").context
    assert is_topic(context["topic"])
    assert read_screen(context["topic"]) == context["screen"]

    work(begun)

    (row,) = read_screen(context["topic"])["operations"]
    assert (row["state"], row["bar"], row["cancels"]) == ("done", "", [])
    with pytest.raises(TopicUnknown):
        read_screen("job-operations-999999")


def test_an_operation_is_shown_and_confirmed_on_pages(crawl):
    operator = client_of(OPERATOR)
    address = f"/jobs/{crawl.job.pk}/bulk/?operation=retry&codes=500"

    page = operator.get(address)
    token = page.context["preview"].token
    answer = operator.post(f"/jobs/{crawl.job.pk}/bulk/start/", {"token": token}, format="multipart")

    assert "broken" in page.content.decode()
    assert answer.status_code == 302
    assert work(BulkOperation.objects.get()).changed == 1
    assert "done" in operator.get(f"/jobs/{crawl.job.pk}/bulk/").content.decode()
    assert operator.get(f"/jobs/{crawl.job.pk}/bulk/?operation=drop&pattern=x").context["preview"] is None


def test_only_chosen_documents_are_changed(crawl):
    key = QueueItem.objects.get(result_code="404").hash.hex

    done = work(begin("retry", crawl.job.pk, documents=[key]))

    assert (done.changed, names(stage=Stage.PENDING)) == (1, {"absent"})


def test_documents_of_a_state_are_changed(crawl):
    assert {
        example.identifier.rpartition("/")[2] for example in show("re-read", crawl.job.pk, state="indexed").examples
    } == {"fine"}
    assert show("drop", crawl.job.pk, state="waiting").documents == 0


@pytest.mark.parametrize(("field", "value"), [("state", "odd"), ("documents", ["x"]), ("documents", "a" * 32)])
def test_an_invalid_selection_of_documents_is_refused_at_its_field(crawl, field, value):
    with pytest.raises(Invalid) as refused:
        show("retry", crawl.job.pk, **{field: value})

    assert set(refused.value.problems) == {f"filter.{field}"}
