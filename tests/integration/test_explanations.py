"""
Proves that pages, the API and the command explain each address in the same way: by the gates of the crawl, in order.
"""

import datetime as dt
import itertools
import re
import uuid
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connections, transaction
from django.utils import timezone

from jobs.connectors.repository.base import Reference, hash_of
from jobs.connectors.repository.web.kind import WEB
from jobs.explain.explaining import explain
from jobs.explain.gates import Gate, Status
from jobs.lifecycle.document import Action, Stage
from jobs.models import (
    Batch,
    Bin,
    BinState,
    Budget,
    GatedDocument,
    IndexedDocument,
    Job,
    JobEvent,
    Outcome,
    OutLinks,
    QueueItem,
    Robots,
    ScheduleWindow,
    ThrottlePolicy,
)
from jobs.models import (
    Gate as LoginGate,
)
from jobs.queue.flushing.flush import flush
from jobs.queue.offering.stuff import stuff
from jobs.queue.seeds import discover_seeds
from jobs.queue.take import take
from nodes.models import Node
from tests.support.api import assert_problem, client_of
from tests.support.cluster import register_node
from tests.support.factories import (
    count_folded,
    make_lane,
    make_output,
    make_policy,
    make_reference,
    make_result,
    make_rule,
    make_running_job,
)
from tests.support.stepping import Manager
from tests.support.tables import each_row

HOST = "docs.example"
URL = f"http://{HOST}/manual/page"
HOUR = dt.timedelta(hours=1)
_VERSIONS = itertools.count(100)


class Crawl:
    """A running job with one waiting document, in a cluster with a live manager and a live worker."""

    def __init__(self, manager, worker):
        self.manager, self.worker = manager, worker
        # No node sends heartbeats in these tests, so the nodes would count as silent after a while.
        Node.objects.update(heartbeat_at=timezone.now() + HOUR)
        self.policy = make_policy("gentle", open_requests=2, min_gap=0.0)
        self.running = make_running_job(
            self.manager.node,
            policy=self.policy,
            name="news",
            urls=[f"http://{HOST}/"],
            specification={"scope": "host"},
        )
        self.job = self.running.job
        Job.objects.update(started_at=timezone.now() - HOUR)
        self.lane = make_lane(self.running.seed, HOST, ready_at=timezone.now())
        self.document = self.add(URL)
        facts = {"job_id": self.job.pk, "run_no": self.job.run_no, "measure": "stage", "stage": Stage.PENDING}
        count_folded(lane_id=self.lane.pk, amount=1, **facts)

    def add(self, url, **facts):
        known = {"stage": Stage.PENDING, "run_no": self.job.run_no}
        if facts.get("stage", Stage.PENDING) == Stage.PENDING and "check_time" not in facts:
            known["seq"] = (1 << 56) + QueueItem.objects.count()
        return QueueItem.objects.create(
            hash=hash_of(url), job=self.job, lane=self.lane, identifier=url, **(known | facts)
        )

    def change(self, **facts):
        QueueItem.objects.filter(hash=self.document.hash, job=self.job).update(**facts)

    def change_job(self, **facts):
        Job.objects.filter(pk=self.job.pk).update(**facts)

    def change_host(self, **facts):
        Bin.objects.filter(pk=self.lane.bin_id).update(**facts)

    def end(self, outcome, code, **facts):
        self.change(stage=Stage.DONE, seq=None, outcome=outcome, result_code=code, **facts)

    def change_policy(self, **facts):
        # Processes remember policies by their version.
        ThrottlePolicy.objects.filter(pk=self.policy.pk).update(version=next(_VERSIONS), **facts)

    def section(self, url=URL, **facts):
        found = explain(url, now=timezone.now(), **facts)
        return found.sections[0]


@pytest.fixture
def crawl(connection, monkeypatch):
    """
    Return the crawl in a transaction, so that each row of a table begins with the same crawl. Commands must not end the
    transaction.
    """
    monkeypatch.setattr(connections["default"], "close", lambda: None)
    manager = Manager(connection)
    worker = register_node(connection, "worker", name="worker-1")
    with transaction.atomic():
        yield Crawl(manager, worker)
        transaction.set_rollback(True)


def gate(section, name):
    return next(one for one in section.gates if one.gate == name)


def pause(crawl):
    crawl.change_job(pause="paused")


def stop_the_job(crawl):
    crawl.change_job(phase="inactive")


def leave_the_window(crawl):
    ScheduleWindow.objects.create(job=crawl.job, position=0, hours=[3], minutes=[0])
    crawl.change_job(window="waiting")


def stop_host(crawl):
    crawl.change_host(stopped_at=timezone.now(), stopped_by="vera", stopped_why="they called")


def deny_host(crawl):
    make_rule(crawl.policy, HOST, denies=True)
    crawl.change_policy()


def back_off(crawl):
    crawl.change_host(back_off_level=2, back_off_until=timezone.now() + HOUR)


def exclude(crawl):
    crawl.change_job(specification={"scope": "host", "exclude": ["/manual/"]})


def break_rules(crawl):
    crawl.change_job(specification={"scope": "no such scope"})


def forbid_by_robots(crawl):
    text = "# docs\nUser-agent: *\nDisallow: /manual/\n"
    now = timezone.now()
    Robots.objects.create(
        origin=f"http://{HOST}", answer={"kind": "rules", "text": text}, fetched_at=now, expires_at=now + HOUR
    )


def wait_for_a_login(crawl):
    crawl.change(seq=None)
    login = LoginGate.objects.create(
        name="the login", key=uuid.uuid4(), node_id=crawl.worker.id, closed_at=timezone.now()
    )
    GatedDocument.objects.create(gate=login, hash=crawl.document.hash, job_id=crawl.job.pk)


def use_up_the_budget(crawl):
    Budget.objects.create(job=crawl.job, run_no=crawl.job.run_no, most=1, admitted=1)


def wait_for_a_retry(crawl):
    crawl.change(seq=None, check_time=timezone.now() + HOUR, failures=2, failing_since=timezone.now())


def be_read_by_another_job(crawl):
    other = make_running_job(crawl.manager.node, name="other")
    batch = make_batch(other, crawl)
    lane = make_lane(other.seed, HOST)
    QueueItem.objects.create(
        hash=crawl.document.hash, job=other.job, lane=lane, identifier=URL, run_no=1, stage=Stage.ACTIVE, batch=batch
    )


def make_batch(running, crawl):
    return Batch.objects.create(
        group_id=running.group.id,
        node_scope=running.job.node_scope,
        worker_id=crawl.worker.id,
        state="sent",
        documents=1,
        created_at=timezone.now(),
        sent_at=timezone.now(),
    )


def wait_for_the_gap(crawl):
    crawl.change_policy(min_gap=1800)
    BinState.objects.filter(bin=crawl.lane.bin_id).update(last_start_at=timezone.now())


def lose_the_owner(crawl):
    crawl.running.seed.group.state = "free"
    crawl.running.seed.group.owner_id = None
    crawl.running.seed.group.save()


def stand_too_far_away(crawl):
    crawl.change_job(hop_limits={"link": 2})
    crawl.change(stage=Stage.HOPCOUNT_REMOVED, seq=None)


def fail(crawl):
    crawl.end(Outcome.FAILED, "500")


def be_refused_by_robots_before(crawl):
    crawl.end(Outcome.EXCLUDED, "ROBOTS_UNREACHABLE")


def be_indexed(crawl):
    crawl.end(Outcome.INDEXED, "200", fetched_at=timezone.now())


def be_indexed_and_wait(crawl):
    crawl.change_job(kind="continuous", recrawl_after=HOUR)
    crawl.end(Outcome.INDEXED, "200", check_time=timezone.now() + HOUR)


def wait_to_expire(crawl):
    crawl.change_job(kind="continuous", expire_after=HOUR)
    crawl.end(Outcome.INDEXED, "200", check_time=timezone.now() + HOUR, action=Action.EXPIRE)


def belong_to_an_earlier_run(crawl):
    crawl.change_job(run_no=2)
    be_indexed(crawl)


def redirect(crawl):
    target = crawl.add(f"http://{HOST}/new")
    OutLinks.objects.create(hash=crawl.document.hash, job=crawl.job, targets=[target.hash], is_redirect=True)
    crawl.end(Outcome.EXCLUDED, "REDIRECT")


@each_row(
    ("change", "gate_of_it", "reason", "says"),
    [
        (stop_host, Gate.DENY_LIST, "stopped", "vera stopped docs.example"),
        (deny_host, Gate.DENY_LIST, "denied", "rule 1 of policy “gentle” denies it"),
        (exclude, Gate.SCOPE, "out_of_scope", "the exclude pattern '/manual/' matches it"),
        (break_rules, Gate.SCOPE, "rules_invalid", "scope: must be one of host, domain, prefix, any."),
        (stand_too_far_away, Gate.DEPTH, "too_far", "link: 2"),
        (forbid_by_robots, Gate.ROBOTS, "robots_forbids", "Line 3: disallow: /manual/."),
        (be_refused_by_robots_before, Gate.ROBOTS, "robots_unreachable", "http://docs.example/robots.txt"),
        (stop_the_job, Gate.JOB, "not_running", "The job is not running"),
        (pause, Gate.JOB, "paused", "The job is paused"),
        (use_up_the_budget, Gate.JOB, "budget", "document limit"),
        (leave_the_window, Gate.WINDOW, "window", "waits for its window, which opens in"),
        (wait_for_a_login, Gate.LOGIN, "gate", "It waits for the login, which worker-1 closed"),
        (wait_for_the_gap, Gate.POLICY, "gap", "At most one start every 1,800 s: policy “gentle”."),
        (back_off, Gate.HOST, "back_off", "docs.example asked for fewer requests (level 2)."),
        (lose_the_owner, Gate.CLAIM, "no_owner", "No manager has the seeds"),
        (be_read_by_another_job, Gate.CLAIM, "other_job", "Job other has claimed the same document."),
        (wait_for_a_retry, Gate.RESULT, "retry", "It is retried in 59 min"),
        (fail, Gate.RESULT, "bad_result", "500 Internal Server Error"),
        (be_indexed, Gate.NEXT_LOOK, "read_in_run", "Read in run 1."),
        (be_indexed_and_wait, Gate.NEXT_LOOK, "read_later", "Read in run 1."),
        (wait_to_expire, Gate.NEXT_LOOK, "expires", "before it expires"),
        (belong_to_an_earlier_run, Gate.NEXT_LOOK, "not_reached_in_run", "No page that run 2 has read links to it."),
        (redirect, Gate.CANONICAL, "redirects", "It redirects to http://docs.example/new"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_the_first_blocked_gate_decides_and_names_the_reason(change, gate_of_it, reason, says, crawl):
    change(crawl)

    section = crawl.section(job_id=crawl.job.pk)

    assert (section.deciding.gate, section.deciding.reason) == (gate_of_it, reason)
    viewer = client_of("viewer")
    (shown,) = viewer.get("/api/v1/explain/", {"url": URL, "job": crawl.job.pk}).json()["jobs"]
    assert shown["blocked_by"] == gate_of_it
    statuses = [one["status"] for one in shown["gates"] if one["gate"] != "output"]
    place = statuses.index("blocked")
    assert statuses == ["passed"] * place + ["blocked"] + ["not_reached"] * (len(statuses) - place - 1)
    assert says in " ".join(shown["sentences"])
    page = viewer.get("/explain/", {"url": URL, "job": crawl.job.pk}).context["screen"]
    assert timeless(shown["sentences"]) == timeless(page["sections"][0]["headline"])
    out = StringIO()
    call_command("explain", URL, "--job", "news", stdout=out)
    assert says in out.getvalue()


def timeless(sentences):
    """Return the sentences without ages and waits, because these differ between two calls."""
    return [re.sub(r"just now|\d+ s ago|in( \d+ (s|min|h))+", "…", sentence) for sentence in sentences]


@each_row("url", [URL, f"http://{HOST}/unknown"])
def test_a_job_that_does_not_run_shows_the_policies_of_its_runs(url, crawl):
    stop_the_job(crawl)

    policy = gate(crawl.section(url), Gate.POLICY)

    assert (policy.reason, policy.facts) == ("limited_in_run", {"policies": "gentle"})


def test_a_document_without_a_blocked_gate_is_shown_as_passing_all_gates(crawl):
    crawl.change(seq=(1 << 56) + 7)
    crawl.add(f"http://{HOST}/a", seq=(1 << 56) + 1)
    crawl.add(f"http://{HOST}/b", seq=(1 << 56) + 2)

    section = crawl.section()

    assert section.deciding is None
    assert {one.status for one in section.gates if one.gate != Gate.OUTPUT} == {Status.PASSED}
    assert gate(section, Gate.LINE).facts == {"before": "2"}


def test_a_claimed_document_names_its_worker_and_its_batch(crawl):
    batch = make_batch(crawl.running, crawl)
    crawl.change(stage=Stage.ACTIVE, batch=batch)

    section = crawl.section()

    assert section.deciding is None
    claim = gate(section, Gate.CLAIM)
    assert (claim.reason, claim.facts["worker"], claim.since) == ("taken", "worker-1", batch.sent_at)


def test_the_path_from_the_seed_lists_the_pages_with_the_links(crawl):
    seed = crawl.add(f"http://{HOST}/")
    QueueItem.objects.filter(hash=seed.hash).update(found_on=seed.hash)
    page = crawl.add(f"http://{HOST}/list", found_on=seed.hash)
    crawl.change(found_on=page.hash)
    OutLinks.objects.create(hash=page.hash, job=crawl.job, targets=[uuid.UUID(hash_of(URL))])

    section = crawl.section()

    assert [step.identifier for step in section.way] == [seed.identifier, page.identifier]
    assert [step.identifier for step in section.referrers] == [page.identifier]
    known = gate(section, Gate.KNOWN)
    assert (known.reason, known.facts) == ("found", {"page": page.identifier, "steps": "2"})
    shown = client_of("viewer").get("/explain/", {"url": URL}).content.decode()
    assert "Path from the seed" in shown
    assert "Linked from" in shown


@each_row(
    ("found_on", "reason"),
    [(None, "found_before"), ("itself", "seed"), ("a removed page", "found_before"), ("a circle", "found_later")],
)
def test_an_unknown_path_from_the_seed_is_shown_as_unknown(found_on, reason, crawl):
    page = crawl.add(f"http://{HOST}/list", found_on=crawl.document.hash)
    keys = {"itself": crawl.document.hash, "a removed page": uuid.uuid4(), "a circle": page.hash}
    crawl.change(found_on=keys.get(found_on))

    assert gate(crawl.section(), Gate.KNOWN).reason == reason


def test_seeds_and_links_record_where_a_document_was_found(connection):
    running = make_running_job(register_node(connection, "manager"), urls=["http://a.example/"])
    worker = register_node(connection, "worker")
    Job.objects.update(seeding=True)
    seed = Reference(hash_of("http://a.example/"), "http://a.example/", "a.example")
    facts = {"manager": running.manager.id, "group": running.group, "job_id": running.job.pk, "now": timezone.now()}
    discover_seeds(
        connection, seed_id=running.seed.pk, urls=running.seed.urls, bins=WEB.bins, references=[seed], **facts
    )
    stuff(connection, manager=running.manager.id, group=running.group, room=8, workers=1, now=timezone.now())
    (turn,) = take(connection, worker=worker.id, room=8, idle=True, now=timezone.now()).turns
    (claimed,) = turn.documents
    link = make_reference("linked")
    result = make_result(claimed, running.facts, lanes=[make_lane(running.seed)], names=[link])

    flush(connection, worker=worker.id, results=[result], now=timezone.now())

    found_on = dict(QueueItem.objects.values_list("identifier", "found_on"))
    assert found_on == {seed.identifier: uuid.UUID(seed.hash), link.identifier: uuid.UUID(seed.hash)}


@each_row("change", [be_indexed, fail, wait_for_a_retry, be_indexed_and_wait], ids=lambda value: value.__name__)
def test_a_document_becomes_due_immediately_on_request(change, crawl):
    change(crawl)
    operator = client_of("operator")
    fields = {"job": crawl.job.pk, "document": uuid.UUID(crawl.document.hash).hex}

    answer = operator.post("/explain/fetch-again/", fields, format="multipart")

    assert answer.status_code == 302
    item = QueueItem.objects.get(identifier=URL)
    assert (item.stage, item.check_time) == (Stage.PENDING, None)
    assert item.seq is not None
    assert crawl.section().deciding is None
    assert JobEvent.objects.filter(kind="fetch again", made_by="a operator").exists()


@each_row(
    ("change", "says"),
    [
        (lambda crawl: None, "due already"),
        (lambda crawl: crawl.change(stage=Stage.ACTIVE, batch=make_batch(crawl.running, crawl)), "has claimed"),
        (stand_too_far_away, "hop limits"),
        (belong_to_an_earlier_run, "Add it to the seeds"),
        (lambda crawl: (be_indexed(crawl), crawl.change_job(phase="starting_up")), "Try again later"),
    ],
    ids=["due", "claimed", "too far", "earlier run", "job starts"],
)
def test_a_document_that_cannot_be_fetched_now_is_refused_with_the_reason(change, says, crawl):
    change(crawl)
    before = QueueItem.objects.filter(identifier=URL).values().get()
    document = f"{crawl.job.pk}-{uuid.UUID(crawl.document.hash).hex}"

    answer = client_of("operator").post("/api/v1/explain/fetch-again/", {"document": document}, format="json")

    problem = assert_problem(answer, 409, "refused")
    assert says in problem["detail"]
    assert QueueItem.objects.filter(identifier=URL).values().get() == before
    with pytest.raises(CommandError, match=says) as refused:
        call_command("explain", URL, "--job", "news", "--fetch-again")
    assert refused.value.returncode == 1


def test_a_document_that_no_output_holds_is_forgotten(crawl):
    fail(crawl)
    document = f"{crawl.job.pk}-{uuid.UUID(crawl.document.hash).hex}"
    administrator = client_of("administrator")
    crawl.change(indexed_before=True)
    kept = administrator.post("/api/v1/explain/forget/", {"document": document}, format="json")
    crawl.change(indexed_before=False)

    answer = administrator.post("/api/v1/explain/forget/", {"document": document}, format="json")

    assert_problem(kept, 409, "refused")
    assert answer.json() == {"url": URL, "job": crawl.job.pk, "partition": ""}
    assert not QueueItem.objects.filter(identifier=URL).exists()
    assert_problem(
        administrator.post("/api/v1/explain/forget/", {"document": document}, format="json"), 404, "not_found"
    )


def test_an_unknown_address_is_added_to_the_seeds(crawl):
    url = f"http://{HOST}/unknown"

    client_of("administrator").post("/explain/add-seed/", {"job": crawl.job.pk, "url": url}, format="multipart")

    assert crawl.job.seeds.get().urls == [f"http://{HOST}/", url]


def test_the_command_refuses_a_change_of_a_document_without_a_job(crawl):
    with pytest.raises(CommandError, match="need --job") as refused:
        call_command("explain", URL, "--forget")

    assert refused.value.returncode == 2


def test_every_spelling_of_an_address_finds_the_same_document(crawl):
    for typed in (f"HTTP://user:secret@{HOST}:80/manual/./page#part", f"  {URL}  ", f"http://{HOST}/manual/%70age"):
        found = explain(typed, now=timezone.now())

        assert found.address.identifier == URL
        assert found.is_known


def test_each_output_shows_its_copy_of_the_document(crawl, tmp_path):
    output = make_output(tmp_path / "index.jsonl")
    crawl.job.outputs.add(output)
    be_indexed(crawl)
    lost = gate(crawl.section(), Gate.OUTPUT)
    IndexedDocument.objects.create(output=output, hash=crawl.document.hash, version="1:text", indexed_at=timezone.now())

    section = crawl.section()

    outputs = {one.subject: (one.status, one.reason) for one in section.gates if one.gate == Gate.OUTPUT}
    assert outputs == {output.name: ("passed", "held"), "null": ("passed", "keeps_nothing")}
    assert {lost.reason} <= {"not_held", "keeps_nothing"}


def test_an_address_of_several_jobs_has_a_section_for_each(crawl):
    be_read_by_another_job(crawl)

    found = explain(URL, now=timezone.now())

    assert {section.job.name for section in found.sections} == {"news", "other"}
    page = client_of("viewer").get("/explain/", {"url": URL}).content.decode()
    assert page.count("In job") == 2


@each_row(
    ("url", "gate_of_it", "reason"),
    [
        (f"http://{HOST}/unknown", None, None),
        ("http://elsewhere.example/", Gate.SCOPE, "out_of_scope"),
        (f"http://{HOST}/" + "a/" * 30, Gate.TRAP, "over_limit"),
    ],
)
def test_an_unknown_address_gets_a_forecast(url, gate_of_it, reason, crawl):
    viewer = client_of("viewer")

    answer = viewer.get("/api/v1/explain/", {"url": url}).json()

    assert not answer["is_known"]
    gates = answer["gates"] or answer["jobs"][0]["gates"]
    closed = [one for one in gates if one["status"] == "blocked" and one["gate"] != "known"]
    assert [(one["gate"], one["reason"]) for one in closed] == ([(gate_of_it, reason)] if gate_of_it else [])
    page = viewer.get("/explain/", {"url": url}).content.decode()
    assert "would pass" in page or "No job follows this address." in page


@each_row(
    ("change", "gate_of_it"), [(stop_host, Gate.DENY_LIST), (deny_host, Gate.DENY_LIST), (forbid_by_robots, None), (pause, Gate.JOB)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)  # fmt: skip
def test_a_forecast_names_the_gate_that_would_block_the_address(change, gate_of_it, crawl):
    change(crawl)

    section = crawl.section(f"http://{HOST}/unknown")

    assert section.is_forecast
    assert (section.deciding.gate if section.deciding else None) == gate_of_it


def test_a_new_host_of_a_denied_domain_is_forecast_as_denied(crawl):
    crawl.change_job(specification={"scope": "any"})
    make_rule(crawl.policy, "*.denied.example", denies=True)
    crawl.change_policy()

    section = crawl.section("http://www.denied.example/")

    assert (section.deciding.gate, section.deciding.reason) == (Gate.DENY_LIST, "denied")


@each_row("url", ["", "no address", "ftp://docs.example/", "http://", "x" * 10_001, "http://a\x00.example/"])
def test_a_text_that_is_no_address_is_refused_at_its_field(url, crawl):
    viewer = client_of("viewer")

    page = viewer.get("/explain/", {"url": url})
    answer = viewer.get("/api/v1/explain/", {"url": url})

    assert page.status_code == 200
    assert page.context["problems"]["url"]
    assert_problem(answer, 400, "invalid", fields={"url"})
    with pytest.raises(CommandError) as refused:
        call_command("explain", url)
    assert refused.value.returncode == 2


def test_an_unknown_job_is_refused(crawl):
    viewer = client_of("viewer")

    assert_problem(viewer.get("/api/v1/explain/", {"url": URL, "job": 999_999}), 404, "not_found")
    assert viewer.get("/explain/", {"url": URL, "job": "999999"}).context["problems"]["job"]
    assert viewer.get("/explain/", {"url": URL, "job": "x"}).context["problems"]["job"]
    with pytest.raises(CommandError) as refused:
        call_command("explain", URL, "--job", "nowhere")
    assert refused.value.returncode == 2


def test_a_blocked_gate_has_a_button_for_users_who_may_unblock_it(crawl):
    pause(crawl)

    operator = client_of("operator").get("/explain/", {"url": URL}).content.decode()
    viewer = client_of("viewer").get("/explain/", {"url": URL}).content.decode()

    assert f'action="/jobs/{crawl.job.pk}/transition/"' in operator
    assert 'value="resume"' in operator
    assert "transition" not in viewer


def test_documents_of_other_sources_are_explained_by_their_identifier(crawl):
    item = crawl.add("urn:a plugin's document")

    section = crawl.section("urn:a plugin's document")

    assert section.item.hash == uuid.UUID(hash_of(item.identifier))
