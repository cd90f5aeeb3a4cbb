"""`manage.py check_counters` compares the counters with the documents, and repairs them."""

import io

import pytest
from django.core.management import CommandError, call_command

from jobs.lifecycle.document import Stage
from jobs.models import CounterDelta, JobCounter, Outcome, QueueItem
from jobs.queue.counting.repair import repair_lanes
from tests.support.cluster import register_node
from tests.support.factories import count_folded, make_documents, make_lane, make_running_job


def run(*arguments):
    out = io.StringIO()
    try:
        call_command("check_counters", *arguments, stdout=out)
    except CommandError as error:
        return error.returncode, out.getvalue().splitlines()
    return 0, out.getvalue().splitlines()


def count(lane, amount, *, by=count_folded, **facts):
    usual = {"run_no": 1, "measure": "stage", "stage": Stage.PENDING}
    by(job_id=lane.seed.job_id, lane_id=lane.pk, amount=amount, **(usual | facts))


@pytest.fixture
def lane(connection):
    running = make_running_job(register_node(connection, "manager"), name="manual")
    return make_lane(running.seed, "a.example")


def test_counters_that_match_the_documents_are_confirmed(lane):
    make_documents(lane, 5)
    make_documents(lane, ["done"], stage=Stage.DONE, outcome=Outcome.INDEXED, result_code="200")
    count(lane, 3)
    count(lane, 2, by=CounterDelta.objects.create)
    count(lane, 1, stage=Stage.DONE, outcome=Outcome.INDEXED, code="200")

    assert run() == (0, ["manual: 6 documents, as counted"])


def test_the_command_prints_a_difference_with_its_lane_and_exits_with_1(lane):
    make_documents(lane, 5)
    count(lane, 7)

    code, lines = run("manual")

    assert code == 1
    assert lines == [
        f"manual: the counter is 7 and 5 exist: pending in run 1, lane {lane.pk} (a.example)",
        "manual: 5 documents, 1 counts differ",
    ]


def test_uncounted_documents_and_counts_of_lost_lanes_are_found(lane):
    make_documents(lane, 1, stage=Stage.DONE, outcome=Outcome.FAILED, result_code="500")
    count_folded(job_id=lane.seed.job_id, lane_id=lane.pk + 1, run_no=1, measure="stage", stage=Stage.PENDING, amount=4)

    code, lines = run()

    assert code == 1
    assert lines[:2] == [
        f"manual: the counter is 0 and 1 exist: done 500 in run 1, lane {lane.pk} (a.example)",
        f"manual: the counter is 4 and 0 exist: pending in run 1, lane {lane.pk + 1} (deleted)",
    ]


def test_counts_of_a_job_that_are_not_the_sum_of_its_lanes_are_found(lane):
    make_documents(lane, 5)
    count(lane, 5)
    count(lane, 100, measure="bytes", stage=0)
    JobCounter.objects.filter(measure="bytes").update(amount=90)
    JobCounter.objects.create(
        job_id=lane.seed.job_id, run_no=2, measure="stage", stage=Stage.DONE, outcome=1, code="200", amount=3
    )

    code, lines = run()

    assert code == 1
    assert lines == [
        "manual: the job counts 90 and its lanes 100: bytes in run 1",
        "manual: the job counts 3 and its lanes 0: done 200 in run 2",
        "manual: 5 documents, 2 counts differ",
    ]


def test_many_differences_are_shown_in_part(lane):
    for number in range(30):
        count(lane, 1, stage=Stage.DONE, code=f"c{number}")

    _, lines = run()

    assert len(lines) == 22
    assert lines[-2:] == ["manual: and 10 more", "manual: 0 documents, 30 counts differ"]


def test_only_given_jobs_are_checked_and_unknown_jobs_are_refused(connection, lane):
    count(lane, 1)
    make_running_job(register_node(connection, "manager"), name="other")

    assert run("other") == (0, ["other: 0 documents, as counted"])
    assert run("nobody")[0] == 2


def test_a_check_without_repair_changes_nothing(lane):
    make_documents(lane, 5)
    count(lane, 7)
    before = list(QueueItem.objects.order_by("hash").values()), list(JobCounter.objects.values())

    run()

    assert (list(QueueItem.objects.order_by("hash").values()), list(JobCounter.objects.values())) == before


# --- Repair --------------------------------------------------------------------------------------


def test_repaired_counts_agree_and_the_command_ends_with_0(lane):
    make_documents(lane, 5)
    count(lane, 7)
    count_folded(job_id=lane.seed.job_id, lane_id=lane.pk + 1, run_no=1, measure="stage", stage=Stage.DONE, amount=4)

    code, lines = run("manual", "--repair")

    assert code == 0
    assert lines[-2:] == ["manual: 2 counters corrected", "manual: 5 documents, as counted"]
    assert run() == (0, ["manual: 5 documents, as counted"])


def test_a_sum_of_a_job_that_is_wrong_is_repaired(lane):
    make_documents(lane, 5)
    count(lane, 5)
    JobCounter.objects.update(amount=-143)

    assert run("--repair")[0] == 0

    assert [counted.amount for counted in JobCounter.objects.all()] == [5]


def test_a_repair_counts_a_concurrent_change_of_documents_once(lane, connection, other_connection):
    make_documents(lane, 5)
    count(lane, 9)

    with other_connection.transaction():
        other_connection.execute(
            "UPDATE jobs_queueitem SET run_no = 2 WHERE hash = (SELECT hash FROM jobs_queueitem LIMIT 1)"
        )
        for run_no, amount in ((1, -1), (2, 1)):
            other_connection.execute(
                "INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)"
                " VALUES (%s, %s, %s, 'stage', %s, 0, '', %s)",
                (lane.seed.job_id, lane.pk, run_no, int(Stage.PENDING), amount),
            )
        repair_lanes(connection, job_id=lane.seed.job_id, lanes=[lane.pk])

    assert run() == (0, ["manual: 5 documents, as counted"])
