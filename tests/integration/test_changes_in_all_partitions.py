"""
Proves that changes made in the control partition (such as verifications and restorations) reach all partitions.
"""

# ruff: noqa: F811 (fixtures of another file)

import threading

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from psycopg.rows import namedtuple_row

from crawlctl.live.topics import read_screen
from jobs.connectors.repository.base import hash_of as hash_of_address
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Phase
from jobs.models import (
    ArchiveFile,
    ArchiveVerification,
    IndexedDocument,
    Job,
    OutputConnection,
    OutputVerification,
    PartitionedJob,
    Restoration,
    TrapSuspect,
)
from jobs.partitions import merged
from jobs.partitions.last_answers import HeldAnswers
from jobs.partitions.merged import Merged
from jobs.queue.removing import tombstones
from jobs.settings.partitions import PARTITION, PARTITIONS
from jobs.state import trap_rules
from jobs.state.deleted_jobs import store_deleted_job
from jobs.verbs import traps
from nodes.tasks.models import Task
from tests.integration.test_archive_interfaces import BODY, make_archive_record
from tests.integration.test_pages_of_other_partitions import administrator, control, operator, silent  # noqa: F401
from tests.support.api import assert_problem, client_of
from tests.support.cluster import NOON
from tests.support.factories import make_documents, make_job, make_lane
from tests.support.processes import copy_of

RULE = r"^https?://b\.example/calendar/[0-9]+$"
SUSPECT = {
    "host": "b.example",
    "template": "/calendar/{n}",
    "rule": RULE,
    "run_no": 1,
    "suspected_at": NOON,
    "samples": [],
    "new_samples": [],
    "proven": [],
}


def make_index(job):
    """Give a job an output that can be verified."""
    index = OutputConnection.objects.create(name="index", connector="search")
    job.outputs.add(index)
    return index


def remove(dsn, job, output, names, *, run_no=1, cause=""):
    """Let a job remove documents from an output, with tombstones that keep them."""
    lane = make_lane(job.seeds.get(), "b.example")
    documents = make_documents(lane, names, stage=Stage.DONE, indexed_before=True, outcome=1, result_code="200")
    for document in documents:
        IndexedDocument.objects.create(output=output, hash=document.hash, version="1", indexed_at=NOON)
    removed = [
        tombstones.Removed(job.pk, run_no, output.pk, one.hash, leaves_output=True, cause=cause) for one in documents
    ]
    with psycopg.connect(dsn, autocommit=True) as other, other.cursor(row_factory=namedtuple_row) as cursor:
        tombstones.store(cursor, removed, now=NOON)
    IndexedDocument.objects.filter(output=output).delete()


@pytest.fixture
def job(connection):
    # The table of tombstones has no model, so the clean-up after a test does not empty it.
    connection.execute("DELETE FROM jobs_tombstone")
    job = make_job("news", urls=["http://b.example/"])
    make_index(job)
    return job


@pytest.fixture
def index(job):
    return job.outputs.get(name="index")


@pytest.fixture
def database(template, job, django_db_blocker):
    """Return the database of partition `b`, where each object has another number."""
    with django_db_blocker.unblock(), copy_of(template) as database:
        with database.as_django():
            OutputConnection.objects.create(name="another", connector="search")
            make_job("of another number")
            other = make_job("news", urls=["http://b.example/"])
            make_index(other)
            PartitionedJob.objects.create(job=other, number=job.pk)
        yield database


@pytest.fixture
def in_partition_b(database, django_db_blocker):
    """Return a function that enters partition `b`."""
    return database.as_django


# --- Verifications -------------------------------------------------------------------------------


def verified(output, **counts):
    return OutputVerification.objects.create(output=output, ended_at=NOON, started_at=NOON, **counts)


@pytest.fixture
def both_verified(in_partition_b, index):
    verified(index, documents=10)
    with in_partition_b():
        verified(OutputConnection.objects.get(name="index"), documents=10, missing=5)


def page_of(index):
    return reverse("output-verification", args=[index.pk])


def test_the_page_of_an_output_shows_its_verifications_in_all_partitions(control, both_verified, index, operator):
    page = operator.get(page_of(index))

    screen, text = page.context["screen"], page.content.decode()
    assert [row["partition"] for row in screen["verifications"]] == ["", "In partition b"]
    assert [row["title"] for row in screen["last"]] == [
        "100 % of 10 documents in sync",
        "50 % of 10 documents in sync",
    ]
    assert screen["totals"][0]["text"] == "Last results of all partitions: 75 % of 20 documents in sync."
    assert "This page shows partition" not in text
    assert read_screen(page.context["topic"]) == screen
    elsewhere = operator.get(screen["last"][1]["partition_address"])
    assert "This page shows partition b." in elsewhere.content.decode()
    assert elsewhere.context["screen"]["totals"] == []


@pytest.mark.usefixtures("both_verified", "silent")
def test_a_page_of_verifications_names_a_partition_without_an_answer(index, operator):
    page = operator.get(page_of(index))

    assert "Partition b does not answer." in page.content.decode()
    total = "Last results of all partitions: 100 % of at least 10 documents in sync."
    assert page.context["screen"]["totals"][0]["text"] == total


def test_a_verification_is_scheduled_in_all_partitions_or_in_one(control, in_partition_b, index, operator):
    wanted = {"output": index.pk, "sample": 50, "repair": True}

    every = operator.post("/api/v1/verifications/", wanted, format="json")
    one = operator.post("/api/v1/verifications/", {**wanted, "partition": "b"}, format="json")
    here_only = operator.post("/api/v1/verifications/", {**wanted, "partition": "a"}, format="json").json()
    wrong = operator.post("/api/v1/verifications/", {**wanted, "partition": "c"}, format="json")

    (elsewhere,) = every.json()["elsewhere"]
    assert (every.json()["partition"], elsewhere["partition"], every.json()["silent"]) == ("", "b", [])
    assert (one.json()["partition"], one.json()["output"], one.json()["state"]) == ("b", index.pk, "waiting")
    assert one.headers["Location"].endswith(f"/partition/b/api/v1/verifications/{one.json()['id']}/")
    assert (here_only["partition"], here_only["elsewhere"]) == ("", [])
    assert_problem(wrong, 400, "invalid", fields={"partition"})
    assert OutputVerification.objects.count() == 2
    with in_partition_b():
        assert OutputVerification.objects.count() == 2
        arguments = {"output": "index", "sample": 50.0, "repair": True}
        assert Task.objects.get(pk=elsewhere["task"]).arguments == arguments


def test_a_page_names_the_partitions_in_which_a_verification_is_scheduled(control, in_partition_b, index, operator):
    text = operator.post(f"{page_of(index)}start/", {"repair": "on"}, format="multipart", follow=True).content.decode()
    alone = operator.post(f"{page_of(index)}start/", {"partition": "b"}, format="multipart", follow=True)
    assert len(read_screen(f"output-verification-{index.pk}")["verifications"]) == 3
    archives = operator.post("/archive/verification/start/", {}, format="multipart", follow=True).content.decode()

    assert "Partition b: task" in text
    assert "Partition b: task" in alone.content.decode()
    assert "Partition b: task" in archives
    assert (OutputVerification.objects.count(), ArchiveVerification.objects.count()) == (1, 1)
    with in_partition_b():
        assert (OutputVerification.objects.count(), ArchiveVerification.objects.count()) == (2, 1)


def test_a_verification_is_scheduled_although_another_partition_is_silent(silent, index, operator, monkeypatch):
    monkeypatch.setattr(merged, "CHANGES_WITHIN", 1.0)

    made = operator.post("/api/v1/verifications/", {"output": index.pk}, format="json").json()

    assert (made["partition"], made["elsewhere"], made["silent"]) == ("", [], ["b"])


def test_a_verification_needs_its_role_in_all_partitions(control, in_partition_b, index):
    wanted = {"output": index.pk, "partition": "b"}
    may_not = {**wanted, "allow_removals": True}

    assert client_of("viewer").post("/api/v1/verifications/", wanted, format="json").status_code == 403
    assert_problem(
        client_of("operator").post("/api/v1/verifications/", may_not, format="json"), 403, "permission_denied"
    )
    with in_partition_b():
        assert not OutputVerification.objects.exists()


@pytest.mark.parametrize("command", [["verify_output", "index"], ["verify_archive"]])
@pytest.mark.usefixtures("control")
def test_a_command_verifies_its_own_partition_and_tasks_verify_other_ones(in_partition_b, command, capsys):
    call_command(*command)
    call_command(*command, "--partition", "b")
    call_command(*command, "--partition", "a")

    output = capsys.readouterr().out
    assert output.count("Partition b: task") == 2
    assert output.count("documents are in sync") + output.count("Compared files") == 2
    with pytest.raises(CommandError, match="Partition c does not exist") as refused:
        call_command(*command, "--partition", "c")
    assert refused.value.returncode == 2


def test_a_command_with_one_database_has_no_other_partition(index):
    with pytest.raises(CommandError, match="Partition b does not exist") as refused:
        call_command("verify_output", "index", "--partition", "b")

    assert refused.value.returncode == 2


def test_an_open_page_does_not_return_to_older_answers_of_a_partition(control):
    begins, goes_on = threading.Event(), threading.Event()

    def read(_name):
        begins.set()
        goes_on.wait(10)
        return "old"

    held = HeldAnswers(read)
    reading = threading.Thread(target=held.answers)
    reading.start()
    assert begins.wait(10)
    held.keep(Merged(None, {"b": "new"}))
    goes_on.set()
    reading.join()

    assert held.answers().with_own("own").others == {"b": "new"}


# --- Archives ------------------------------------------------------------------------------------


def archive_in_b(in_partition_b, directory):
    with in_partition_b():
        (document,) = make_documents(make_lane(Job.objects.get(name="news").seeds.get(), "b.example"), 1)
        document.hash = hash_of_address(document.identifier)
        record = make_archive_record(document, directory)
        ArchiveFile.objects.update(path="job-7/x.warc.gz", length=1_000)
        (directory / "job-7").mkdir()
        (directory / "x.warc.gz").rename(directory / "job-7/x.warc.gz")
        ArchiveVerification.objects.create(ended_at=NOON, started_at=NOON, files=1, records=1)
    return record, document.identifier


def test_pages_of_archives_list_archives_of_all_partitions(control, job, in_partition_b, operator, tmp_path):
    archive_in_b(in_partition_b, tmp_path)
    ArchiveVerification.objects.create(ended_at=NOON, started_at=NOON, files=2, records=5)

    files = operator.get(f"/jobs/{job.pk}/archive/")
    verifications = operator.get("/archive/verification/")

    assert [(row["path"], row["partition"]) for row in files.context["rows"]] == [("job-7/x.warc.gz", "b")]
    assert "Files: 1." in files.content.decode()
    screen = verifications.context["screen"]
    assert screen["totals"][0]["text"] == "Last results of all partitions: 3 files with 6 records."
    assert [row["partition"] for row in screen["last"]] == ["", "In partition b"]
    assert read_screen(verifications.context["topic"]) == screen


@pytest.mark.usefixtures("silent")
def test_pages_of_archives_name_a_silent_partition(job, operator):
    text = operator.get(f"/jobs/{job.pk}/archive/").content.decode()

    assert "Partition b does not answer." in text
    assert "The true counts may be higher." in text


@pytest.mark.usefixtures("control")
def test_commands_read_archives_of_all_partitions(in_partition_b, tmp_path, capsysbinary):
    record, address = archive_in_b(in_partition_b, tmp_path)

    call_command("archive", "extract", address)
    call_command("archive", "extract", address, "--partition", "b")
    assert capsysbinary.readouterr().out == BODY + BODY
    call_command("archive", "show", "job-7/x.warc.gz", "--offset", str(record.offset))
    assert address.encode() in capsysbinary.readouterr().out
    with pytest.raises(CommandError, match="No body of"):
        call_command("archive", "extract", address, "--partition", "a")
    with pytest.raises(CommandError, match="neither a file here") as refused:
        call_command("archive", "show", "job-8/x.warc.gz")
    assert refused.value.returncode == 2


def test_a_command_that_may_miss_an_archive_names_the_silent_partition(silent, monkeypatch):
    with pytest.raises(CommandError, match="Partition b does not answer") as refused:
        call_command("archive", "extract", "http://b.example/1")

    assert refused.value.returncode == 1


# --- Orders about connections --------------------------------------------------------------------


def test_requests_about_an_output_or_a_repository_apply_in_all_partitions(
    control, job, in_partition_b, index, administrator
):
    assert administrator.post(f"/api/v1/outputs/{index.pk}/clear/", {}, format="json").status_code == 202
    call_command("repository", "web", "clear-history")

    with in_partition_b():
        cleared = OutputConnection.objects.get(name="index")
        assert cleared.clear_before is not None
        assert OutputConnection.objects.get(name="another").clear_before is None
        assert Job.objects.get(name="news").repository.clear_history_before is not None
        OutputConnection.objects.update(trusted_from=None)
    call_command("output", "index", "reindex")
    with in_partition_b():
        assert OutputConnection.objects.get(name="index").trusted_from is not None


def test_a_request_about_an_output_names_the_partition_without_an_answer(silent, index, administrator, monkeypatch):
    monkeypatch.setattr(merged, "CHANGES_WITHIN", 1.0)

    refused = administrator.post(f"/api/v1/outputs/{index.pk}/reindex/", {}, format="json")
    page = administrator.post(f"/admin/jobs/outputconnection/{index.pk}/clear/", follow=True)

    assert_problem(refused, 409, "partition_away")
    assert "Partition b does not answer. Repeat it later." in page.content.decode()
    index.refresh_from_db()
    assert index.clear_before is not None


# --- Restorations --------------------------------------------------------------------------------


@pytest.fixture
def removed_in_b(database, in_partition_b):
    with in_partition_b():
        job = Job.objects.get(name="news")
        remove(database.dsn, job, job.outputs.get(name="index"), ["one", "two"], run_no=4)


def test_removals_of_another_partition_are_listed_and_restored(control, removed_in_b, job, in_partition_b, operator):
    address = f"/api/v1/jobs/{job.pk}/"

    listed = operator.get(f"{address}removals/").json()
    page = operator.get(f"/jobs/{job.pk}/removals/")
    answer = operator.post(f"{address}restore/", {}, format="json")
    after = operator.get(f"{address}removals/").json()["restorations"]

    assert [(run["run_no"], run["documents"]) for run in listed["runs"]] == [(4, 2)]
    assert page.context["runs"][0]["documents"] == "2"
    assert "This page shows partition" not in page.content.decode()
    assert answer.status_code == 202
    assert (answer.json()["partition"], answer.json()["job"], answer.json()["run_no"]) == ("b", job.pk, 4)
    assert [(one["partition"], one["job"]) for one in after] == [("b", job.pk)]
    with in_partition_b():
        wanted = Restoration.objects.get()
        assert (wanted.job_id, wanted.run_no) == (Job.objects.get(name="news").pk, 4)
    assert not Restoration.objects.exists()


def test_a_command_restores_locally_and_by_tasks_in_other_partitions(control, removed_in_b, dsn, job, index, capsys):
    remove(dsn, job, index, ["three"], run_no=4)

    call_command("restore", "news")

    assert "Partition b: workers are restoring its documents of news." in capsys.readouterr().out
    assert Restoration.objects.get().ended_at is not None


def test_an_output_emptied_by_another_partition_is_restored_in_that_partition(
    control, database, job, in_partition_b, index, administrator
):
    with in_partition_b():
        other = Job.objects.get(name="news")
        there_index = other.outputs.get(name="index")
        remove(database.dsn, other, there_index, ["one"], run_no=tombstones.NO_RUN, cause=tombstones.TAKEN_AWAY)
        other.outputs.remove(there_index)
    job.outputs.remove(index)

    listed = administrator.get(f"/api/v1/jobs/{job.pk}/removals/").json()["outputs"]
    answer = administrator.post(f"/api/v1/jobs/{job.pk}/restore/", {"output": index.pk}, format="json")

    assert [(one["output"], one["documents"], one["was_taken_away"]) for one in listed] == [(index.pk, 1, True)]
    assert (answer.status_code, answer.json()["output"], answer.json()["partition"]) == (202, index.pk, "b")
    assert index in job.outputs.all()
    with in_partition_b():
        assert there_index in Job.objects.get(name="news").outputs.all()


def test_a_restoration_without_tombstones_in_any_partition_is_refused(control, in_partition_b, job, operator):
    assert_problem(operator.post(f"/api/v1/jobs/{job.pk}/restore/", {}, format="json"), 409, "refused")


def test_a_restoration_names_a_silent_partition(silent, dsn, job, index, operator, monkeypatch):
    monkeypatch.setattr(merged, "CHANGES_WITHIN", 1.0)
    remove(dsn, job, index, ["three"], run_no=4)

    listed = operator.get(f"/api/v1/jobs/{job.pk}/removals/").json()
    page = operator.get(f"/jobs/{job.pk}/removals/")
    refused = operator.post(f"/api/v1/jobs/{job.pk}/restore/", {}, format="json")

    assert listed["silent"] == ["b"]
    assert page.context["runs"][0]["documents"] == "at least 1"
    assert_problem(refused, 409, "partition_away")
    assert Restoration.objects.get().run_no == 4


# --- Rules of traps ------------------------------------------------------------------------------


@pytest.fixture
def suspect(in_partition_b):
    with in_partition_b():
        return TrapSuspect.objects.create(job=Job.objects.get(name="news"), **SUSPECT).pk


@pytest.fixture
def decide(administrator, suspect):
    """Return a function that decides about the suspect by the API, and returns the answer."""

    def decide(verb, client=administrator):
        return client.post(f"/partition/b/api/v1/trap-suspects/{suspect}/{verb}/", {}, format="json")

    return decide


def rules_of(job):
    return Job.objects.get(pk=job.pk).specification.get("exclude", [])


def test_accepting_a_suspect_of_another_partition_adds_a_rule_to_the_job(
    control, in_partition_b, job, decide, operator
):
    assert decide("accept", operator).status_code == 403
    accepted = decide("accept").json()
    listed = operator.get("/api/v1/trap-suspects/").json()["results"]

    assert rules_of(job) == [RULE]
    assert (accepted["decision"], accepted["rule_state"], accepted["partition"]) == ("accepted", "added", "b")
    assert [(one["partition"], one["decision"]) for one in listed] == [("b", "accepted")]
    assert_problem(decide("undo", operator), 403, "permission_denied")
    undone = decide("undo").json()
    assert (undone["effect"], undone["suspect"]["decision"], rules_of(job)) == ("removed", "open", [])
    assert not TrapSuspect.objects.exists()
    with in_partition_b():
        assert rules_of(Job.objects.get(name="news")) == []


def test_the_rule_of_another_partition_waits_for_the_end_of_the_run(control, in_partition_b, job, decide):
    running = {"phase": Phase.ACTIVE, "run_no": 1}
    Job.objects.update(**running)
    with in_partition_b():
        Job.objects.filter(name="news").update(**running)

    assert decide("accept").json()["rule_state"] == "waits"
    assert rules_of(job) == []
    Job.objects.update(phase=Phase.INACTIVE)
    trap_rules.apply_waiting_rules(Job.objects.get(pk=job.pk), now=NOON)

    assert rules_of(job) == [RULE]
    assert decide("undo").json()["effect"] == "removed"


def test_only_the_control_partition_adds_a_waiting_rule_to_the_job(in_partition_b, job, settings, suspect):
    with in_partition_b():
        followed = Job.objects.get(name="news")
        TrapSuspect.objects.update(decision="accepted", accepted_as="exclude", rule_state="waits")
        values = {PARTITION.path: "b", PARTITIONS.path: ("a=postgresql://one/x", "b=postgresql://two/x")}
        settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **values}

        trap_rules.apply_waiting_rules(followed, now=NOON)

        assert rules_of(followed) == []
        assert TrapSuspect.objects.get().rule_state == "added"


def test_an_acceptance_may_be_repeated_after_its_answer_was_lost(control, in_partition_b, job, decide, monkeypatch):
    def lost(*_given, **_facts):
        raise psycopg.OperationalError("the line was cut")

    with monkeypatch.context() as cut:
        cut.setattr(traps, "_decide", lost)
        assert_problem(decide("accept"), 503, "database_unavailable")
    assert rules_of(job) == [RULE]

    assert decide("accept").json()["decision"] == "accepted"
    assert rules_of(job) == [RULE]


def test_a_deleted_job_is_restored_in_all_partitions(control, database, in_partition_b, job, administrator):
    store_deleted_job(job, now=NOON)
    number = job.pk
    job.delete()
    with in_partition_b():
        other = Job.objects.get(name="news")
        remove(database.dsn, other, other.outputs.get(name="index"), ["one"], run_no=1, cause="job deleted")
        store_deleted_job(other, now=NOON)
        before = other.pk
        other.delete()

    restored = administrator.post(f"/api/v1/deleted-jobs/{number}/restore/", {}, format="json")

    assert (restored.status_code, restored.json()["job"]) == (202, number)
    with in_partition_b():
        assert Job.objects.get(name="news").pk == before
        assert Restoration.objects.get().job_id == before
