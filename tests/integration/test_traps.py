"""Proves the suspects of traps: their counts, their rules, and the decisions of operators."""

import asyncio
import random
import re
from io import StringIO
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, VIEWER
from jobs.attention.lines import SHOWN
from jobs.attention.traps import traps_that_wait
from jobs.connectors.repository.base import Document, hash_of
from jobs.explain.explaining import explain
from jobs.explain.gates import Gate, Status
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Phase
from jobs.loops.worker.jobs import JobTable, read_job
from jobs.loops.worker.serving import hold_back_next
from jobs.models import DefinitionVersion, Job, JobEvent, Outcome, QueueItem, TrapSuspect
from jobs.queries.traps import check_rule
from jobs.queue import traps as counting
from jobs.queue.offering.stuff import stuff
from jobs.queue.take import Claimed, take
from jobs.queue.traps import TrapCounts
from jobs.state.runs import ask_for_run
from jobs.state.transitions import TransitionRefused, make_transition
from jobs.traps.quarantine import TRAP, Quarantine
from jobs.traps.radar import BUDGET
from jobs.ui import traps_views
from jobs.verbs import traps
from nodes.errors import Invalid, Refused, Unknown
from nodes.permissions import may_do_everything
from tests.support.api import assert_problem, client_of, make_user
from tests.support.cluster import NOON, register_node
from tests.support.factories import facts_of, make_documents, make_job, make_lane, make_result, make_running_job
from tests.support.trap_sites import prose

HOST = "a.example"
CALENDAR = f"http://{HOST}/calendar/"


def months(last, first=0):
    return [f"{CALENDAR}{number}" for number in range(first, last)]


def pages(number, query=""):
    return [f"http://{HOST}/articles/a-story-of-{word * 5}{query}" for word in "abcdefghijklmnopqrstuvwxyz"[:number]]


@pytest.fixture
def job(connection):
    return make_job(urls=[f"http://{HOST}/"], specification={"trap_guard": "hold"})


@pytest.fixture
def counts():
    return TrapCounts()


@pytest.fixture
def read(connection, job, counts):
    """
    Return a function that counts addresses that were read for the first time, as a flush does, and writes the counts.
    """

    def read(urls, *, text="No events", quarantine=None, version="", at_once=True, **outcome):
        facts = facts_of(job, watches_traps=True, quarantine=quarantine)
        claims = [Claimed(Document(hash_of(url), url, 1, 0, version, "", 0, 0), job.pk, 1, 1, 1, 1, 1) for url in urls]
        texts = [text or prose(random.Random(url), 1) for url in urls]
        usual = {"bytes_read": 100}
        counts.collect(
            make_result(claim, facts, text=page, **usual | outcome) for claim, page in zip(claims, texts, strict=True)
        )
        counts.write(connection, at_once=at_once)

    return read


def suspect_of(job, **facts):
    usual = {
        "host": HOST,
        "template": "/calendar/{n}",
        "rule": r"^https?://a\.example/calendar/[0-9]+$",
        "run_no": 1,
        "samples": months(2),
        "new_samples": [],
        "proven": [],
        "suspected_at": timezone.now(),
    }
    return TrapSuspect.objects.create(job=job, **(usual | facts))


def add(job, urls, **facts):
    """Store documents that are in outputs."""
    usual = {"stage": Stage.DONE, "outcome": Outcome.INDEXED, "result_code": "200", "indexed_before": True}
    names = [url.removeprefix(f"http://{HOST}/") for url in urls]
    made = make_documents(make_lane(job.seeds.get(), HOST), names, **(usual | facts))
    for item in made:
        QueueItem.objects.filter(hash=item.hash).update(hash=hash_of(item.identifier))


# --- Counts --------------------------------------------------------------------------------------


def test_a_group_without_new_content_is_a_suspect_after_its_budget(read, job):
    read(months(BUDGET - 1))
    assert not TrapSuspect.objects.exists()

    read(months(BUDGET + 5, BUDGET - 1))

    suspect = TrapSuspect.objects.get()
    assert (suspect.job_id, suspect.host, suspect.template, suspect.decision) == (job.pk, HOST, "/calendar/{n}", "open")
    assert (suspect.fetched, suspect.new, suspect.bytes, suspect.held) == (BUDGET + 5, 1, 100 * (BUDGET + 5), 0)
    assert suspect.samples == months(BUDGET + 5, BUDGET)
    assert suspect.new_samples == months(1)


def test_fetches_of_a_known_suspect_are_added_to_its_counts(read):
    read(months(BUDGET + 1))

    read(months(BUDGET + 9, BUDGET + 1))
    read(months(BUDGET + 10, BUDGET + 9))

    assert TrapSuspect.objects.get().fetched == BUDGET + 10


def test_pages_with_new_content_make_no_suspect(read):
    read(pages(26), text="")
    read(pages(26, "?page=2"), text="")
    read([f"http://{HOST}/articles/{number}" for number in range(2 * BUDGET)], text="")

    assert not TrapSuspect.objects.exists()


@pytest.mark.parametrize("facts", [{"version": "1:before"}, {"text": "   "}])
def test_repeated_fetches_and_pages_without_a_text_are_not_counted(read, facts):
    read(months(2 * BUDGET), **facts)

    assert not TrapSuspect.objects.exists()


def test_documents_that_are_held_back_are_counted(read):
    read(months(BUDGET + 1))
    quarantine = Quarantine([(HOST, "/calendar/{n}", [])])

    read(months(BUDGET + 4, BUDGET + 1), quarantine=quarantine, code=TRAP)

    assert TrapSuspect.objects.get().held == 3


def test_a_new_suspect_is_written_immediately_and_its_counts_later(read):
    read(months(BUDGET + 1), at_once=False)
    assert TrapSuspect.objects.get().fetched == BUDGET + 1

    read(months(BUDGET + 3, BUDGET + 1), at_once=False)

    assert TrapSuspect.objects.get().fetched == BUDGET + 1


def test_suspects_of_a_host_are_bounded(read, job, monkeypatch):
    monkeypatch.setattr(counting, "_ADD", counting._ADD.replace(f"of_host < {counting.MOST_OF_HOST}", "of_host < 1"))
    suspect_of(job, template="/other")

    read(months(BUDGET + 1))

    assert [one.template for one in TrapSuspect.objects.all()] == ["/other"]


def test_suspects_are_deleted_with_their_job(job):
    suspect_of(job)

    Job.objects.filter(pk=job.pk).delete()

    assert not TrapSuspect.objects.exists()


# --- The rule ------------------------------------------------------------------------------------


def test_the_rule_of_a_suspect_is_tested_against_documents_in_the_outputs(job):
    add(job, [*months(3), *pages(4)])
    add(job, [f"{CALENDAR}900"], indexed_before=False)

    tested = check_rule(suspect_of(job))

    assert (tested.examined, tested.matched, tested.good, tested.is_whole) == (7, 3, 0, True)


def test_pages_of_a_proven_template_are_good(job):
    urls = pages(3, "?sid=1")
    add(job, urls)
    facts = {"template": "**?sid", "rule": r"^https?://a\.example.*[?&;](?i:sid)=", "parameter": "sid"}

    tested = check_rule(suspect_of(job, **facts, proven=["/articles/{slug}?sid"]))

    assert (tested.matched, tested.good, sorted(tested.examples)) == (3, 3, sorted(urls))


# --- Decisions -----------------------------------------------------------------------------------


def test_accepting_a_suspect_excludes_its_group(job):
    suspect = suspect_of(job)

    traps.accept(suspect.pk, made_by="operator", now=timezone.now())

    job.refresh_from_db()
    suspect.refresh_from_db()
    assert job.specification["exclude"] == [suspect.rule]
    assert (suspect.decision, suspect.decided_by) == ("accepted", "operator")
    assert JobEvent.objects.filter(job=job, kind="trap accepted").exists()


def test_an_accepted_rule_is_added_to_the_rules_of_the_connection(job):
    job.repository.configuration = {"exclude": ["zip$"]}
    job.repository.save()
    suspect = suspect_of(job)

    traps.accept(suspect.pk, made_by="operator", now=timezone.now())

    job.refresh_from_db()
    assert job.specification["exclude"] == ["zip$", suspect.rule]


def test_accepting_a_suspect_parameter_removes_it_from_links(job):
    suspect = suspect_of(job, template="**?sid", parameter="sid", rule="[?]sid=")

    traps.accept(suspect.pk, rule="drop_parameter", made_by="operator", now=timezone.now())

    job.refresh_from_db()
    assert job.specification["drop_parameters"] == ["sid"]


def test_a_rule_that_matches_good_pages_needs_a_confirmation(job):
    add(job, pages(2))
    suspect = suspect_of(job, rule="/articles/")

    with pytest.raises(Invalid, match="2 good pages"):
        traps.accept(suspect.pk, made_by="operator", now=timezone.now())
    traps.accept(suspect.pk, confirm=True, made_by="operator", now=timezone.now())

    assert not TrapSuspect.objects.get().is_open


def end_run(job):
    """End the run of a job that is active."""
    for name in ("end aborted", "end"):
        make_transition(job.pk, name, made_by="manager", now=timezone.now())
    job.refresh_from_db()


@pytest.fixture
def running(job):
    """Return the job while it is stopped on request, so that its run can end."""
    Job.objects.update(phase=Phase.ACTIVE, stop_request="abort", run_no=1)
    job.refresh_from_db()
    return job


def test_a_running_job_gets_the_rule_when_its_run_ends(running):
    suspect, version = suspect_of(running), running.specification_version

    accepted = traps.accept(suspect.pk, made_by="operator", now=timezone.now())

    running.refresh_from_db()
    assert (accepted.decision, accepted.rule_state) == ("accepted", "waits")
    assert "exclude" not in running.specification
    end_run(running)
    suspect.refresh_from_db()
    assert (running.specification["exclude"], suspect.rule_state) == ([suspect.rule], "added")
    assert (running.specification_version, running.from_the_beginning) == (version + 1, True)
    newest = DefinitionVersion.objects.filter(object_id=running.pk, definition="job").order_by("-number").first()
    assert (newest.made_by, newest.document["specification"]["exclude"]) == ("operator", [suspect.rule])


def test_a_run_that_starts_again_has_the_rules_that_waited(running):
    suspect = suspect_of(running)
    traps.accept(suspect.pk, made_by="operator", now=timezone.now())
    Job.objects.update(stop_request="restart")

    ask_for_run(running.pk, "start again", made_by="manager", now=timezone.now())

    running.refresh_from_db()
    assert running.specification["exclude"] == [suspect.rule]


@pytest.mark.parametrize("mode", ["watch", "hold", "off"])
def test_workers_hold_an_accepted_group_back_until_the_run_ends(running, connection, mode):
    Job.objects.update(specification={"trap_guard": mode})
    suspect = suspect_of(running)
    suspect_of(running, template="/other/{n}")
    url, other = months(1)[0], f"http://{HOST}/other/1"

    traps.accept(suspect.pk, made_by="operator", now=timezone.now())

    quarantine = quarantine_of(connection, running)
    assert quarantine.group_of(url, host=HOST) == "/calendar/{n}"
    assert (quarantine.group_of(other, host=HOST) is not None) == (mode == "hold")
    end_run(running)
    after = quarantine_of(connection, running)
    assert after is None or after.group_of(url, host=HOST) is None


def quarantine_of(connection, job):
    """Return the quarantine of a job as a worker reads it."""

    async def read():
        table = JobTable()
        row = read_job(connection, job_id=job.pk)
        table.add(row)
        facts = table._jobs[row.id, row.run_no].facts
        await table.close()
        return facts.quarantine

    return asyncio.run(read())


# --- Undoing -------------------------------------------------------------------------------------


def test_undoing_an_acceptance_removes_the_rule_that_it_added(job):
    job.repository.configuration = {"exclude": ["zip$"]}
    job.repository.save()
    first, second = suspect_of(job), suspect_of(job, template="/other", rule="/other$")
    for suspect in (first, second):
        traps.accept(suspect.pk, made_by="operator", now=timezone.now())

    undone = traps.undo(first.pk, may=may_do_everything, made_by="operator", now=timezone.now())

    job.refresh_from_db()
    assert (undone.effect, undone.suspect.is_open) == ("removed", True)
    assert job.specification["exclude"] == ["zip$", "/other$"]
    traps.undo(second.pk, may=may_do_everything, made_by="operator", now=timezone.now())
    job.refresh_from_db()
    assert "exclude" not in job.specification


def test_an_undone_acceptance_leaves_rules_that_the_job_had_before(job):
    suspect = suspect_of(job)
    Job.objects.update(specification={"exclude": [suspect.rule]})
    traps.accept(suspect.pk, made_by="operator", now=timezone.now())
    assert traps.undo(suspect.pk, may=may_do_everything, made_by="operator", now=timezone.now()).effect == "kept"
    assert Job.objects.get().specification["exclude"] == [suspect.rule]
    Job.objects.update(specification={})
    traps.accept(suspect.pk, made_by="operator", now=timezone.now())
    Job.objects.update(specification={"exclude": ["zip$"]})

    assert traps.undo(suspect.pk, may=may_do_everything, made_by="operator", now=timezone.now()).effect == "missing"

    assert Job.objects.get().specification["exclude"] == ["zip$"]


def test_a_running_job_loses_an_undone_rule_when_its_run_ends(running):
    suspect = suspect_of(running)
    traps.accept(suspect.pk, made_by="operator", now=timezone.now())
    end_run(running)
    Job.objects.update(phase=Phase.ACTIVE, stop_request="abort")

    assert traps.undo(suspect.pk, may=may_do_everything, made_by="operator", now=timezone.now()).effect == "leaves"

    running.refresh_from_db()
    assert running.specification["exclude"] == [suspect.rule]
    end_run(running)
    assert "exclude" not in running.specification


def test_undoing_an_acceptance_before_the_run_ends_makes_documents_due(running):
    Job.objects.update(specification={"trap_guard": "watch"})
    suspect = suspect_of(running)
    traps.accept(suspect.pk, made_by="operator", now=timezone.now())
    add(running, months(3), outcome=Outcome.EXCLUDED, result_code=TRAP, indexed_before=False, run_no=1)

    undone = traps.undo(suspect.pk, may=may_do_everything, made_by="operator", now=timezone.now())

    assert (undone.effect, undone.documents) == ("withdrawn", 3)
    end_run(running)
    assert "exclude" not in running.specification


def test_a_released_group_is_suspected_again(job):
    suspect = suspect_of(job)
    traps.release(suspect.pk, made_by="operator", now=timezone.now())

    undone = traps.undo(suspect.pk, may=may_do_everything, made_by="operator", now=timezone.now())

    assert (undone.effect, trap_gate(f"{CALENDAR}77", job).status) == ("suspected", Status.BLOCKED)
    with pytest.raises(Refused, match="No decision"):
        traps.undo(suspect.pk, may=may_do_everything, made_by="operator", now=timezone.now())


def test_an_acceptance_is_undone_by_the_role_that_accepts(job, client):
    suspect = suspect_of(job)
    traps.accept(suspect.pk, made_by="operator", now=timezone.now())
    address = f"/api/v1/trap-suspects/{suspect.pk}/undo/"
    client.force_login(make_user(OPERATOR, name="vera"))

    assert client_of(OPERATOR).post(address, {}, format="json").status_code == 403
    assert client.post(f"/traps/{suspect.pk}/undo/").status_code == 403
    assert "/undo/" not in client.get(f"/traps/{suspect.pk}/").content.decode()
    answer = client_of(ADMINISTRATOR).post(address, {}, format="json")
    assert (answer.status_code, answer.json()["effect"]) == (200, "removed")


def test_the_page_of_a_suspect_says_when_the_rule_applies(running, client):
    suspect = suspect_of(running)
    client.force_login(make_user(ADMINISTRATOR))
    assert "The job runs. If you accept a rule now" in client.get(f"/traps/{suspect.pk}/").content.decode()

    accepted = client.post(f"/traps/{suspect.pk}/accept/", {"rule": "exclude"}, follow=True).content.decode()

    assert accepted.count("gets the rule when the run ends or is stopped") == 2
    undone = client.post(f"/traps/{suspect.pk}/undo/", follow=True).content.decode()
    assert "before the job got the rule" in undone


def test_the_command_says_when_a_rule_applies_and_undoes_an_acceptance(running, in_one_transaction):
    suspect = suspect_of(running)

    assert "gets the rule when its run ends" in command("accept", suspect.pk)
    assert "The job had not got the rule." in command("undo", suspect.pk)


def test_a_suspect_without_a_parameter_is_not_accepted_as_a_parameter(job):
    with pytest.raises(Invalid, match="no parameter"):
        traps.accept(suspect_of(job).pk, rule="drop_parameter", made_by="operator", now=timezone.now())


def test_a_release_makes_documents_due_and_workers_read_suspects_again(job):
    held = {"outcome": Outcome.EXCLUDED, "result_code": TRAP, "indexed_before": False}
    add(job, months(3), **held)
    suspect = suspect_of(job)

    released = traps.release(suspect.pk, made_by="operator", now=timezone.now())

    assert (released.sent.documents, released.sent.has_more) == (3, False)
    assert set(QueueItem.objects.values_list("stage", "result_code")) == {(Stage.PENDING, "")}
    assert Job.objects.get(pk=job.pk).revision == job.revision + 1


def test_a_decided_suspect_is_not_decided_again(job):
    suspect = suspect_of(job)
    traps.release(suspect.pk, made_by="operator", now=timezone.now())

    for decide in (traps.accept, traps.release):
        with pytest.raises(Refused, match="operator has already released"):
            decide(suspect.pk, made_by="another", now=timezone.now())
    with pytest.raises(Unknown):
        traps.release(suspect.pk + 1, made_by="another", now=timezone.now())


def test_a_suspect_of_a_job_in_a_transition_is_not_released(job):
    Job.objects.update(phase=Phase.SHUTTING_DOWN)

    with pytest.raises(TransitionRefused):
        traps.release(suspect_of(job).pk, made_by="operator", now=timezone.now())

    assert TrapSuspect.objects.get().is_open


# --- Attention -----------------------------------------------------------------------------------


def test_open_suspects_need_attention_until_they_are_decided(job):
    suspects = [suspect_of(job, template=f"/{number}/{{n}}", held=1_000) for number in range(2)]

    (line,) = traps_that_wait(timezone.now())

    assert line.sentence.startswith(
        f"2 groups of addresses of job {job.name} look like traps; 2,000 documents were held back."
    )
    assert (line.link, line.since) == (f"/traps/?job={job.pk}&decision=open", suspects[0].suspected_at)
    for suspect in suspects:
        traps.release(suspect.pk, made_by="operator", now=timezone.now())
    assert traps_that_wait(timezone.now()) == []


def test_many_jobs_with_suspects_are_not_all_listed(connection):
    for _ in range(SHOWN + 3):
        suspect_of(make_job())

    lines = traps_that_wait(timezone.now())

    assert len({line.key for line in lines}) == SHOWN + 1
    assert lines[-1].key == "more"


# --- Explanations --------------------------------------------------------------------------------


def trap_gate(url, job):
    (section,) = explain(url, job_id=job.pk, now=timezone.now()).sections
    return next(one for one in section.gates if one.gate == Gate.TRAP)


def test_an_explanation_by_the_trap_guard_names_the_group_and_its_start(job):
    suspect = suspect_of(job)
    add(job, months(1), outcome=Outcome.EXCLUDED, result_code=TRAP, indexed_before=False)

    for url in (f"{CALENDAR}77", months(1)[0]):
        found = trap_gate(url, job)
        assert found.status == Status.BLOCKED
        assert (found.facts["template"], found.since) == ("/calendar/{n}", suspect.suspected_at)


def test_documents_in_the_outputs_pass_the_trap_guard(job):
    suspect_of(job)
    add(job, months(1))

    assert trap_gate(months(1)[0], job).status == Status.PASSED


@pytest.mark.parametrize("change", ["mode", "released"])
def test_only_open_suspects_of_a_job_that_holds_back_block_the_gate(job, change):
    suspect = suspect_of(job)
    if change == "mode":
        Job.objects.update(specification={"trap_guard": "watch"})
    else:
        traps.release(suspect.pk, made_by="operator", now=timezone.now())

    assert trap_gate(f"{CALENDAR}77", job).status == Status.PASSED


@pytest.mark.parametrize(
    ("facts", "is_held"),
    [
        ({"indexed_before": True}, False),
        ({"indexed_before": False, "validators": "etag"}, False),
        ({"indexed_before": False}, True),
    ],
)
def test_a_document_in_an_output_is_reread_despite_a_suspect(connection, facts, is_held):
    """A repair, or a request to write everything again, clears the version and the validators of the document."""
    running = make_running_job(
        register_node(connection, "manager"), urls=[f"http://{HOST}/"], specification={"trap_guard": "hold"}
    )
    make_documents(make_lane(running.seed, HOST), ["calendar/1"], **facts)
    worker = register_node(connection, "worker")
    stuff(connection, manager=running.manager.id, group=running.group, room=10, workers=1, now=NOON)
    [turn] = take(connection, worker=worker.id, room=10, idle=True, now=NOON).turns
    quarantine = Quarantine([(HOST, "/calendar/{n}", ())])
    at_work = SimpleNamespace(facts=facts_of(running.job, quarantine=quarantine), configuration="1")
    queue = SimpleNamespace(waiting=[(None, turn.documents[0])], drop_next=lambda: turn.documents[0])

    held = hold_back_next(queue, SimpleNamespace(job_of=lambda _claimed: at_work))

    assert (held is not None) == is_held


# --- Doors ---------------------------------------------------------------------------------------


def test_suspects_are_listed_tested_and_decided_by_the_api(job):
    suspect = suspect_of(job, fetched=60, new=1, bytes=6_000)
    suspect_of(job, template="/other", decision="released")
    add(job, [*months(3), *pages(1)])
    client = client_of(ADMINISTRATOR)

    (listed,) = client.get(f"/api/v1/trap-suspects/?job={job.pk}&host={HOST}&decision=open").json()["results"]
    assert (listed["id"], listed["fetched"], listed["new"], listed["bytes"]) == (suspect.pk, 60, 1, 6_000)
    tested = client.get(f"/api/v1/trap-suspects/{suspect.pk}/rule/").json()
    assert (tested["matched"], tested["good"], tested["rule"]) == (3, 0, suspect.rule)
    accepted = client.post(f"/api/v1/trap-suspects/{suspect.pk}/accept/", {}, format="json")
    assert (accepted.status_code, accepted.json()["decision"]) == (200, "accepted")
    assert_problem(client.post(f"/api/v1/trap-suspects/{suspect.pk}/release/", {}, format="json"), 409, "refused")


def test_an_impossible_rule_for_a_suspect_is_refused_at_its_field(job):
    suspect = suspect_of(job)

    address, body = f"/api/v1/trap-suspects/{suspect.pk}/accept/", {"rule": "drop_parameter"}

    answer = client_of(ADMINISTRATOR).post(address, body, format="json")

    assert_problem(answer, 400, "invalid", fields=["rule"])


def test_operators_release_suspects_and_administrators_accept_them(job):
    address = f"/api/v1/trap-suspects/{suspect_of(job).pk}"

    assert client_of(VIEWER).post(f"{address}/release/", {}, format="json").status_code == 403
    operator = client_of(OPERATOR)
    assert operator.post(f"{address}/accept/", {}, format="json").status_code == 403
    assert operator.post(f"{address}/release/", {}, format="json").status_code == 200


def command(*words):
    output = StringIO()
    call_command("trap", *map(str, words), stdout=output)
    return output.getvalue()


def test_the_command_lists_tests_and_decides_suspects(job, in_one_transaction):
    suspect = suspect_of(job, fetched=60, new=1)
    add(job, [*months(3), *pages(1)])

    assert f"{suspect.pk}: {HOST} /calendar/{{n}}" in command("list", "--job", job.name)
    assert "examined: 4, matching: 3, good pages among these: 0" in command("test", suspect.pk)
    assert "The job has the rule" in command("accept", suspect.pk)
    assert command("list") == ""


def test_the_command_refuses_invalid_input_with_a_reason(job, in_one_transaction):
    suspect = suspect_of(job)

    with pytest.raises(CommandError, match="no parameter") as wrong:
        command("test", suspect.pk, "--rule", "drop_parameter")
    assert wrong.value.returncode == 2
    with pytest.raises(CommandError, match="does not exist"):
        command("release", suspect.pk + 1)
    command("release", suspect.pk)
    with pytest.raises(CommandError, match="already released") as refused:
        command("accept", suspect.pk)
    assert refused.value.returncode == 1


# --- Pages ---------------------------------------------------------------------------------------


def test_the_page_lists_suspects_by_job_host_and_decision(job, client):
    shown = suspect_of(job, fetched=60, new=3)
    suspect_of(job, template="/other", decision="released")
    client.force_login(make_user(VIEWER))

    page = client.get(f"/traps/?job={job.pk}&host={HOST}&decision=open").content.decode()

    assert f"/traps/{shown.pk}/" in page
    assert "3 (5" in page
    assert "/other" not in page
    assert "/other" in client.get("/traps/").content.decode()


def test_the_list_of_suspects_has_pages(job, client, monkeypatch):
    monkeypatch.setattr(traps_views, "_SHOWN", 2)
    for number in range(3):
        suspect_of(job, template=f"/group{number}")
    client.force_login(make_user(VIEWER))

    first = client.get("/traps/?decision=open").content.decode()
    (query,) = re.findall(r'href="[?]([^"]+)" rel="next"', first)
    second = client.get(f"/traps/?{query.replace('&amp;', '&')}").content.decode()

    assert [f"/group{number}" in first for number in range(3)] == [False, True, True]
    assert [f"/group{number}" in second for number in range(3)] == [True, False, False]


def test_the_page_of_a_suspect_tests_its_rules_before_a_decision(job, client):
    urls = pages(3, "?sid=1")
    add(job, [*urls, *months(2)])
    facts = {"template": "**?sid", "rule": r"^https?://a\.example.*[?&;](?i:sid)=", "parameter": "sid"}
    suspect = suspect_of(job, **facts, proven=["/articles/{slug}?sid"])
    client.force_login(make_user(ADMINISTRATOR))

    page = client.get(f"/traps/{suspect.pk}/").content.decode()

    assert page.count("Outputs hold 5 documents of the host. The rule matches 3 of them.") == 2
    assert page.index('value="drop_parameter"') < page.index('value="exclude"')
    refused = client.post(f"/traps/{suspect.pk}/accept/", {"rule": "drop_parameter"}, follow=True).content.decode()
    assert "3 good pages" in refused
    wanted = {"rule": "drop_parameter", "confirm": "on"}
    accepted = client.post(f"/traps/{suspect.pk}/accept/", wanted, follow=True).content.decode()
    assert "The job has the rule" in accepted
    assert "The rule matches" not in accepted


def test_an_operator_releases_a_suspect_on_its_page(job, client):
    add(job, months(3), outcome=Outcome.EXCLUDED, result_code=TRAP, indexed_before=False)
    suspect = suspect_of(job)
    client.force_login(make_user(OPERATOR))

    page = client.get(f"/traps/{suspect.pk}/").content.decode()
    released = client.post(f"/traps/{suspect.pk}/release/", follow=True).content.decode()

    assert ("/accept/" in page, "/release/" in page) == (False, True)
    assert "Documents that are due again: 3." in released


def test_an_explanation_links_to_the_suspect(job, client):
    suspect = suspect_of(job)
    client.force_login(make_user(VIEWER))

    page = client.get(f"/explain/?url={CALENDAR}77&job={job.pk}").content.decode()

    assert f'href="/traps/{suspect.pk}/"' in page
    assert "holds back new documents of the group /calendar/{n}" in page
