"""`manage.py partition list` shows the partitions as the control partition sees them."""

import json

from django.core.management import call_command

from jobs.models import PartitionedJob
from jobs.partitions.facts import tell
from jobs.queries.jobs.counts import count_present_runs
from jobs.queries.partitions import LIFE
from tests.integration.test_partitioned_runs import here, main  # noqa: F401 (fixtures)
from tests.support.factories import make_documents, make_lane, make_running_job


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
