"""
Proves that pages, the API and commands show the verdict of a crawl. While documents wait, there is always a verdict.
"""

import datetime as dt
import re
import uuid
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from jobs.attention.sources import read_attention
from jobs.checks.job_options import store_windows
from jobs.connectors.repository.base import hash_of
from jobs.lifecycle.document import Stage
from jobs.lifecycle.schedule import Window
from jobs.models import Activity, BinState, Charge, Counter, Job, JobCounter, JobEvent, Outcome, QueueItem
from jobs.queries.jobs.page import read_job_page
from jobs.ui.topics import host_topic, job_topic, read_screen
from nodes.models import Node
from tests.support.api import client_of
from tests.support.cluster import register_node
from tests.support.factories import count_folded, make_documents, make_lane, make_policy, make_running_job
from tests.support.stepping import Manager

HOST = "refuses.example"


class Crawl:
    """A running job with ten waiting documents at one host, in a cluster with a live worker."""

    def __init__(self, connection):
        self.manager = Manager(connection)
        self.worker = register_node(connection, "worker", name="worker-1")
        self.running = make_running_job(
            self.manager.node,
            policy=make_policy("gentle", open_requests=2, min_gap=1.0),
            name="news",
        )
        self.job = self.running.job
        Job.objects.update(started_at=timezone.now() - dt.timedelta(hours=1))
        self.lane = make_lane(self.running.seed, HOST)
        make_documents(self.lane, 10)
        self.count(10, stage=Stage.PENDING)
        self.viewer = client_of("viewer")

    def count(self, amount, *, stage=Stage.DONE, outcome=0, code=""):
        facts = {"job_id": self.job.pk, "run_no": self.job.run_no, "measure": "stage"}
        count_folded(lane_id=self.lane.pk, stage=stage, outcome=outcome, code=code, amount=amount, **facts)

    def empty_the_queue(self):
        Counter.objects.filter(stage=Stage.PENDING).delete()
        JobCounter.objects.filter(stage=Stage.PENDING).delete()

    def request(self, code, *, amount=1, ago=10.0, seconds=0.01, host=HOST):
        """Add requests with this code to the history."""
        Activity.objects.bulk_create(
            Activity(
                started_at=timezone.now() - dt.timedelta(seconds=ago),
                seconds=seconds,
                job=self.job,
                repository=self.job.repository,
                activity="fetch",
                entity=f"http://{host}/{number}",
                result_code=code,
            )
            for number in range(amount)
        )

    def serve(self, *, in_progress, open_now):
        """Give the worker a turn of the host with `in_progress` documents. It reads `open_now` of them."""
        self.count(in_progress, stage=Stage.ACTIVE)
        BinState.objects.filter(bin=self.lane.bin_id).update(open_turns=1, open_requests=2)
        Node.objects.filter(pk=self.worker.id).update(progress={"open": {str(self.lane.bin_id): open_now}})

    def host(self):
        return read_screen(host_topic(self.lane.bin_id))

    def page(self):
        return read_screen(job_topic(self.job.pk))

    def story(self):
        document = QueueItem.objects.filter(job=self.job).first()
        return self.viewer.get(f"/documents/{self.job.pk}/{document.hash.hex}/").content.decode()


@pytest.fixture
def crawl(connection):
    return Crawl(connection)


def attention():
    return [(line.kind, line.subject) for line in read_attention(now=timezone.now())]


def test_a_site_that_refuses_every_connection_is_failing_everywhere(crawl):
    crawl.request("REFUSED", amount=60)
    crawl.serve(in_progress=2, open_now=0)
    sentence = "60 of the last 60 requests failed (REFUSED)."

    overview, host, page = read_screen("overview"), crawl.host(), crawl.page()

    assert (overview["headline"], overview["headline_tone"]) == ("Failing", "failed")
    assert overview["headline_detail"].startswith(sentence)
    assert (host["cause"], host["tone"]) == ("failing", "failed")
    assert host["says"].startswith(sentence)
    assert page["says"].startswith(sentence)
    assert page["hosts"][0]["waits"].startswith(sentence)
    assert sentence in crawl.story()
    (listed,) = crawl.viewer.get("/api/v1/hosts/").json()["results"]
    assert listed["limited_by"]["is_failing"]
    assert listed["limited_by"]["sentence"].startswith(sentence)
    out = StringIO()
    call_command("host", HOST, stdout=out)
    assert sentence in out.getvalue()
    assert attention() == [("job_fails", "news"), ("host_fails", HOST)]


@pytest.mark.parametrize(("failed", "needs"), [(49, False), (50, True)])
def test_a_host_with_half_of_its_latest_requests_failed_needs_attention(crawl, failed, needs):
    crawl.request("500", amount=60, ago=300)
    crawl.request("200", amount=100 - failed, ago=30)
    crawl.request("503", amount=failed, ago=20)

    assert (("job_fails", "news") in attention()) == needs


def test_old_requests_and_other_hosts_do_not_count_for_a_host(crawl):
    crawl.request("REFUSED", amount=60, ago=3600)
    crawl.request("REFUSED", amount=60, host="another.example")

    assert crawl.host()["cause"] != "failing"


def test_the_start_of_a_failure_is_shown_only_if_it_is_known(crawl):
    crawl.request("REFUSED", amount=60, ago=30)
    assert crawl.host()["since"].startswith("Since ")

    crawl.request("REFUSED", amount=60, ago=595)

    assert (crawl.host()["cause"], crawl.host()["since"]) == ("failing", "")


def test_a_slow_host_is_limited_by_its_connections_and_shows_their_use(crawl):
    crawl.request("200", amount=30, seconds=4.0)
    crawl.serve(in_progress=6, open_now=2)

    host = crawl.host()

    assert host["cause"] == "held by connections"
    assert host["says"] == "2 of 2 connections are busy; an answer takes 4 s: policy “gentle”."
    assert host["remedy"] == "Raise the limit of open requests in the policy."
    assert host["open"] == "2"


def test_documents_that_wait_at_a_worker_count_as_a_queue(crawl):
    crawl.empty_the_queue()
    crawl.serve(in_progress=48, open_now=1)

    assert crawl.host()["cause"] == "held by policy"
    assert crawl.page()["says"] == "At most one start every 1 s: policy “gentle”."
    assert "Hosts: 1 held by policy." in read_screen("overview")["headline_detail"]


def pause(crawl, *, by="olga", reason=""):
    Job.objects.update(pause="paused", reason=reason)
    facts = {"job": crawl.job, "job_name": "news", "made_by": by, "message": "was asked to pause"}
    JobEvent.objects.create(kind="pause", at=timezone.now() - dt.timedelta(minutes=5), **facts)
    JobEvent.objects.create(kind="halt", at=timezone.now(), **(facts | {"made_by": "manager"}))


def test_a_paused_job_names_its_operator_and_gives_no_time_left(crawl):
    pause(crawl)

    overview, page, host = read_screen("overview"), crawl.page(), crawl.host()

    assert (overview["headline"], overview["headline_detail"]) == ("Paused", "olga paused the job 5 min ago.")
    assert page["says"] == "olga paused the job 5 min ago."
    assert (page["left"], page["waiting"]) == ("—", "10")
    assert page["hosts"][0]["waits"] == "olga paused the job 5 min ago."
    assert host["says"] == "10 documents wait, and their jobs are paused or wait for their windows."
    assert "The document waits. olga paused the job 5 min ago. Resume the job." in crawl.story()


def test_a_job_that_its_output_refused_waits_for_that_output(crawl):
    pause(crawl, by="worker", reason="jsonl: the disk is full.")

    page = crawl.page()

    assert page["says"] == "The job was paused 5 min ago since an output refused: jsonl: the disk is full."
    assert attention() == [("output_refuses", "news")]


def test_every_list_shows_until_when_a_job_waits_for_its_window(crawl):
    until = "outside its window until Tue 1 Jan 2030 22:00 UTC"
    Job.objects.update(window="outside", reason=until)

    (row,) = read_screen("overview")["jobs"]

    assert row["reason"] == crawl.page()["hosts"][0]["waits"] == f"The job is {until}."


def test_the_overview_counts_each_host_under_one_cause(crawl):
    for host in ("fine.example", "dead.example"):
        lane = make_lane(crawl.running.seed, host)
        facts = {"job_id": crawl.job.pk, "run_no": 1, "measure": "stage", "stage": Stage.PENDING}
        count_folded(lane_id=lane.pk, amount=5, **facts)
        BinState.objects.filter(bin=lane.bin_id).update(open_turns=1, open_requests=1)
    crawl.request("REFUSED", amount=10, host="dead.example")
    crawl.request("200", amount=30, host="fine.example")

    detail = read_screen("overview")["headline_detail"]

    numbers = [int(number) for number in re.findall(r"(\d+) [a-z]", detail.split("Hosts: ")[1])]
    assert "1 failing" in detail
    assert sum(numbers) == 3, detail


def test_jobs_wait_for_free_disk_space_if_no_worker_has_any(crawl):
    lacking = "the disk of the logs has 3 MiB left"
    Node.objects.filter(pk=crawl.worker.id).update(progress={"disk": lacking})

    overview = read_screen("overview")

    assert (overview["headline"], overview["headline_tone"]) == ("No progress", "failed")
    assert overview["headline_detail"] == crawl.page()["says"] == f"No worker takes work: {lacking}."


def test_a_host_with_an_open_turn_and_no_claim_is_shown_as_in_progress(crawl):
    BinState.objects.filter(bin=crawl.lane.bin_id).update(open_turns=1, open_requests=1)

    assert (crawl.host()["in_progress"], crawl.host()["next"]) == ("0", "in progress")


def test_the_verdict_on_a_job_without_a_worker_names_the_command(crawl):
    Node.objects.filter(pk=crawl.worker.id).update(status="stopped", stopped_at=timezone.now())
    sentence = "No worker is running. Start one with “crawlctl runworker”."

    overview = read_screen("overview")

    assert overview["headline_detail"] == overview["jobs"][0]["reason"] == crawl.page()["says"] == sentence


def test_jobs_that_share_a_host_share_its_queue_at_the_worker(crawl):
    crawl.empty_the_queue()
    crawl.serve(in_progress=2, open_now=2)
    other = make_running_job(crawl.manager.node, name="archive")
    facts = {"job_id": other.job.pk, "run_no": 1, "measure": "stage", "stage": Stage.ACTIVE}
    count_folded(lane_id=make_lane(other.seed, HOST).pk, amount=6, **facts)

    at_workers = [read_job_page(job.pk, now=timezone.now()).hosts[0].at_workers for job in (crawl.job, other.job)]

    # Six of the eight documents have not begun.
    assert at_workers == [2, 5]


def test_a_job_without_a_worker_shows_it_although_other_jobs_read_its_host(crawl):
    crawl.serve(in_progress=4, open_now=1)
    other = make_running_job(crawl.manager.node, name="inside")
    other.seed.tag = "intranet"
    other.seed.save()
    lane = make_lane(other.seed, HOST)
    facts = {"job_id": other.job.pk, "run_no": 1, "measure": "stage", "stage": Stage.PENDING}
    count_folded(lane_id=lane.pk, amount=1, **facts)
    (document,) = make_documents(lane, ["inside"])
    sentence = "No running worker has the tag “intranet”."

    page = read_screen(job_topic(other.job.pk))
    story = crawl.viewer.get(f"/documents/{other.job.pk}/{document.hash.hex}/").content.decode()

    assert page["says"].startswith(sentence)
    assert page["hosts"][0]["waits"].startswith(sentence)
    assert sentence in story
    assert sentence not in crawl.page()["says"]


def test_all_parts_of_the_overview_show_the_same_number_of_waiting_documents(crawl):
    crawl.serve(in_progress=7, open_now=2)

    overview = read_screen("overview")

    assert overview["waiting"] == overview["jobs"][0]["waiting"] == "10"
    assert overview["headline_detail"].startswith("10 waiting, 7 in progress.")


def test_a_run_whose_documents_all_failed_is_red_and_needs_attention(crawl):
    crawl.empty_the_queue()
    crawl.count(1, outcome=Outcome.FAILED, code="ADDRESS_FORBIDDEN")
    Job.objects.update(phase="inactive", run_end="finished", ended_at=timezone.now())

    assert attention() == [("job_fails", "news")]
    assert crawl.page()["tone"] == "failed"


def end_run(job, **endings):
    """End the run of the job. Each host in `endings` has one seed that ended with this outcome and code."""
    Job.objects.filter(pk=job.pk).update(phase="inactive", run_end="finished", ended_at=timezone.now())
    for name, (outcome, code) in endings.items():
        make_documents(make_lane(job.seeds.get(), f"{name}.example"), [name], stage=Stage.DONE)
        ended = {"hash": uuid.UUID(hash_of(f"http://{name}.example/")), "outcome": outcome, "result_code": code}
        QueueItem.objects.filter(job=job, identifier=f"http://{name}.example/{name}").update(**ended)


@pytest.mark.parametrize(
    ("second", "fails"), [((Outcome.FAILED, "REFUSED"), True), ((Outcome.UNCHANGED, "304"), False)]
)
def test_a_run_fails_if_none_of_its_seeds_could_be_read(connection, crawl, second, fails):
    running = make_running_job(crawl.manager.node, name="archive", urls=["http://one.example/", "http://two.example/"])
    # Documents of earlier runs have no failure.
    lane = make_lane(running.seed, "three.example")
    facts = {"job_id": running.job.pk, "run_no": 1, "measure": "stage", "stage": Stage.DONE}
    count_folded(lane_id=lane.pk, outcome=Outcome.UNCHANGED, code="304", amount=500, **facts)
    end_run(running.job, one=(Outcome.FAILED, "REFUSED"), two=second)

    lines = [line for line in read_attention(now=timezone.now()) if line.subject == "archive"]

    sentence = "The last run of the job failed: no seed could be read (REFUSED). Repair the cause, then start it again."
    assert [line.sentence for line in lines] == [sentence] * fails
    page = read_screen(job_topic(running.job.pk))
    assert (page["tone"] == "failed") == fails
    assert page["says"].startswith("No seed could be read (REFUSED). The job is not running.") == fails
    assert (page["remedy"] == "Repair the cause, then start the job.") == fails


def test_page_api_and_command_show_a_missed_window(crawl):
    opened = timezone.now().replace(second=0, microsecond=0) - dt.timedelta(minutes=30)
    window = Window(hours=(opened.hour,), minutes=(opened.minute,), duration=dt.timedelta(minutes=10))
    long_ago = opened - dt.timedelta(hours=1)
    store_windows(crawl.job, [window])
    Job.objects.update(
        phase="inactive", start_method="window_begin", schedule_due_at=opened, schedule_checked_at=long_ago
    )

    (line,) = read_attention(now=timezone.now())
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("status", stdout=out)

    assert (line.kind, line.subject, line.since) == ("schedule_missed", "news", opened)
    assert [row["says"] for row in read_screen("overview")["attention"]] == [line.sentence]
    assert [row["sentence"] for row in crawl.viewer.get("/api/v1/attention/").json()["results"]] == [line.sentence]
    assert line.sentence in out.getvalue()


def test_the_chart_keeps_the_past_when_nothing_runs(crawl, monkeypatch):
    monkeypatch.setattr("jobs.queries.jobs.lines.METER.history", lambda _job: [None] * 58 + [40.0, 20.0])
    Job.objects.update(phase="inactive", run_end="finished", ended_at=timezone.now())

    overview = read_screen("overview")

    assert overview["picture"] == "the last 10 s, at most 40 (means of 10 s)"
    assert overview["rate"] == "0"


def test_the_rate_in_the_headline_never_exceeds_the_maximum_of_the_chart(crawl, monkeypatch):
    monkeypatch.setattr("jobs.queries.jobs.lines.METER.history", lambda _job: [None] * 58 + [1.0, 2.8])

    overview = read_screen("overview")

    assert (overview["rate"], overview["picture"]) == ("1.9", "the last 10 s, at most 1.9 (means of 10 s)")


def test_pages_show_the_charges_that_the_main_manager_stores(crawl):
    now = timezone.now()
    for subject, number in ((Charge.Subject.JOB, crawl.job.pk), (Charge.Subject.HOST, crawl.lane.bin_id)):
        facts = {"subject": subject, "subject_id": number, "step": 60}
        Charge.objects.create(**facts, at=now - dt.timedelta(minutes=1), cause="gap", seconds=30)
        Charge.objects.create(**facts, at=now - dt.timedelta(minutes=2), cause="paused", seconds=10)
        Charge.objects.create(**facts, at=now - dt.timedelta(minutes=6), cause="paused", seconds=500)

    for screen in (crawl.page(), crawl.host()):
        assert [(row["key"], row["seconds"], row["charged"]) for row in screen["charges"]] == [
            ("gap", "30", "75 %"),
            ("paused", "10", "25 %"),
        ]
    shown = crawl.viewer.get(f"/jobs/{crawl.job.pk}/").content.decode()
    assert "Waiting time by cause" in shown


def test_the_waiting_time_of_a_run_that_has_just_ended_stays_on_the_page(crawl):
    facts = {"subject": Charge.Subject.JOB, "subject_id": crawl.job.pk, "step": 60}
    Charge.objects.create(**facts, at=timezone.now() - dt.timedelta(minutes=1), cause="gap", seconds=30)
    Job.objects.update(phase="inactive", run_end="finished", ended_at=timezone.now())

    assert [(row["key"], row["seconds"]) for row in crawl.page()["charges"]] == [("gap", "30")]
