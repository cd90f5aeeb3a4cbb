"""Proves that facts between partitions cost few statements, and that facts of a deleted job are deleted."""

import pytest
from django.db import connection as django
from django.test.utils import CaptureQueriesContext

from jobs.duties.exchange import keep_exchange, send_figures
from jobs.duties.partitioned_following import follow_runs
from jobs.duties.partitioned_runs import lead_runs
from jobs.lifecycle.job import Phase, StopRequest
from jobs.models import ForeignReference, Job, PartitionedJob, PartitionFact
from jobs.partitions import this_partition as partitions
from jobs.partitions.facts import FactSender, not_adopted, note_adopted, read_facts, send_fact, sent_fact
from tests.support.factories import hash_of, make_job
from tests.support.partitions import WANTED, Follower, Leader, be_partition, receive_fact
from tests.support.stepping import Main

MANY = 20


@pytest.fixture
def leader(connection, settings):
    be_partition(settings, "a")
    return Leader(connection, Main(connection))


@pytest.fixture
def follower(connection, settings):
    be_partition(settings, "b")
    return Follower(connection, Main(connection))


def count_statements(connection, step):
    """Return the number of statements that a step sends, over the connection of duties and over that of Django."""
    sent = []
    execute = connection.execute
    connection.execute = lambda *given, **options: sent.append(given) or execute(*given, **options)
    try:
        with CaptureQueriesContext(django) as others:
            step()
    finally:
        del connection.execute
    return len(sent) + len(others)


def numbers_sent():
    return set(PartitionFact.objects.values_list("source", "number"))


def share_idle_jobs():
    for number in range(MANY):
        job = make_job(f"idle {number}")
        PartitionedJob.objects.create(job=job, number=job.pk + 100)


# --- Cost ----------------------------------------------------------------------------------------


def test_a_pass_of_the_control_partition_sends_no_unchanged_fact(leader):
    leader.leads()
    before = numbers_sent()

    leader.main.step(lead_runs)

    assert numbers_sent() == before


def test_idle_jobs_add_no_statement_to_a_pass_of_the_control_partition(leader, connection):
    leader.leads()
    with_one_job = count_statements(connection, lambda: leader.main.step(lead_runs))
    share_idle_jobs()
    leader.main.step(lead_runs)

    assert count_statements(connection, lambda: leader.main.step(lead_runs)) == with_one_job


def test_idle_jobs_add_no_statement_to_a_pass_of_a_following_partition(follower, connection):
    follower.knows()
    follower.follows()
    follower.main.step(follow_runs, send_figures)
    with_one_job = count_statements(connection, lambda: follower.main.step(follow_runs, send_figures))
    with partitions.following():
        share_idle_jobs()
    for number in PartitionedJob.objects.values_list("number", flat=True):
        receive_fact(connection, "a", "b", f"run:{number}", WANTED | {"run_no": 0, "is_running": False})
    follower.main.step(follow_runs, send_figures)
    before = numbers_sent() - newest_life()

    statements = count_statements(connection, lambda: follower.main.step(follow_runs, send_figures))

    assert statements == with_one_job
    assert numbers_sent() - newest_life() == before


def newest_life():
    """Return the partition and the number of each sign of life. A partition sends one every two seconds."""
    return set(PartitionFact.objects.filter(key="life:all").values_list("source", "number"))


# --- Deleted jobs --------------------------------------------------------------------------------


def living(connection, *numbers, highest=9):
    receive_fact(connection, "a", "b", "jobs:all", {"numbers": list(numbers), "highest": highest})


def test_the_control_partition_sends_the_list_of_its_jobs(leader, connection):
    leader.leads()
    highest = leader.number
    assert sent_fact(connection, "a", "b", "jobs:all") == {"numbers": [highest], "highest": highest}

    Job.objects.update(phase=Phase.READY_FOR_DELETE)
    leader.main.step(lead_runs)

    assert sent_fact(connection, "a", "b", "jobs:all") == {"numbers": [], "highest": highest}


def test_a_job_deleted_by_the_control_partition_is_aborted_then_deleted(follower, connection):
    follower.knows()
    living(connection)
    follower.main.step(follow_runs)
    assert Job.objects.get().stop_request == StopRequest.ABORT

    Job.objects.update(phase=Phase.INACTIVE, stop_request=StopRequest.NONE)
    follower.main.step(follow_runs)

    assert Job.objects.get().phase == Phase.READY_FOR_DELETE


def test_a_job_with_a_number_above_all_received_ones_is_not_deleted(follower, connection):
    follower.knows()
    living(connection, highest=6)

    follower.main.step(follow_runs)

    assert (Job.objects.get().phase, Job.objects.get().stop_request) == (Phase.ACTIVE, StopRequest.NONE)


def test_a_deleted_job_leaves_no_facts(leader, connection, monkeypatch):
    leader.leads()
    leader.receive()
    receive_fact(connection, "b", "a", f"figures:{leader.number}", {"run_no": 1})
    monkeypatch.setattr("jobs.duties.exchange.keep_publications", lambda *_: 0)
    monkeypatch.setattr("jobs.duties.exchange.keep_subscriptions", lambda *_: 0)
    monkeypatch.setattr("jobs.duties.exchange.begin_again_after_restore", lambda *_: 0)
    leader.main.step(keep_exchange)
    assert PartitionFact.objects.filter(key__endswith=f":{leader.number}").count() == 4

    send_reference("a", job_number=leader.number)
    PartitionedJob.objects.all().delete()
    leader.main.step(lead_runs, keep_exchange)

    assert not ForeignReference.objects.exists()
    assert set(PartitionFact.objects.values_list("key", flat=True)) == {"jobs:all", "slots:all"}


def send_reference(source, **facts):
    usual = {"number": 1, "target": "b", "run_no": 1, "identifier": "x", "bin": "x", "depth": 1, "redirects": 0}
    hashes = dict.fromkeys(("hash", "seed", "found_on"), hash_of("x"))
    ForeignReference.objects.create(source=source, tracks_depth=False, **usual, **hashes, **facts)


def test_one_query_reads_the_newest_received_and_sent_facts(connection):
    receive_fact(connection, "a", "b", "run:1", {"round": 1})
    receive_fact(connection, "a", "b", "run:1", {"round": 2})
    receive_fact(connection, "a", "b", "job:1", {"definitions": []})
    send_fact(connection, "b", "a", "run:1", {"phase": "active"})
    send_fact(connection, "b", "b", "run:1", {"noted": True})

    received, sender = read_facts(connection, "b", "run")

    assert [(fact.source, fact.key, fact.body) for fact in received] == [("a", "run:1", {"round": 2})]
    assert (sender.last("a", "run:1"), sender.last("b", "run:1")) == ({"phase": "active"}, {"noted": True})
    assert not sender.send("a", "run:1", {"phase": "active"})


def test_a_stored_fact_is_not_returned_again_until_a_newer_one_arrives(connection):
    receive_fact(connection, "a", "b", "job:1", {"definitions": ["one"]})
    [fact] = not_adopted(connection, "b", kind="job")
    note_adopted(connection, "b", fact)
    assert not_adopted(connection, "b", kind="job") == []

    receive_fact(connection, "a", "b", "job:1", {"definitions": ["two"]})

    assert [fact.body for fact in not_adopted(connection, "b", kind="job")] == [{"definitions": ["two"]}]


def test_a_fact_of_a_kind_that_was_not_read_before_is_sent_once(connection):
    sender = FactSender(connection, "a", "run")

    assert sender.send("b", "job:1", {"definitions": []})
    assert not FactSender(connection, "a", "run").send("b", "job:1", {"definitions": []})
