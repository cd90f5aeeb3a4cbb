"""Proves that the recruiter assigns each task to the right worker, and notices lost workers."""

import datetime as dt
from uuid import UUID

from nodes.tasks.decisions import MOST_A_GROUP, DueTask, FreeWorker, Retire, WorkerSeen, assign, groups_wanted, retire

NOON = dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC)


def worker(number, work_on="*"):
    return FreeWorker(UUID(int=number), work_on)


def task(number, group="generic", *, minutes=0):
    return DueTask(number, group, NOON + dt.timedelta(minutes=minutes))


def assigned_tasks(workers, tasks):
    """Return the numbers of the assigned tasks. The key is the number of the worker."""
    return {pair.worker.int: pair.task for pair in assign(workers, tasks)}


def test_without_workers_no_task_is_assigned():
    assert assign([], [task(1)]) == []


def test_the_oldest_due_task_of_a_group_goes_first():
    tasks = [task(1, minutes=3), task(2, minutes=1), task(3, minutes=2)]

    assert assigned_tasks([worker(1), worker(2)], tasks) == {1: 2, 2: 3}


def test_a_worker_gets_only_tasks_of_its_group():
    assert assigned_tasks([worker(1, "mail")], [task(1, "export"), task(2, "mail", minutes=9)]) == {1: 2}


def test_a_worker_for_any_group_takes_the_oldest_of_all_groups():
    assert assigned_tasks([worker(1)], [task(1, "mail", minutes=2), task(2, "export", minutes=1)]) == {1: 2}


def test_a_worker_of_a_group_comes_before_a_worker_for_any_group():
    workers = [worker(1), worker(2, "mail")]

    assert assigned_tasks(workers, [task(1, "mail"), task(2, "export", minutes=5)]) == {2: 1, 1: 2}


def test_a_cycle_assigns_a_limited_number_of_tasks_to_a_group():
    workers = [worker(number) for number in range(100)]

    assert len(assigned_tasks(workers, [task(number) for number in range(200)])) == MOST_A_GROUP


def test_a_task_that_was_read_twice_is_assigned_once():
    assert assigned_tasks([worker(1), worker(2)], [task(1), task(1)]) == {1: 1}


def test_due_tasks_are_read_for_each_free_worker():
    assert groups_wanted([worker(1, "mail"), worker(2, "mail"), worker(3)]) == {"mail": 2, "*": 3}


def test_a_worker_is_lost_after_its_silence_or_once_its_process_has_ended():
    seen = [
        WorkerSeen(id=UUID(int=1), silence=dt.timedelta(minutes=31), is_gone=False),
        WorkerSeen(id=UUID(int=2), silence=dt.timedelta(minutes=29), is_gone=False),
        WorkerSeen(id=UUID(int=3), silence=dt.timedelta(0), is_gone=True),
    ]

    assert retire(seen, dead_after=dt.timedelta(minutes=30)) == [
        Retire(UUID(int=1), "it was silent for 1860 s"),
        Retire(UUID(int=3), "its process has ended"),
    ]
