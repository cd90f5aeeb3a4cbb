"""Proves that `manage.py host` has the same effects as the buttons on the page of a host and on the deny list."""

import pytest
from django.core.management import CommandError, call_command

from jobs.models import Bin
from jobs.verbs import deny_list
from nodes.models import NodeEvent
from tests.support.factories import make_bin
from tests.support.tables import each_row

# The command closes the database connection after it checks the tables.
pytestmark = pytest.mark.django_db(transaction=True)

HOST = "www.example.com"
NONE = "0 documents in progress, 0 waiting"


@pytest.fixture(autouse=True)
def user(monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "vera")


def run_host(capsys, *arguments):
    call_command("host", *arguments)
    return capsys.readouterr().out.strip()


def refused(*arguments):
    with pytest.raises(CommandError) as error:
        call_command("host", *arguments)
    return error.value.returncode, str(error.value)


def test_a_stopped_host_shows_the_user_of_the_command_and_the_reason(capsys):
    make_bin(HOST)
    output = run_host(capsys, HOST, "stop", "--reason", "its owner has asked us")

    assert output == f"{HOST}: stopped, {NONE}. vera stopped {HOST} just now: its owner has asked us."
    assert NodeEvent.objects.filter(message=f"vera stopped {HOST}: its owner has asked us").exists()


def test_a_stopped_host_is_released(capsys):
    make_bin(HOST)
    run_host(capsys, f"http://{HOST}/some/page", "stop", "--reason", "its owner has asked us")

    assert run_host(capsys, HOST, "release") == f"{HOST}: nothing waits, {NONE}. No document waits for {HOST}."
    assert Bin.objects.get(name=HOST).stopped_at is None


def test_a_back_off_is_ended_under_the_users_name(capsys):
    make_bin(HOST, back_off_level=9, back_off_until="2100-01-01T00:00Z")

    assert run_host(capsys, HOST, "end-back-off") == f"{HOST}: nothing waits, {NONE}. No document waits for {HOST}."
    assert (
        NodeEvent.objects.get().message == f"vera ended the back-off of {HOST} (level 9, until 2100-01-01 00:00:00 UTC)"
    )
    assert refused(HOST, "end-back-off") == (1, f"{HOST} is not backing off.")


def test_an_impossible_action_gives_the_reason_and_exits_with_1():
    make_bin(HOST)
    call_command("host", HOST, "stop", "--reason", "its owner has asked us")
    assert refused(HOST, "stop", "--reason", "again") == (
        1,
        f"{HOST} is already stopped by vera: its owner has asked us",
    )

    call_command("host", HOST, "release")
    assert refused(HOST, "release") == (1, f"{HOST} is not stopped.")
    assert refused("*.example.org", "allow") == (1, "Nothing denies *.example.org.")


@each_row(
    ("arguments", "sentence"),
    [
        ((HOST,), f"Host {HOST} does not exist."),
        ((HOST, "release"), f"Host {HOST} does not exist."),
        ((HOST, "stop"), "Write a reason"),
        ((HOST, "stop", "--reason", " "), "Write a reason"),
        (("no host", "stop", "--reason", "why"), "Write the name of a host"),
        (("*", "deny", "--reason", "why"), "This pattern matches every host"),
        (("a b", "deny", "--reason", "why"), "cannot be the name of a host"),
        ((HOST, "deny"), "Write a reason"),
        ((HOST, "stop", "--reason", "why"), f"No crawl has come to a host {HOST}"),
        (("*.exmaple.com", "deny", "--reason", "why"), "To do it anyway, add --confirm."),
        ((HOST, "release", "--reason", "why"), "--reason and --confirm need the action stop or deny"),
    ],
)
def test_invalid_input_is_named_ends_with_2_and_changes_nothing(arguments, sentence):
    returncode, output = refused(*arguments)

    assert returncode == 2
    assert sentence in output
    assert not Bin.objects.filter(stopped_at__isnull=False).exists()
    assert not deny_list.denials()


def test_a_pattern_of_hosts_is_denied_and_allowed_again(capsys):
    output = run_host(capsys, "*.example.com", "deny", "--reason", "they asked", "--confirm")
    assert output == "Denied:\n  *.example.com (Deny list, rule 1): they asked, says vera"

    assert run_host(capsys, "*.example.com", "allow") == "No hosts are denied."


def test_the_command_names_the_rule_that_denies_a_host(capsys):
    make_bin(HOST)

    run_host(capsys, "*.example.com", "deny", "--reason", "they asked")

    assert (
        run_host(capsys, HOST)
        == f"{HOST}: denied, {NONE}. Nothing is fetched from {HOST}: rule 1 of policy “Deny list” denies it."
    )
