"""The records of distributed jobs show the state of each job, and the disabled jobs."""

import datetime as dt

import psycopg
import pytest

from nodes.distributed import JobContext, Switches
from nodes.distributed.engine.execution import JobRuns
from nodes.distributed.engine.status import JobStatus, ManagerStatus
from nodes.distributed.models import DistributedJobOnNode, DistributedJobSwitch, RedistributionRequest
from nodes.distributed.records import ALL, OTHERS, ForgetSilentNodes, JobRecords
from tests.support.cluster import NOON, TIMEOUT


@pytest.fixture
def records(dsn):
    opened = JobRecords(dsn=dsn, cluster="jobs", node="node-1", timeout=TIMEOUT)
    yield opened
    opened.close()


def status_of(**runs):
    job = JobStatus(job="mails", is_disabled=False, pool=frozenset("ab"), problem="", runs=JobRuns(**runs))
    return ManagerStatus(node="node-1", is_member=True, leadership=None, refusal="", jobs={"mails": job})


def disable(job, *, is_disabled=True, cluster="jobs"):
    DistributedJobSwitch.objects.create(cluster=cluster, job=job, is_disabled=is_disabled, changed_at=NOON)


def test_the_latest_report_of_a_node_about_its_jobs_applies(records):
    records.note(status_of(items=frozenset("ab"), runs=1, next_at=NOON))
    records.note(
        status_of(items=frozenset("a"), runs=2, failures=1, last_failure="OSError: \0\udcff", last_began_at=NOON)
    )

    (row,) = DistributedJobOnNode.objects.all()
    assert (row.cluster, row.job, row.node) == ("jobs", "mails", "node-1")
    assert (row.items, row.runs, row.failures, row.last_failure) == (["a"], 2, 1, "OSError: ??")
    assert (row.last_began_at, row.next_at) == (NOON, None)


def test_a_leaving_process_is_deleted_from_the_database(records):
    records.note(status_of())

    records.leave()

    assert not DistributedJobOnNode.objects.exists()


def test_a_cluster_reads_only_its_own_switches(records):
    disable("mails")
    disable("reports", is_disabled=False)
    disable(OTHERS)
    disable(ALL, cluster="another")

    found = records.read_switches()

    assert found == Switches(disabled_by_default=True, disabled={"mails": True, "reports": False})
    disable(ALL)
    assert records.read_switches().all_disabled


def test_the_latest_rebalance_request_of_the_cluster_is_read(records):
    assert records.read_redistribution_request() is None

    RedistributionRequest.objects.create(cluster="jobs", asked_at=NOON, asked_by="ann")

    assert records.read_redistribution_request() == NOON


def test_records_are_written_again_after_a_lost_connection(records, connection):
    records.read_switches()
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'node-1 job records'"
    )

    with pytest.raises(psycopg.OperationalError):
        records.read_switches()

    assert records.read_switches() == Switches()


def test_records_of_nodes_that_ended_without_notice_are_deleted(records, dsn):
    records.note(status_of())
    (long_ago,) = DistributedJobOnNode.objects.all()
    DistributedJobOnNode.objects.update(node="silent", seen_at=long_ago.seen_at - dt.timedelta(days=2))
    records.note(status_of())

    ForgetSilentNodes(dsn=dsn, timeout=TIMEOUT).run(JobContext({"singleton"}))

    assert [row.node for row in DistributedJobOnNode.objects.all()] == ["node-1"]
