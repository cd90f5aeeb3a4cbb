"""Proves that the command, the API and pages start verifications of outputs, show results, and refuse invalid input."""

import datetime as dt

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, VIEWER
from crawlctl.live.topics import is_topic, read_screen
from jobs.attention.sources import read_attention
from jobs.connectors.repository.base import hash_of
from jobs.duties.cleaning import clean, look
from jobs.duties.retention_subjects import SUBJECTS
from jobs.models import IndexedDocument, OutputConnection, OutputFault, OutputVerification
from jobs.verification import verbs
from nodes.database.clock import read_clock
from nodes.tasks.models import Task
from nodes.web.topics import TopicUnknown
from tests.integration.test_retention import connected
from tests.support.api import NOON, assert_problem, client_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def index():
    """Return a search output that lost all of its three documents."""
    output = OutputConnection.objects.create(name="index", connector="search")
    for name in "abc":
        IndexedDocument.objects.create(output=output, hash=hash_of(name), version="1", indexed_at=NOON)
    return output


@pytest.fixture
def nothing():
    return OutputConnection.objects.create(name="nothing", connector="null")


@pytest.mark.django_db(transaction=True)
def test_a_command_shows_missing_documents(index, capsys):
    with pytest.raises(CommandError, match="Documents that differ: 3") as ended:
        call_command("verify_output", "index")

    shown = capsys.readouterr().out
    assert ended.value.returncode == 1
    assert "0.000 % of 3 documents are in sync: 3 missing, 0 ghost, 0 stale." in shown
    assert hash_of("a") in shown


@pytest.mark.django_db(transaction=True)
def test_a_command_deletes_records_without_a_job(index, capsys):
    call_command("verify_output", "index", "--repair")

    assert "Repaired documents: 3" in capsys.readouterr().out
    call_command("verify_output", "index")
    assert "100.000 % of 0 documents" in capsys.readouterr().out


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["absent"], "No output has the name 'absent'"),
        (["nothing"], "Output nothing cannot be verified: it keeps no documents"),
        (["nothing", "--sample", "0"], "sample: This must be a share"),
    ],
)
def test_a_command_refuses_invalid_input_with_a_reason(nothing, arguments, sentence):
    with pytest.raises(CommandError, match=sentence) as refused:
        call_command("verify_output", *arguments)

    assert refused.value.returncode == 2


def test_a_verification_is_scheduled_and_shown_by_api(index):
    operator = client_of(OPERATOR)
    wanted = {"output": index.pk, "sample": 50, "repair": True, "most": 7}

    made = operator.post("/api/v1/verifications/", wanted, format="json")

    assert (made.status_code, made.json()["state"], made.json()["buckets"]) == (201, "waiting", 2048)
    task = Task.objects.get(pk=made.json()["task"])
    assert (task.kind, task.arguments) == (
        "verify_output",
        {"output": "index", "sample": 50.0, "repair": True, "most": 7},
    )
    verbs.carry_out(OutputVerification.objects.get(), should_continue=lambda _progress: True)
    shown = operator.get(f"/api/v1/verifications/{made.json()['id']}/").json()
    assert shown["state"] == "done"
    assert len(shown["examples"]) == shown["missing"] == shown["repaired"]


def test_verification_of_an_output_that_cannot_list_is_refused(nothing):
    answer = client_of(OPERATOR).post("/api/v1/verifications/", {"output": nothing.pk}, format="json")

    assert_problem(answer, 409, "refused")


@pytest.mark.parametrize("wanted", [{"sample": 0}, {"sample": 101}, {"most": -1}, {"repair": "yes"}])
def test_an_invalid_field_of_a_verification_is_named(index, wanted):
    answer = client_of(OPERATOR).post("/api/v1/verifications/", {"output": index.pk, **wanted}, format="json")

    assert_problem(answer, 400, "invalid", fields=set(wanted))


def test_only_administrators_allow_removals(index):
    wanted = {"output": index.pk, "repair": True, "allow_removals": True}

    refused = client_of(OPERATOR).post("/api/v1/verifications/", wanted, format="json")
    allowed = client_of(ADMINISTRATOR).post("/api/v1/verifications/", wanted, format="json")

    assert_problem(refused, 403, "permission_denied")
    assert allowed.json()["allows_removals"] is True


def test_the_pages_of_an_output_show_its_share_in_sync(index):
    verbs.verify_output(index, made_by="a test")
    viewer, operator, administrator = map(client_of, (VIEWER, OPERATOR, ADMINISTRATOR))
    page = reverse("output-verification", args=[index.pk])

    shown = operator.get(page).content.decode()
    answer = operator.post(f"{page}start/", {"sample": "x"}, format="multipart", follow=True)
    started = operator.post(f"{page}start/", {"sample": "5", "repair": "on"}, format="multipart")

    assert "0.0 % of 3 documents in sync" in shown
    assert hash_of("a")[:8] in shown
    assert 'name="sample"' not in viewer.get(page).content.decode()
    assert "This must be a number." in answer.content.decode()
    assert started.status_code == 302
    assert OutputVerification.objects.filter(repairs=True, task__isnull=False).exists()
    change = administrator.get(reverse("admin:jobs_outputconnection_change", args=[index.pk])).content.decode()
    assert "0.0 % of 3 documents on" in change


def test_the_page_of_an_output_follows_its_verifications(index):
    context = client_of(VIEWER).get(reverse("output-verification", args=[index.pk])).context
    assert is_topic(context["topic"])
    assert read_screen(context["topic"]) == context["screen"] == {"totals": [], "last": [], "verifications": []}

    verbs.verify_output(index, made_by="a test")

    screen = read_screen(context["topic"])
    [last], [row] = screen["last"], screen["verifications"]
    assert (last["title"], len(last["faults"])) == ("0.0 % of 3 documents in sync", 3)
    assert (row["state"], row["missing"]) == ("done", "3")
    index.delete()
    with pytest.raises(TopicUnknown):
        read_screen(context["topic"])


def test_attention_names_an_output_that_is_out_of_sync(index):
    verbs.verify_output(index, made_by="a test")
    assert [line.sentence for line in read_attention(now=NOON) if line.kind == "output_out_of_sync"] == [
        "0.0 % of output index is in sync: 3 missing, 0 ghost, 0 stale. Verify it with the option “Repair”."
    ]

    verbs.verify_output(index, repairs=True, made_by="a test")

    assert not [line for line in read_attention(now=NOON) if line.kind == "output_out_of_sync"]


def test_retention_keeps_the_last_verification_of_each_output(index):
    old, middle, last = (verbs.verify_output(index, made_by="a test") for _ in range(3))
    long_ago = read_clock() - dt.timedelta(days=100)
    OutputVerification.objects.filter(pk__in=[old.pk, last.pk]).update(moved_at=long_ago)
    now = read_clock() + dt.timedelta(seconds=1)
    assert look(connected(), SUBJECTS["runs"], now=now).rows == 6

    clean(connected(), SUBJECTS["runs"], now=now)

    assert set(OutputVerification.objects.values_list("pk", flat=True)) == {middle.pk, last.pk}
    assert set(OutputFault.objects.values_list("verification", flat=True)) == {last.pk}
