"""
Proves that each good end of a run starts the successor in the chain exactly once. Tests call the duties themselves.
"""

import pytest
from django.core.management import CommandError, call_command
from django.db import connection as django_connection

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, VIEWER
from jobs.duties.chains import CHAINED_STARTS, start_successors
from jobs.duties.finish import end_runs
from jobs.duties.transient_jobs import pass_on
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Phase, RunEnd
from jobs.models import ChainedStart, Job, JobChain, JobEvent, Outcome
from jobs.queue.sql.rows import named_rows
from jobs.verbs import chains, control
from nodes.errors import Invalid
from nodes.lifecycle import CLUSTER_SCOPE
from tests.support.api import assert_problem, client_of
from tests.support.cluster import NOON
from tests.support.factories import count_folded, make_job, make_lane
from tests.support.stepping import Main


@pytest.fixture
def main(connection):
    return Main(connection)


@pytest.fixture
def jobs(db):
    return [make_job(name) for name in ("first", "second", "third")]


def chain(before, after, overlap="skip"):
    return chains.add(before.pk, after.pk, overlap=overlap, made_by="a test")


def run(job, *, run_no):
    Job.objects.filter(pk=job.pk).update(phase=Phase.ACTIVE, run_no=run_no, started_at=NOON, ended_at=None)


def finish(main, job, *, run_no=1, run_end=RunEnd.FINISHED):
    """Let a run of the job do everything except the notification of its outputs. Then end the run."""
    Job.objects.filter(pk=job.pk).update(
        phase=Phase.READY_FOR_NOTIFY, run_no=run_no, run_end=run_end, started_at=NOON, ended_at=NOON
    )
    main.step(pass_on)


def is_due(main):
    with named_rows(main.connection) as cursor:
        return bool(cursor.execute(CHAINED_STARTS, {"scope": CLUSTER_SCOPE}).fetchall())


def starts_of(job):
    return JobEvent.objects.filter(job=job, kind="follow").count()


def journal_of(job):
    return list(
        JobEvent.objects.filter(job=job).exclude(kind="created").order_by("id").values_list("message", flat=True)
    )


def phase_of(job):
    return Job.objects.get(pk=job.pk).phase


def test_the_end_of_a_run_starts_its_successors(main, jobs):
    first, second, third = jobs
    chain(first, second)
    chain(first, third)

    finish(main, first)
    assert is_due(main)
    main.step(start_successors)

    assert [phase_of(job) for job in (second, third)] == 2 * [Phase.READY_FOR_STARTUP]
    assert journal_of(second)[-1] == "was started by a chain: job first (run 1) ended well"
    assert "starts next: second, third" in journal_of(first)
    assert not is_due(main)


@pytest.mark.parametrize("run_end", sorted(set(RunEnd) - {RunEnd.FINISHED}))
def test_only_a_finished_run_starts_the_successor(main, jobs, run_end):
    first, second, _ = jobs
    chain(first, second)

    finish(main, first, run_end=run_end)
    main.step(start_successors)

    assert phase_of(second) == Phase.INACTIVE
    why = run_end.replace("_", " ")
    assert f"did not end well ({why}), so its chains start nothing: second" in journal_of(first)


def test_a_run_without_a_good_document_starts_no_successor(main, jobs):
    first, second, _ = jobs
    chain(first, second)
    lane = make_lane(first.seeds.get())
    count_folded(
        lane_id=lane.pk,
        job_id=first.pk,
        run_no=1,
        measure="stage",
        stage=Stage.DONE,
        outcome=Outcome.FAILED,
        code="404",
        amount=3,
    )

    finish(main, first)
    main.step(start_successors)

    assert "did not end well (its run failed), so its chains start nothing: second" in journal_of(first)
    assert starts_of(second) == 0


def test_a_start_is_skipped_while_the_successor_runs(main, jobs):
    first, second, _ = jobs
    chain(first, second, "skip")
    run(second, run_no=4)

    finish(main, first)
    main.step(start_successors)
    finish(main, second, run_no=4)
    main.step(start_successors)

    assert starts_of(second) == 0
    assert "did not start after job first (run 1): it was “Running”" in journal_of(second)


def test_queued_starts_become_one_start_after_the_end_of_the_successor(main, jobs):
    first, second, _ = jobs
    chain(first, second, "queue")
    run(second, run_no=4)
    for run_no in (1, 2):
        finish(main, first, run_no=run_no)
        main.step(start_successors)
    assert not is_due(main)

    finish(main, second, run_no=4)
    assert is_due(main)
    main.step(start_successors)

    assert (starts_of(second), phase_of(second)) == (1, Phase.READY_FOR_STARTUP)
    assert journal_of(second)[-1] == "was started by a chain: job first (run 1), job first (run 2) ended well"
    assert not ChainedStart.objects.exists()


def test_a_start_with_overlap_replace_aborts_the_run_and_starts_another(main, jobs):
    first, second, _ = jobs
    chain(first, second, "replace")
    run(second, run_no=4)

    finish(main, first)
    main.step(start_successors)
    assert Job.objects.get(pk=second.pk).stop_request == "abort"
    main.step(end_runs, pass_on, start_successors)

    assert (starts_of(second), phase_of(second)) == (1, Phase.READY_FOR_STARTUP)
    assert Job.objects.get(pk=second.pk).stop_request == "none"


def test_two_simultaneous_ends_start_the_successor_once(main, jobs):
    first, second, third = jobs
    chain(first, third)
    chain(second, third)

    finish(main, first)
    finish(main, second)
    main.step(start_successors, start_successors)

    assert starts_of(third) == 1
    assert journal_of(third)[-1] == "did not start after job second (run 1): it was “Starting up”"


def test_a_successor_that_cannot_start_shows_the_reason(main, jobs):
    first, second, _ = jobs
    chain(first, second)
    second.outputs.clear()

    finish(main, first)
    main.step(start_successors)

    assert journal_of(second)[-1].startswith("could not start after job first (run 1): Job second has no output.")
    assert not ChainedStart.objects.exists()


def test_a_job_that_is_being_deleted_is_not_started(main, jobs):
    first, second, _ = jobs
    chain(first, second, "queue")
    finish(main, first)
    control.delete(second.pk, made_by="a test", now=NOON)

    main.step(start_successors)

    assert (starts_of(second), ChainedStart.objects.count()) == (0, 0)


class Killed(BaseException):
    """The exception that stands for a kill of the main manager."""


def cut_off(number):
    """Return a wrapper that kills the main manager just before its n-th statement."""
    left = [number]

    def wrapper(execute, sql, params, many, context):
        if not sql.startswith(("SAVEPOINT", "RELEASE", "ROLLBACK")):
            left[0] -= 1
            if left[0] < 0:
                raise Killed
        return execute(sql, params, many, context)

    return wrapper


@pytest.mark.parametrize("duty", [pass_on, start_successors], ids=lambda duty: duty.__name__)
def test_a_kill_at_any_statement_neither_loses_nor_adds_a_start(main, jobs, duty):
    first, second, _ = jobs
    chain(first, second)
    kills = 0
    for run_no in range(1, 100):
        Job.objects.filter(pk=first.pk).update(
            phase=Phase.READY_FOR_NOTIFY, run_no=run_no, run_end=RunEnd.FINISHED, ended_at=NOON, started_at=NOON
        )
        if duty is start_successors:
            main.step(pass_on)
        try:
            with django_connection.execute_wrapper(cut_off(run_no - 1)):
                main.step(duty)
        except Killed:
            kills += 1
        main.step(pass_on, start_successors)
        assert starts_of(second) == run_no
        Job.objects.filter(pk=second.pk).update(phase=Phase.INACTIVE)
        if kills < run_no:
            break
    assert kills > 5


def test_a_circle_of_chains_is_refused_with_its_path(jobs):
    first, second, third = jobs
    chain(first, second)
    chain(second, third)

    with pytest.raises(Invalid, match="without end: third → first → second → third\\."):
        chain(third, first)
    with pytest.raises(Invalid, match="without end: first → first\\."):
        chain(first, first)
    assert JobChain.objects.count() == 2


def test_a_second_chain_of_the_same_jobs_changes_the_overlap_of_the_first(jobs):
    first, second, _ = jobs

    assert chain(first, second).pk == chain(first, second, "queue").pk
    assert JobChain.objects.get().overlap == "queue"


def test_the_removal_of_a_chain_removes_its_waiting_start(main, jobs):
    first, second, _ = jobs
    made = chain(first, second)
    finish(main, first)

    chains.remove(made.pk, made_by="a test")
    main.step(start_successors)

    assert starts_of(second) == 0


def test_the_api_makes_shows_and_removes_chains(jobs):
    first, second, _ = jobs
    client = client_of(ADMINISTRATOR)
    body = {"predecessor": first.pk, "successor": second.pk, "overlap": "replace"}

    made = client.post("/api/v1/job-chains/", body)

    assert made.status_code == 201, made.content
    assert client.get(made["Location"]).json()["overlap"] == "replace"
    listed = client.get("/api/v1/job-chains/", {"successor": second.pk}).json()["results"]
    assert [row["predecessor"] for row in listed] == [first.pk]
    circle = {"predecessor": second.pk, "successor": first.pk}
    problem = client.post("/api/v1/job-chains/", circle)
    assert_problem(problem, 400, "invalid", fields=["successor"])
    problem = client.post("/api/v1/job-chains/", {**body, "overlap": "both"})
    assert_problem(problem, 400, "invalid", fields=["overlap"])
    assert client.post("/api/v1/job-chains/", {**body, "successor": 10**9}).status_code == 404
    assert client.delete(made["Location"]).status_code == 204
    assert not JobChain.objects.exists()


@pytest.mark.parametrize("role", [VIEWER, OPERATOR])
def test_only_administrators_change_chains(jobs, role):
    first, second, _ = jobs
    made = chain(first, second)
    client = client_of(role)

    assert client.get("/api/v1/job-chains/").status_code == 200
    assert client.post("/api/v1/job-chains/", {"predecessor": first.pk, "successor": second.pk}).status_code == 403
    assert client.delete(f"/api/v1/job-chains/{made.pk}/").status_code == 403
    assert client.post(f"/jobs/{first.pk}/chains/", {"successor": "third", "overlap": "skip"}).status_code == 403
    assert client.post(f"/jobs/{first.pk}/chains/{made.pk}/remove/").status_code == 403
    page = client.get(f"/jobs/{second.pk}/").content.decode()
    assert "Starts after" in page
    assert "chains/" not in page


def test_the_pages_of_both_jobs_show_a_chain_and_a_form_adds_a_chain(jobs):
    first, second, _ = jobs
    client = client_of(ADMINISTRATOR)

    answer = client.post(
        f"/jobs/{first.pk}/chains/", {"successor": "second", "overlap": "queue"}, format="multipart", follow=True
    )

    assert "Job second starts after this job has ended well." in answer.content.decode()
    assert "Starts next" in answer.content.decode()
    assert "Starts after" in client.get(f"/jobs/{second.pk}/").content.decode()
    answer = client.post(
        f"/jobs/{second.pk}/chains/", {"successor": "first", "overlap": "skip"}, format="multipart", follow=True
    )
    assert "without end: second → first → second." in answer.content.decode()
    answer = client.post(
        f"/jobs/{second.pk}/chains/", {"successor": "nothing", "overlap": "skip"}, format="multipart", follow=True
    )
    assert "No job has the name nothing." in answer.content.decode()


@pytest.mark.django_db(transaction=True)
def test_the_command_makes_shows_and_removes_chains(jobs, capsys):
    call_command("chain", "add", "first", "second", "--overlap", "queue")
    call_command("chain", "list")
    with pytest.raises(CommandError, match="without end: second → first → second") as refused:
        call_command("chain", "add", "second", "first")
    assert refused.value.returncode == 2
    with pytest.raises(CommandError, match="No job has the name 'nothing'"):
        call_command("chain", "add", "first", "nothing")
    call_command("chain", "remove", "first", "second")

    assert "first → second (queue)" in capsys.readouterr().out
    assert not JobChain.objects.exists()
