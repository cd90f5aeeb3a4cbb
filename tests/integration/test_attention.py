"""The attention list is the same on the overview, in the API and in `manage.py status`."""

import datetime as dt
import json
import os
import time
from io import StringIO
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.utils import timezone

from crawlctl.drill.models import Drill
from jobs.attention.sources import read_attention
from jobs.lifecycle.document import Stage
from jobs.models import Bin, Job, JobEvent, Lane, LaneState, Outcome, Run, Seed, ThrottleGroup
from jobs.queries.overview import read_overview
from jobs.ui.overview_screen import overview_screen
from jobs.verbs import hosts
from nodes.models import Node
from tests.support.api import client_of
from tests.support.cluster import NOON, register_node
from tests.support.factories import count_folded, make_bin, make_job, make_lane, make_running_job
from tests.support.stepping import Manager


def kinds():
    return [line.kind for line in read_attention(now=timezone.now())]


def lines_of(kind):
    return [line for line in read_attention(now=timezone.now()) if line.kind == kind]


def shown():
    now = timezone.now()
    return overview_screen(read_overview(now=now), read_attention(now=now), now=now)["attention"]


def status():
    """Return the exit code and the output of `manage.py status`."""
    out = StringIO()
    try:
        call_command("status", stdout=out)
    except CommandError as ended:
        return ended.returncode, out.getvalue()
    return 0, out.getvalue()


def fail(node):
    Node.objects.filter(pk=node.id).update(
        status="failed", stopped_at=timezone.now(), reason="its process no longer exists"
    )


@pytest.fixture
def cluster(connection):
    """Return a live manager and a live worker."""
    return Manager(connection).node, register_node(connection, "worker", name="worker-1")


def test_nothing_needs_attention_in_a_healthy_cluster(cluster):
    make_running_job(cluster[0])

    assert read_attention(now=timezone.now()) == []
    assert shown() == []
    assert status() == (0, "Nothing needs attention.\n")


def test_page_api_and_command_show_the_same_lost_worker(connection, cluster):
    fail(register_node(connection, "worker", name="worker-2"))

    (line,) = read_attention(now=timezone.now())
    answer = client_of("viewer").get("/api/v1/attention/").json()

    assert (line.kind, line.subject, line.link) == ("node_lost", "worker-2", "/nodes/")
    assert "its process no longer exists" in line.sentence
    assert [row["says"] for row in shown()] == [line.sentence]
    assert [row["sentence"] for row in answer["results"]] == [line.sentence]
    code, printed = status()
    assert code == 1
    assert line.sentence in printed


def test_a_failed_job_is_listed_even_among_many_other_jobs(cluster):
    now = timezone.now()
    failed, refused, missing, full = (make_running_job(cluster[0]).job for _ in range(4))
    Job.objects.filter(pk=failed.pk).update(phase="inactive", run_end="error", reason="The disk is full", ended_at=now)
    Run.objects.create(job=failed, run_no=1, started_at=NOON, ended_at=now, run_end="error")
    Job.objects.filter(pk=refused.pk).update(pause="paused", reason="the output refused")
    JobEvent.objects.create(job=refused, kind="pause", made_by="worker", at=now, job_name="", message="")
    Job.objects.filter(pk=missing.pk).update(connectors_ready=False)
    Job.objects.filter(pk=full.pk).update(archive_hold="A store refused")
    usual = {"repository": failed.repository, "phase": "active", "node_scope": failed.node_scope}
    Job.objects.bulk_create(Job(name=f"other {n}", started_at=now, **usual) for n in range(60))

    assert sorted(kinds()) == ["archive_is_full", "connector_missing", "job_fails", "output_refuses"]


def test_more_failed_jobs_than_are_shown_are_counted(cluster):
    now = timezone.now()
    facts = {"repository": make_running_job(cluster[0]).job.repository, "run_no": 1, "run_end": "error"}
    jobs = Job.objects.bulk_create(Job(name=f"ended {n}", ended_at=now, **facts) for n in range(60))
    Run.objects.bulk_create(Run(job=job, run_no=1, started_at=NOON, ended_at=now, run_end="error") for job in jobs)

    lines = lines_of("job_fails")

    assert len(lines) == 11
    assert lines[-1].sentence == "At least 50 more are not shown."


def test_a_lost_node_that_was_replaced_needs_no_attention(connection, cluster):
    lost = register_node(connection, "worker", name="worker-2")
    fail(lost)
    assert kinds() == ["node_lost"]

    register_node(connection, "worker", name="worker-2")

    assert kinds() == []


def test_a_lost_node_is_listed_even_if_many_nodes_stopped_later(connection, cluster):
    fail(register_node(connection, "worker", name="worker-2"))
    stopped = {"kind": "worker", "status": "stopped", "started_at": timezone.now(), "stopped_at": timezone.now()}
    like = Node.objects.get(pk=cluster[1].id)
    common = {
        "scope": like.scope,
        "host": like.host,
        "pid": like.pid,
        "heartbeat_at": like.heartbeat_at,
        "timeout_seconds": 30,
    }
    Node.objects.bulk_create(Node(id=uuid4(), name=f"other-{n}", **stopped, **common) for n in range(101))

    assert [line.subject for line in lines_of("node_lost")] == ["worker-2"]


def test_a_node_that_was_lost_days_ago_is_no_longer_listed(connection, cluster):
    lost = register_node(connection, "worker", name="worker-2")
    Node.objects.filter(pk=lost.id).update(
        status="failed", started_at=NOON.replace(year=2020), stopped_at=NOON.replace(year=2020)
    )

    assert kinds() == []


def test_a_live_node_that_is_silent_needs_attention(connection, cluster):
    Node.objects.filter(pk=cluster[1].id).update(heartbeat_at=NOON.replace(year=2020))

    (line,) = lines_of("node_silent")

    assert line.subject == "worker-1"
    assert line.since == NOON.replace(year=2020)


def test_running_jobs_without_a_manager_or_a_worker_need_attention(cluster):
    make_running_job(cluster[0])
    Node.objects.update(status="stopped", stopped_at=timezone.now())

    assert kinds() == ["no_manager", "no_worker"]

    Job.objects.update(phase="inactive")
    assert kinds() == []


def test_a_group_that_cannot_be_stuffed_needs_attention(cluster):
    running = make_running_job(cluster[0])
    ThrottleGroup.objects.filter(pk=running.group.id).update(
        failing_since=NOON, failing_why="ValueError: no such thing"
    )

    (line,) = lines_of("group_fails")

    assert "ValueError: no such thing" in line.sentence
    assert line.since == NOON


def count(running, lane, amount, *, stage=Stage.PENDING, outcome=0, code=""):
    facts = {"job_id": running.job.pk, "run_no": running.job.run_no, "measure": "stage"}
    count_folded(lane_id=lane.pk, stage=stage, outcome=outcome, code=code, amount=amount, **facts)


def test_a_stopped_host_needs_attention_while_its_documents_wait(cluster):
    running = make_running_job(cluster[0])
    lane = make_lane(running.seed, "stopped.example")
    hosts.stop(lane.bin_id, reason="they asked us to", made_by="olga", now=NOON)
    assert kinds() == []

    count(running, lane, 3)

    (line,) = lines_of("host_stopped")
    assert line.link == f"/hosts/{lane.bin_id}/"
    assert line.sentence == (
        "olga stopped stopped.example: they asked us to. 3 documents wait there. Release the host when the reason no longer applies."
    )
    Bin.objects.update(stopped_at=None)
    assert kinds() == []


def test_a_stopped_host_is_listed_even_among_many_without_documents(cluster):
    for number in range(51):
        make_bin(f"other{number}.example", stopped_at=NOON)
    running = make_running_job(cluster[0])
    lane = make_lane(running.seed, "stopped.example")
    hosts.stop(lane.bin_id, reason="they asked us to", made_by="olga", now=NOON)
    count(running, lane, 3)

    (line,) = lines_of("host_stopped")

    assert line.subject == "stopped.example"


def test_a_stopped_host_of_many_seeds_shows_that_its_number_is_a_lower_bound(cluster):
    stopped = make_bin("stopped.example")
    inactive, running = make_job(), make_running_job(cluster[0])
    for job in (inactive, running.job):
        seeds = Seed.objects.bulk_create(Seed(job=job, urls=[f"http://{n}.example/"]) for n in range(205))
        with transaction.atomic():
            lanes = Lane.objects.bulk_create(Lane(seed=seed, bin=stopped) for seed in seeds)
            LaneState.objects.bulk_create(LaneState(lane=lane, seed=lane.seed, bin=stopped) for lane in lanes)
    hosts.stop(stopped.pk, reason="they asked us to", made_by="olga", now=NOON)
    for lane in lanes:
        count(running, lane, 1)

    (line,) = lines_of("host_stopped")

    assert "documents wait there. There can be more: only documents of 200 seeds are counted." in line.sentence


def test_documents_that_ended_as_denied_need_attention_while_the_job_runs(cluster):
    running = make_running_job(cluster[0], name="news")
    count(running, make_lane(running.seed), 194, stage=Stage.DONE, outcome=Outcome.EXCLUDED, code="DENIED")

    (line,) = lines_of("documents_denied")

    assert line.sentence == "194 documents of job news were not read: their hosts are denied or stopped."
    assert line.link == f"/documents/?job={running.job.pk}&code=DENIED"
    Job.objects.update(phase="inactive")
    assert kinds() == []


def test_the_status_command_prints_json_for_programs(connection, cluster):
    fail(register_node(connection, "worker", name="worker-2"))
    out = StringIO()

    with pytest.raises(CommandError):
        call_command("status", "--json", stdout=out)

    (line,) = json.loads(out.getvalue())
    assert (line["kind"], line["severity"], line["link"]) == ("node_lost", "critical", "/nodes/")


@pytest.mark.django_db
def test_an_old_backup_needs_attention(settings, tmp_path):
    assert lines_of("backup_old") == []

    settings.CRAWLCTL_BACKUP_FILE = str(tmp_path / "backup")
    [line] = lines_of("backup_old")
    assert "does not exist" in line.sentence

    (tmp_path / "backup").touch()
    assert lines_of("backup_old") == []

    days_ago = time.time() - 50 * 3600
    os.utime(tmp_path / "backup", (days_ago, days_ago))
    [line] = lines_of("backup_old")
    assert line.sentence.startswith("The last backup is 50 hours old (limit: 36).")

    settings.CRAWLCTL_BACKUP_MAX_AGE = dt.timedelta(0)
    assert lines_of("backup_old") == []


def write_log_state(settings, folder, **facts):
    settings.VAR_DIR, settings.CRAWLCTL_BACKUP_STORE, settings.CRAWLCTL_DATABASE_URL = folder, "/mnt/backups", ""
    settings.CRAWLCTL_DRILL_MAX_AGE = dt.timedelta(0)
    (folder / "wal").mkdir(exist_ok=True)
    known = {"store": "", "system": "", "segment": "", "reached": "", "gap_at": "", "problem": ""}
    (folder / "wal" / "state.json").write_text(json.dumps({**known, **facts}))


@pytest.mark.django_db
def test_an_old_or_interrupted_log_of_backups_needs_attention(settings, tmp_path):
    now = dt.datetime.now(dt.UTC)
    write_log_state(settings, tmp_path, reached=now.isoformat())
    assert lines_of("backup_old") == []

    before = (now - dt.timedelta(minutes=20)).isoformat()
    write_log_state(settings, tmp_path, reached=before, problem="dir:/mnt/backups: no space left")
    [line] = lines_of("backup_old")
    assert line.sentence == (
        "The newest part of the stored write-ahead log is 20 minutes old (limit: 15). dir:/mnt/backups: no space left."
    )

    write_log_state(settings, tmp_path, reached=now.isoformat(), gap_at=before)
    [line] = lines_of("backup_old")
    assert "has a gap at" in line.sentence
    (tmp_path / "last-backup").touch()
    assert lines_of("backup_old") == []


@pytest.mark.django_db
def test_an_old_or_failed_drill_of_a_restore_needs_attention(settings):
    assert lines_of("backup_old") == []
    settings.CRAWLCTL_BACKUP_STORE, settings.CRAWLCTL_BACKUP_LOG_MAX_AGE = "/mnt/backups", dt.timedelta(0)
    [line] = lines_of("backup_old")
    assert line.sentence == "No drill of a restore was run yet. Run one: crawlctl drill restore."

    made = {"fault": "restore", "whom": "database", "node": "x", "where": "sandbox"}
    drill = Drill.objects.create(**made, is_good=True, report={"missing": []})
    assert lines_of("backup_old") == []
    Drill.objects.filter(pk=drill.pk).update(at=dt.datetime.now(dt.UTC) - dt.timedelta(days=40))
    [line] = lines_of("backup_old")
    assert line.sentence.startswith("The last drill of a restore is 40 days old (limit: 35).")

    Drill.objects.create(**made, is_good=False, report={"missing": ["the log is damaged"]})
    [line] = lines_of("backup_old")
    assert line.sentence == "The last drill of a restore failed: the log is damaged"
