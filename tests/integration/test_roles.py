"""Each role is a group with its permissions, and may call exactly its operations of the API."""

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from rest_framework.response import Response
from rest_framework.test import APIClient, APIRequestFactory, force_authenticate
from rest_framework.views import APIView

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, ROLES, VIEWER, write_roles
from jobs.verbs.control import VERBS
from tests.support.api import assert_problem, client_of, document_id, make_user, make_world, token_client_of
from tests.support.api_description import operations, requests
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

ANYBODY = "anybody"
IN_RISING_ORDER = (ANYBODY, VIEWER, OPERATOR, ADMINISTRATOR)

# The lowest role that may call each operation. A new operation fails this test until it is listed.
LEAST_ROLE = {
    **{f"api_tokens_{verb}": VIEWER for verb in ("create", "destroy", "list", "retrieve")},
    "archive_files_list": VIEWER,
    "archive_records_body": VIEWER,
    "archive_records_list": VIEWER,
    "archive_records_retrieve": VIEWER,
    "authority_access": OPERATOR,
    **{
        f"{noun}_{verb}": role
        for noun in ("authority_connections", "mapping_connections")
        for verb, role in {
            **dict.fromkeys(("list", "retrieve", "test"), OPERATOR),
            **dict.fromkeys(("create", "destroy", "partial_update"), ADMINISTRATOR),
        }.items()
    },
    **dict.fromkeys(("authority_groups_list", "authority_groups_retrieve", "authority_states"), VIEWER),
    **dict.fromkeys(
        ("authority_groups_create", "authority_groups_destroy", "authority_groups_partial_update"), ADMINISTRATOR
    ),
    **{f"service_tokens_{verb}": ADMINISTRATOR for verb in ("create", "destroy", "list", "retrieve")},
    "bulk_cancel": OPERATOR,
    "bulk_create": OPERATOR,
    "bulk_list": VIEWER,
    "bulk_preview": OPERATOR,
    "bulk_retrieve": VIEWER,
    "cluster_rebalance": ADMINISTRATOR,
    "cluster_requests_list": VIEWER,
    "cluster_requests_retrieve": VIEWER,
    "coordination_retrieve": ADMINISTRATOR,
    "partition_moves_list": VIEWER,
    "partitions_list": VIEWER,
    "definitions_import": ADMINISTRATOR,
    "definitions_list": VIEWER,
    "deny_list": VIEWER,
    "deny_list_add": OPERATOR,
    "deny_list_remove": OPERATOR,
    "distributed_jobs_list": VIEWER,
    "distributed_jobs_rebalance": ADMINISTRATOR,
    "distributed_jobs_retrieve": VIEWER,
    "distributed_jobs_switch": ADMINISTRATOR,
    "document_versions_list": VIEWER,
    "document_versions_retrieve": VIEWER,
    "documents_list": VIEWER,
    "documents_retrieve": VIEWER,
    "explain": VIEWER,
    "explain_fetch_again": OPERATOR,
    "explain_forget": ADMINISTRATOR,
    "exports_cancel": OPERATOR,
    "exports_create": OPERATOR,
    "exports_destroy": OPERATOR,
    "exports_file": VIEWER,
    "exports_list": VIEWER,
    "exports_retrieve": VIEWER,
    "versions_list": VIEWER,
    "versions_retrieve": VIEWER,
    "versions_revert": ADMINISTRATOR,
    "groups_list": VIEWER,
    "groups_move": ADMINISTRATOR,
    "groups_retrieve": VIEWER,
    "hosts_end_back_off": ADMINISTRATOR,
    "hosts_evidence": VIEWER,
    "hosts_evidence_file": VIEWER,
    "hosts_list": VIEWER,
    "hosts_rates": VIEWER,
    "hosts_release": OPERATOR,
    "hosts_retrieve": VIEWER,
    "hosts_stop": OPERATOR,
    "hosts_stop_by_name": OPERATOR,
    "job_events_list": VIEWER,
    "cluster_history_retrieve": VIEWER,
    "schedules_calendar": VIEWER,
    "schedules_list": VIEWER,
    "runs_list": VIEWER,
    "runs_retrieve": VIEWER,
    "runs_comparison": VIEWER,
    "failures_list": VIEWER,
    "job_chains_create": ADMINISTRATOR,
    "job_chains_destroy": ADMINISTRATOR,
    "job_chains_list": VIEWER,
    "job_chains_retrieve": VIEWER,
    "jobs_abort": OPERATOR,
    "jobs_counts": VIEWER,
    "jobs_forecast": VIEWER,
    "jobs_freshness": VIEWER,
    "jobs_create": ADMINISTRATOR,
    "jobs_delete": ADMINISTRATOR,
    "jobs_destroy": ADMINISTRATOR,
    "jobs_list": VIEWER,
    "jobs_partial_update": ADMINISTRATOR,
    "jobs_pause": OPERATOR,
    "jobs_allow_removals": OPERATOR,
    "jobs_refuse_removals": OPERATOR,
    "jobs_rehearse": ADMINISTRATOR,
    "jobs_removals": VIEWER,
    "jobs_restore": OPERATOR,
    "deleted_jobs_list": VIEWER,
    "deleted_jobs_restore": ADMINISTRATOR,
    "jobs_reset_seeding": OPERATOR,
    "jobs_restart": OPERATOR,
    "jobs_restart_minimal": OPERATOR,
    "jobs_resume": OPERATOR,
    "jobs_retrieve": VIEWER,
    "jobs_pause_schedule": OPERATOR,
    "jobs_resume_schedule": OPERATOR,
    "jobs_send_back": OPERATOR,
    "jobs_start": OPERATOR,
    "jobs_start_minimal": OPERATOR,
    "jobs_update": ADMINISTRATOR,
    "node_events_list": VIEWER,
    "nodes_drain": ADMINISTRATOR,
    "nodes_list": VIEWER,
    "nodes_retrieve": VIEWER,
    **dict.fromkeys(
        ("notification_channels_list", "notification_channels_retrieve", "notification_rules_list"), VIEWER
    ),
    **dict.fromkeys(
        ("notification_rules_retrieve", "notification_messages_list", "notification_messages_retrieve"), VIEWER
    ),
    "notification_channels_create": ADMINISTRATOR,
    "notification_channels_destroy": ADMINISTRATOR,
    "notification_channels_mute": OPERATOR,
    "notification_channels_partial_update": ADMINISTRATOR,
    "notification_channels_test": OPERATOR,
    "notification_rules_create": ADMINISTRATOR,
    "notification_rules_destroy": ADMINISTRATOR,
    "notification_rules_mute": OPERATOR,
    "notification_rules_partial_update": ADMINISTRATOR,
    "report_mailings_create": ADMINISTRATOR,
    "report_mailings_destroy": ADMINISTRATOR,
    "report_mailings_list": VIEWER,
    "report_mailings_retrieve": VIEWER,
    "outputs_clear": ADMINISTRATOR,
    "outputs_create": ADMINISTRATOR,
    "outputs_destroy": ADMINISTRATOR,
    "outputs_list": VIEWER,
    "outputs_partial_update": ADMINISTRATOR,
    "outputs_reindex": ADMINISTRATOR,
    "outputs_restore": ADMINISTRATOR,
    "outputs_retrieve": VIEWER,
    "outputs_update": ADMINISTRATOR,
    "policies_create": ADMINISTRATOR,
    "policies_destroy": ADMINISTRATOR,
    "policies_list": VIEWER,
    "policies_partial_update": ADMINISTRATOR,
    "policies_preview": ADMINISTRATOR,
    "policies_preview_change": ADMINISTRATOR,
    "policies_retrieve": VIEWER,
    "policies_update": ADMINISTRATOR,
    "report_activity": VIEWER,
    "report_bandwidth": VIEWER,
    "report_documents": VIEWER,
    "report_documents_file": VIEWER,
    "report_history": VIEWER,
    "report_queue": VIEWER,
    "report_queue_file": VIEWER,
    "report_results": VIEWER,
    "repositories_clear_history": ADMINISTRATOR,
    "repositories_create": ADMINISTRATOR,
    "repositories_destroy": ADMINISTRATOR,
    "repositories_list": VIEWER,
    "repositories_partial_update": ADMINISTRATOR,
    "repositories_retrieve": VIEWER,
    "repositories_update": ADMINISTRATOR,
    "retention_clean": OPERATOR,
    "retention_list": VIEWER,
    "drills_list": ADMINISTRATOR,
    "archive_verifications_create": OPERATOR,
    "archive_verifications_list": VIEWER,
    "archive_verifications_retrieve": VIEWER,
    "verifications_create": OPERATOR,
    "verifications_list": VIEWER,
    "verifications_retrieve": VIEWER,
    "schema_retrieve": VIEWER,
    "attention": VIEWER,
    "search": VIEWER,
    "seeds_append_urls": ADMINISTRATOR,
    "seeds_list": VIEWER,
    "seeds_replace_urls": ADMINISTRATOR,
    "seeds_retrieve": VIEWER,
    "seeds_urls": VIEWER,
    "settings_retrieve": VIEWER,
    "settings_update": ADMINISTRATOR,
    "settings_versions_list": VIEWER,
    "settings_versions_retrieve": VIEWER,
    "archived_tasks_list": VIEWER,
    "archived_tasks_reschedule": OPERATOR,
    "archived_tasks_reschedule_many": OPERATOR,
    "archived_tasks_retrieve": VIEWER,
    "task_kinds": VIEWER,
    "task_statistics": VIEWER,
    "task_templates_create": ADMINISTRATOR,
    "task_templates_destroy": ADMINISTRATOR,
    "task_templates_list": VIEWER,
    "task_templates_retrieve": VIEWER,
    "task_workers_list": VIEWER,
    "task_workers_retrieve": VIEWER,
    "tasks_cancel": OPERATOR,
    "tasks_cancel_many": OPERATOR,
    "tasks_create": OPERATOR,
    "tasks_list": VIEWER,
    "tasks_retrieve": VIEWER,
    "token_create": ANYBODY,
    "trap_suspects_list": VIEWER,
    "trap_suspects_retrieve": VIEWER,
    "trap_suspects_rule": VIEWER,
    "trap_suspects_accept": ADMINISTRATOR,
    "trap_suspects_release": OPERATOR,
    "trap_suspects_undo": OPERATOR,
    "webmasters_retrieve": ANYBODY,
    "webmasters_limits": VIEWER,
    "webmasters_limits_withdraw": OPERATOR,
    "token_destroy": VIEWER,
}


def every_operation(*, of_the_crawl=False):
    """Run a test for all operations, or for all that show or change the crawl."""
    free = {"token_create", "token_destroy", "schema_retrieve", "webmasters_retrieve"} if of_the_crawl else set()
    return each_row("operation", sorted(LEAST_ROLE.keys() - free))


def address(path, world):
    kind = path.removeprefix("/api/v1/").partition("/")[0]
    ids = {
        "jobs": world.job.pk,
        # No deleted job exists, so a role that may request one gets a 404.
        "deleted-jobs": getattr(world, "deleted_job", 1),
        # No chain exists, so a role that may use one gets a 404.
        "job-chains": getattr(world, "chain", 1),
        "documents": document_id(world.document),
        "nodes": world.node.pk,
        "groups": world.group.pk,
        "cluster": world.request.pk,
        "policies": world.policy.pk,
        "repositories": world.repository.pk,
        "outputs": world.output.pk,
        "hosts": world.document.lane.bin_id,
        "seeds": world.document.lane.seed_id,
        # None of these exists, either.
        "notification-channels": getattr(world, "channel", 1),
        "notification-rules": getattr(world, "rule", 1),
        "notification-messages": 1,
        "report-mailings": getattr(world, "mailing", 1),
        "versions": getattr(world, "version", 1),
        "authority-groups": getattr(world, "authority_group", 1),
        "authority-connections": getattr(world, "authority", 1),
        "mapping-connections": getattr(world, "mapping", 1),
        "api-tokens": getattr(world, "api_token", 1),
        "service-tokens": getattr(world, "service_token", 1),
        "tasks": world.task.pk,
        "archived-tasks": world.archived_task.pk,
        "task-templates": world.template.pk,
        "task-workers": world.task_worker.pk,
        "exports": world.export.pk,
        "archive-records": 1,
        "bulk": world.bulk.pk,
        # The job of this test has no run.
        "runs": 1,
        # No verification exists.
        "verifications": 1,
        "archive-verifications": 1,
        "trap-suspects": getattr(world, "suspect", 1),
    }
    return (
        path.replace("{id}", str(ids.get(kind)))
        .replace("{kind}", "csv")
        .replace("{version}", "1")
        .replace("{number}", "1")
        .replace("{subject}", "nodes")
        .replace("{host}", "www.a.example")
    )


def test_every_operation_has_a_lowest_role():
    assert sorted(LEAST_ROLE) == sorted(operation["operationId"] for _, _, operation in operations())


@pytest.fixture
def world():
    return make_world()


@pytest.fixture
def clients():
    """Return a client of each role."""
    return {role: APIClient() if role == ANYBODY else token_client_of(role) for role in IN_RISING_ORDER}


def up_to(role):
    """Return this role and all lower roles, the lowest first. Each role has all permissions of the lower roles."""
    return IN_RISING_ORDER[: IN_RISING_ORDER.index(role) + 1]


@every_operation()
def test_an_operation_is_permitted_from_its_lowest_role_upwards(operation, world, clients):
    method, path = requests()[operation]
    target, least = address(path, world), LEAST_ROLE[operation]
    for role in up_to(least):
        response = clients[role].generic(method.upper(), target, "{}", content_type="application/json")

        if role == least:
            assert response.status_code not in {401, 403}, role
        else:
            assert_problem(response, *((401, "not_authenticated") if role == ANYBODY else (403, "permission_denied")))


@pytest.fixture
def stranger():
    """Return a client of a user without a role."""
    return client_of()


@every_operation(of_the_crawl=True)
def test_a_user_without_a_role_may_do_nothing(operation, world, stranger):
    method, path = requests()[operation]

    response = stranger.generic(method.upper(), address(path, world), "{}", content_type="application/json")

    assert_problem(response, 403, "permission_denied")


def test_a_view_without_a_permission_refuses_even_a_superuser():
    class NewView(APIView):
        def get(self, request):
            return Response("open")

    request = APIRequestFactory().get("/")
    force_authenticate(request, make_user(is_superuser=True))

    assert NewView.as_view()(request).status_code == 403


@each_row("verb", sorted(VERBS))
def test_a_get_request_to_an_action_changes_nothing(verb):
    world = make_world()

    response = client_of(ADMINISTRATOR).get(f"/api/v1/jobs/{world.job.pk}/{verb}/")

    assert_problem(response, 405, "method_not_allowed")
    assert response["Allow"] == "POST, OPTIONS"


def test_a_request_by_session_needs_a_csrf_token():
    world = make_world()
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(make_user(OPERATOR))

    response = client.post(f"/api/v1/jobs/{world.job.pk}/start/")

    assert_problem(response, 403, "permission_denied")


def test_the_documentation_needs_a_login():
    assert APIClient().get("/api/v1/docs/").status_code == 401

    page = client_of(VIEWER).get("/api/v1/docs/")

    assert page.status_code == 200
    assert b"https://" not in page.content
    assert "script-src 'self';" in page["Content-Security-Policy"]


def test_each_role_includes_the_permissions_of_the_role_below_it():
    assert ROLES[VIEWER] < ROLES[OPERATOR] < ROLES[ADMINISTRATOR]


@each_row("role", ROLES)
def test_all_permissions_of_a_role_exist(role):
    held = {
        f"{permission.content_type.app_label}.{permission.codename}"
        for permission in Group.objects.get(name=role).permissions.select_related("content_type")
    }

    assert held == ROLES[role]


def test_migrate_restores_the_permissions_of_roles_after_edits():
    group = Group.objects.get(name=VIEWER)
    group.permissions.set(Permission.objects.filter(codename="delete_job"))

    call_command("migrate", verbosity=0)

    assert {permission.codename for permission in group.permissions.all()} == {
        name.partition(".")[2] for name in ROLES[VIEWER]
    }


def test_writing_the_roles_again_changes_nothing(django_assert_max_num_queries):
    with django_assert_max_num_queries(20):
        write_roles(apps=apps, using="default")

    assert Group.objects.count() == len(ROLES)
