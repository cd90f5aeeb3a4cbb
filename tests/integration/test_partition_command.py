"""`manage.py partition list` shows the partitions as the control partition sees them."""

import datetime as dt
import json

from django.core.management import call_command

from jobs.models import PartitionedJob
from jobs.partitions.facts import tell
from jobs.queries.jobs.counts import count_present_runs
from jobs.queries.partitions import LIFE, life_of
from tests.integration.test_partitioned_runs import here, main  # noqa: F401 (fixtures)
from tests.support.cluster import NOON
from tests.support.factories import make_documents, make_lane, make_running_job

SECONDS = dt.timedelta(seconds=2)


def shown(capsys, *words):
    call_command("partition", "list", *words)
    return capsys.readouterr().out.splitlines()


def test_a_database_without_partitions_says_so(connection, capsys):
    assert shown(capsys) == ["This database is the only one: CRAWLCTL_PARTITIONS names no other."]


def test_the_list_has_shares_documents_and_the_age_of_figures(connection, here, capsys):  # noqa: F811
    here("a")
    tell(connection, "b", "a", LIFE, {"documents": 3, "at": "2026-11-24T16:00:00Z"})

    of_a, of_b = (json.loads(line) for line in shown(capsys, "--json"))

    assert (of_a["name"], of_a["control"], of_a["here"], of_a["slots"]) == ("a", True, True, 512)
    assert (of_b["name"], of_b["control"], of_b["documents"], of_b["receives"]) == ("b", False, 3, False)
    assert of_b["sent_at"] is not None
    assert "takes no rows of this partition now" in shown(capsys)[1]


def test_the_page_and_the_api_show_a_silent_partition(connection, here, client, admin_user):  # noqa: F811
    here("a")
    tell(connection, "b", "a", LIFE, {"documents": 1234, "rate": 2.5})
    connection.execute("UPDATE jobs_partitionfact SET sent_at = now() - interval '10 minutes'")
    client.force_login(admin_user)

    page = client.get("/cluster/partitions/").content.decode()
    of_a, of_b = client.get("/api/v1/cluster/partitions/").json()

    assert "1,234" in page
    assert "10 min ago" in page
    assert (of_a["here"], of_a["control"], of_a["silent"]) == (True, True, False)
    assert (of_b["documents"], of_b["rate"], of_b["silent"], of_b["receives"]) == (1234, 2.5, True, False)


def test_a_database_without_partitions_has_an_empty_page(client, admin_user):
    client.force_login(admin_user)

    assert "This database is the only one." in client.get("/cluster/partitions/").content.decode()
    assert client.get("/api/v1/cluster/partitions/").json() == []


def test_a_partition_notes_its_rate():
    first = life_of(None, processed=100, waiting=5, now=NOON)
    second = life_of(first, processed=120, waiting=0, now=NOON + SECONDS)
    next_run = life_of(second, processed=0, waiting=9, now=NOON + 2 * SECONDS)

    assert (first["documents"], first["rate"]) == (105, 0.0)
    assert second["rate"] == 3.0
    assert next_run["rate"] == 2.1


def test_the_counts_of_a_job_contain_those_of_other_partitions(connection, main, here):  # noqa: F811
    here("a")
    running = make_running_job(main.node)
    PartitionedJob.objects.create(job=running.job, number=running.job.pk)
    make_documents(make_lane(running.seed), ["page"])
    for run_no, indexed in ((1, 5), (2, 7)):
        body = {"run_no": run_no, "counts": {"indexed": indexed}}
        tell(connection, "b", "a", f"figures:{running.job.pk}", body)
        expected = indexed if run_no == 1 else 0
        assert count_present_runs([running.job.pk])[running.job.pk].indexed == expected
