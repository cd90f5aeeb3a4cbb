"""Proves that each action of pages and the API is also a command, and is recorded with the same journal line."""

import getpass
import json

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from jobs.models import Job, OutputConnection
from tests.integration.test_every_change import impatient, lines  # noqa: F401 (a fixture)
from tests.support.api import make_user, make_world
from tests.support.changes_by_api import CHANGES, HOOK
from tests.support.tables import each_row
from tests.support.task_kinds import NAMED

pytestmark = pytest.mark.django_db


def _job(verb):
    return lambda world: ["job", world.job.name, verb]


def _host(*words):
    return lambda world: ["host", "docs.test", *words]


_DENY = ["deny", "--confirm", "--reason", "they called"]
COMMANDS = {
    "api_tokens_create": lambda world: ["token", "create", make_user("viewer", name="vera").username, "b"],
    "api_tokens_destroy": lambda world: ["token", "revoke", "otto", "a"],
    "authority_connections_test": lambda world: ["authority", "check", "a"],
    "mapping_connections_test": lambda world: ["authority", "check-mapping", "a"],
    "service_tokens_create": lambda world: ["authority", "create-token", "b"],
    "service_tokens_destroy": lambda world: ["authority", "delete-token", "a"],
    "hosts_end_back_off": _host("end-back-off"),
    "hosts_release": _host("release"),
    "hosts_stop": _host("stop", "--reason", "they called"),
    "hosts_stop_by_name": _host("stop", "--reason", "they called"),
    "cluster_rebalance": lambda world: ["rebalance", "--dry-run"],
    "deleted_jobs_restore": lambda world: ["restore", "deleted", "--deleted"],
    "deny_list_add": lambda world: ["host", "*.test", *_DENY],
    "deny_list_remove": lambda world: ["host", "*.denied.test", "allow"],
    "trap_suspects_accept": lambda world: ["trap", "accept", str(world.suspect)],
    "trap_suspects_release": lambda world: ["trap", "release", str(world.suspect)],
    "trap_suspects_undo": lambda world: ["trap", "undo", str(world.suspect)],
    "webmasters_limits_withdraw": lambda world: ["host", "www.a.example", "withdraw-limit"],
    "definitions_import": lambda world: ["definitions", "import", str(world.definition)],
    "distributed_jobs_rebalance": lambda world: ["distributed_job", "rebalance"],
    "distributed_jobs_switch": lambda world: ["distributed_job", "disable", "mails"],
    "groups_move": lambda world: ["move", str(world.group.pk), "--to", str(world.main.pk)],
    "job_chains_create": lambda world: ["chain", "add", world.job.name, world.second.name],
    "job_chains_destroy": lambda world: ["chain", "remove", world.job.name, world.second.name],
    "jobs_abort": _job("abort"),
    "jobs_allow_removals": _job("allow-removals"),
    "jobs_delete": _job("delete"),
    "jobs_destroy": _job("delete"),
    "jobs_pause": _job("pause"),
    "jobs_refuse_removals": _job("refuse-removals"),
    "jobs_reset_seeding": _job("reset-seeding"),
    "jobs_restart": _job("restart"),
    "jobs_restart_minimal": _job("restart-minimal"),
    "jobs_restore": lambda world: ["restore", world.job.name],
    "jobs_resume": _job("resume"),
    "jobs_pause_schedule": _job("pause-schedule"),
    "jobs_resume_schedule": _job("resume-schedule"),
    "jobs_send_back": _job("send-back"),
    "jobs_start": _job("start"),
    "jobs_start_minimal": _job("start-minimal"),
    "nodes_drain": lambda world: ["drain", str(world.node.pk)],
    "notification_channels_create": lambda world: ["notification", "add-channel", "b", "webhook", str(world.hook)],
    "notification_channels_destroy": lambda world: ["notification", "delete-channel", "a"],
    "notification_channels_mute": lambda world: ["notification", "mute-channel", "a", "5"],
    "notification_channels_partial_update": lambda world: ["notification", "change-channel", "a", str(world.hook)],
    "notification_channels_test": lambda world: ["notification", "test", "a"],
    "notification_rules_create": lambda world: ["notification", "add-rule", "b", "--topic", "job_fails"],
    "notification_rules_destroy": lambda world: ["notification", "delete-rule", "a"],
    "notification_rules_mute": lambda world: ["notification", "mute-rule", "a", "5"],
    "notification_rules_partial_update": lambda world: ["notification", "change-rule", "a", "--remind-after", "5"],
    "report_mailings_create": lambda world: [
        *("notification", "put-mailing", "b", "--report", "queue", "--channel", "a", "--cron", "0 7 * * 1")
    ],
    "report_mailings_destroy": lambda world: ["notification", "remove-mailing", "a"],
    "explain_fetch_again": lambda world: [
        "explain",
        world.document.identifier,
        "--job",
        world.job.name,
        "--fetch-again",
    ],
    "explain_forget": lambda world: ["explain", world.document.identifier, "--job", world.job.name, "--forget"],
    "bulk_cancel": lambda world: ["bulk", "cancel", str(world.bulk.pk)],
    "exports_cancel": lambda world: ["export", "cancel", str(world.export.pk)],
    "exports_create": lambda world: ["export", "run", "documents"],
    "exports_destroy": lambda world: ["export", "delete", str(world.export.pk)],
    "retention_clean": lambda world: ["retention", "--clean", "nodes"],
    "outputs_clear": lambda world: ["output", world.output.name, "clear"],
    "outputs_reindex": lambda world: ["output", world.output.name, "reindex"],
    "outputs_restore": lambda world: ["restore", world.job.name, "--output", world.output.name],
    "repositories_clear_history": lambda world: ["repository", world.repository.name, "clear-history"],
    "settings_update": lambda world: ["settings", str(world.file)],
    "archived_tasks_reschedule": lambda world: ["task", "reschedule", str(world.archived_task.pk)],
    "archived_tasks_reschedule_many": lambda world: ["task", "reschedule-all", "--kind", "count"],
    "task_templates_destroy": lambda world: ["task", "remove-template", world.template.urn],
    "tasks_cancel": lambda world: ["task", "cancel", str(world.task.pk)],
    "tasks_cancel_many": lambda world: ["task", "cancel-all", "--kind", "count"],
    "tasks_create": lambda world: ["task", "run", "count"],
}
# Configuration has no commands: pages and the API show help and errors for each field.
CONFIGURATION = {
    *(
        f"{noun}_{verb}"
        for noun in ("jobs", "outputs", "policies", "repositories")
        for verb in ("create", "update", "partial_update", "destroy")
        if (noun, verb) != ("jobs", "destroy")
    ),
    *(
        f"{noun}_{verb}"
        for noun in ("authority_groups", "authority_connections", "mapping_connections")
        for verb in ("create", "partial_update", "destroy")
    ),
    "seeds_append_urls",
    "seeds_replace_urls",
    "task_templates_create",
    "versions_revert",
}
# Commands that carry out the work themselves, or wait for the end of its task (tests/integration/test_bulk.py,
# test_verification_interfaces.py and test_archive_verification_interfaces.py).
WAITING = {"bulk_create", "verifications_create", "archive_verifications_create"}


@pytest.fixture(autouse=True)
def kinds(settings):
    settings.CRAWLCTL_TASKS = (NAMED,)


@pytest.fixture
def user(monkeypatch):
    """
    Return the user of the machine. Keep the connection open, because a command would end the test's transaction.
    """
    monkeypatch.setattr(getpass, "getuser", lambda: "vera")
    monkeypatch.setattr(connections["default"], "close", lambda: None)
    return "vera"


def test_every_action_has_a_command_or_changes_configuration():
    assert set(COMMANDS) | CONFIGURATION | WAITING == set(CHANGES)
    assert not set(COMMANDS) & CONFIGURATION


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_is_recorded_in_the_journal_with_its_user(name, user, tmp_path):
    world = make_world()
    world.file = tmp_path / "settings.json"
    world.file.write_text(json.dumps(CHANGES["settings_update"].body))
    world.hook = tmp_path / "hook.json"
    world.hook.write_text(json.dumps({**HOOK, "url": "http://b.example/"}))
    world.definition = tmp_path / "definition.json"
    world.definition.write_text('{"definition": "policy", "name": "another"}')
    CHANGES[name].prepare(world)
    before = lines()

    call_command(*COMMANDS[name](world))

    added = lines()
    for line in before:
        added.remove(line)
    assert {author for author, _ in added} == {user}


def test_a_reindex_by_command_lets_the_next_run_read_everything(user, capsys):
    world = make_world()
    Job.objects.update(from_the_beginning=False)

    call_command("output", world.output.name, "reindex")

    assert OutputConnection.objects.get(pk=world.output.pk).trusted_from is not None
    assert Job.objects.get().from_the_beginning
    assert capsys.readouterr().out == "The next run of each job writes all its documents to index again.\n"


def test_an_output_shows_its_kind_and_its_users(user, capsys):
    make_world()

    call_command("output", "index")

    assert capsys.readouterr().out == "index: search, used by manual\n"


@each_row(
    ("words", "says"),
    [
        (["output", "nowhere", "reindex"], "No output has the name 'nowhere'."),
        (["repository", "nowhere"], "No repository has the name 'nowhere'."),
        (["distributed_job", "disable"], "disable needs a job, --all or --others."),
        (["distributed_job", "rebalance", "mails"], "rebalance takes no job."),
        (["distributed_job", "disable", "a b"], "a b"),
        (["distributed_job", "disable", ""], "''"),
        (["distributed_job", "disable", "*"], "'*'"),
        (["job", "manual", "start", "--code", "500"], "--code needs the action send-back."),
        (["restore", "manual", "--since", "2030-02-30T00:00Z"], "write a moment with its time zone"),
        (["task", "run", "clean", "--argument", "subject=" + "[" * 5_000], "arguments.subject"),
        (["trap", "list", "--job", "nowhere"], "No job has the name 'nowhere'."),
        (
            ["notification", "put-mailing", "a", "--report", "history", "--channel", "b", "--filter", "["],
            "The filter is not JSON",
        ),
    ],
)
def test_invalid_input_is_named_and_changes_nothing(words, says, user):
    make_world()
    before = lines()

    with pytest.raises(CommandError, match=says) as refused:
        call_command(*words)

    assert refused.value.returncode == 2
    assert lines() == before


@each_row(
    ("words", "says"),
    [
        (["task", "run", "clean", "--at", "9999-12-31T23:59:59-12:00"], "is not a date with time zone"),
        (["task", "list", "--limit", "-1"], "'-1' is not a whole number from 1 to"),
        (["task", "list", "--limit", "9" * 30], "is not a whole number from 1 to"),
        (["task", "run", "clean", "--retry-policy", "[" * 5_000], "is not JSON"),
        (["notification", "messages", "--limit", "0"], "'0' is not a whole number from 1 to"),
    ],
)
def test_an_invalid_argument_is_named(words, says):
    with pytest.raises(CommandError, match=says):
        call_command(*words)
