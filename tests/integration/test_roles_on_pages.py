"""Proves for every role that each page and each button needs the same role as its operation in the API."""

import pytest
from django.test import Client
from django.urls import reverse

from crawlctl.access.api_tokens import urls as of_accounts
from jobs.authorities.models import AuthorityConnection, AuthorityGroup, MappingConnection
from jobs.authorities.pages import urls as of_authorities
from jobs.bulk import urls as of_bulk
from jobs.definitions.versions import urls as of_versions
from jobs.explain import urls as of_explanations
from jobs.exports import urls as of_exports
from jobs.models import OutputConnection, RepositoryConnection, ThrottlePolicy
from jobs.notices.pages import urls as of_notifications
from jobs.retention import urls as of_retention
from jobs.search import urls as of_search
from jobs.settings import webmasters
from jobs.ui import urls as of_the_crawl
from jobs.verbs.control import VERBS
from jobs.verification import urls as of_verifications
from jobs.verification.archives import urls as of_archives
from jobs.webmasters import urls as of_webmasters
from nodes.distributed.pages import urls as of_distributed_jobs
from nodes.tasks.pages import urls as of_tasks
from tests.integration.test_roles import ADMINISTRATOR, ANYBODY, IN_RISING_ORDER, LEAST_ROLE, OPERATOR, VIEWER, up_to
from tests.support.api import make_user, make_world
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

PAGES = [
    *of_the_crawl.urlpatterns,
    *of_distributed_jobs.urlpatterns,
    *of_tasks.urlpatterns,
    *of_notifications.urlpatterns,
    *of_accounts.urlpatterns,
    *of_authorities.urlpatterns,
    *of_bulk.urlpatterns,
    *of_versions.urlpatterns,
    *of_explanations.urlpatterns,
    *of_exports.urlpatterns,
    *of_retention.urlpatterns,
    *of_search.urlpatterns,
    *of_verifications.urlpatterns,
    *of_archives.urlpatterns,
]
# Pages without a login. They exist only if a setting switches them on.
PUBLIC = of_webmasters.urlpatterns
# For each page that makes a change: the operation of the API that makes the same change.
CHANGES = {
    "api-token-new": "api_tokens_create",
    "api-token-revoke": "api_tokens_destroy",
    "authorities-check": "authority_connections_test",
    "authorities-token-new": "service_tokens_create",
    "authorities-token-revoke": "service_tokens_destroy",
    "cluster-drain": "nodes_drain",
    "cluster-group": "groups_move",
    "cluster-rebalance": "cluster_rebalance",
    "deleted-job-restore": "deleted_jobs_restore",
    "distributed-rebalance": "distributed_jobs_rebalance",
    "distributed-switch": "distributed_jobs_switch",
    "explain-add-seed": "seeds_append_urls",
    "explain-fetch-again": "explain_fetch_again",
    "explain-forget": "explain_forget",
    "export-cancel": "exports_cancel",
    "export-delete": "exports_destroy",
    "export-new": "exports_create",
    "host-end-back-off": "hosts_end_back_off",
    "host-release": "hosts_release",
    "host-stop": "hosts_stop",
    "hosts-denied": "deny_list_add",
    "hosts-webmasters": "webmasters_limits_withdraw",
    "job-bulk-cancel": "bulk_cancel",
    "job-bulk-start": "bulk_create",
    "job-chain-add": "job_chains_create",
    "job-chain-remove": "job_chains_destroy",
    "job-pipeline": "jobs_partial_update",
    "job-restore": "jobs_restore",
    "job-send-back": "jobs_send_back",
    "notification-channel": "notification_channels_partial_update",
    "notification-channel-act": "notification_channels_mute",
    "notification-channel-new": "notification_channels_create",
    "notification-mailing": "report_mailings_create",
    "notification-mailing-new": "report_mailings_create",
    "notification-mailing-remove": "report_mailings_destroy",
    "notification-rule": "notification_rules_partial_update",
    "notification-rule-act": "notification_rules_mute",
    "notification-rule-new": "notification_rules_create",
    "trap-accept": "trap_suspects_accept",
    "trap-release": "trap_suspects_release",
    "trap-undo": "trap_suspects_undo",
    "version-revert": "versions_revert",
    "retention-clean": "retention_clean",
    "archive-verification-start": "archive_verifications_create",
    "output-verification-start": "verifications_create",
    "schedule-pause": "jobs_pause_schedule",
    "schedule-resume": "jobs_resume_schedule",
    "settings": "settings_update",
    "task-cancel": "tasks_cancel",
    "task-reschedule": "archived_tasks_reschedule",
    "task-run": "tasks_create",
    "task-template": "task_templates_create",
    "task-template-new": "task_templates_create",
    "task-template-remove": "task_templates_destroy",
    "tasks-cancel": "tasks_cancel_many",
    "tasks-reschedule": "archived_tasks_reschedule_many",
}
# Pages that viewers may not read. Some of them show a confirmation or a form before a change.
LEAST_READER = {
    "authorities-ask": OPERATOR,
    "coordination": ADMINISTRATOR,
    "coordination-tree": ADMINISTRATOR,
    "distributed-rebalance": ADMINISTRATOR,
    "drills": ADMINISTRATOR,
    "export-new": OPERATOR,
    "host-stop": OPERATOR,
    "notification-channel": ADMINISTRATOR,
    "notification-channel-new": ADMINISTRATOR,
    "notification-mailing": ADMINISTRATOR,
    "notification-mailing-new": ADMINISTRATOR,
    "notification-rule": ADMINISTRATOR,
    "notification-rule-new": ADMINISTRATOR,
    "task-run": OPERATOR,
    "task-template": ADMINISTRATOR,
    "task-template-new": ADMINISTRATOR,
    "tasks-cancel": OPERATOR,
    "tasks-reschedule": OPERATOR,
}
# Pages that only make a change: a GET is refused with 405.
ONLY_CHANGE = {
    *("api-token-new", "api-token-revoke"),
    *("authorities-check", "authorities-token-new", "authorities-token-revoke"),
    *("cluster-rebalance", "deleted-job-restore", "distributed-switch", "host-end-back-off", "host-release"),
    *("job-restore", "job-send-back", "job-transition", "job-chain-add", "job-chain-remove"),
    *("notification-channel-act", "notification-rule-act", "output-verification-start"),
    "archive-verification-start",
    *("task-cancel", "task-reschedule", "task-template-remove"),
    *("export-cancel", "export-delete", "job-bulk-cancel", "job-bulk-start", "notification-mailing-remove"),
    *("retention-clean", "version-revert"),
    *("explain-add-seed", "explain-fetch-again", "explain-forget"),
    *("schedule-pause", "schedule-resume"),
    *("trap-accept", "trap-release", "trap-undo"),
}
NAMES = sorted({pattern.name for pattern in PAGES} | {"drills"})
# The forms of the set-up. A button deletes a job instead, because its documents must leave the outputs first.
FORMS = {
    ("job", "add"): "jobs_create",
    ("job", "change"): "jobs_update",
    **{
        (noun, verb): f"{operations}_{operation}"
        for noun, operations in (
            ("authoritygroup", "authority_groups"),
            ("authorityconnection", "authority_connections"),
            ("mappingconnection", "mapping_connections"),
        )
        for verb, operation in (("add", "create"), ("change", "partial_update"), ("delete", "destroy"))
    },
    ("outputconnection", "add"): "outputs_create",
    ("outputconnection", "change"): "outputs_update",
    ("outputconnection", "delete"): "outputs_destroy",
    ("repositoryconnection", "add"): "repositories_create",
    ("repositoryconnection", "change"): "repositories_update",
    ("repositoryconnection", "delete"): "repositories_destroy",
    ("throttlepolicy", "add"): "policies_create",
    ("throttlepolicy", "change"): "policies_update",
    ("throttlepolicy", "delete"): "policies_destroy",
}


def client_of(role):
    client = Client()
    if role != ANYBODY:
        client.force_login(make_user(role))
    return client


@pytest.fixture
def clients(db):
    """Return a client of each role, the lowest first."""
    return {role: client_of(role) for role in IN_RISING_ORDER}


@pytest.fixture
def things(db):
    return make_world()


def address(name, world):
    values = {
        "job_id": world.job.pk,
        "host_id": world.document.lane.bin_id,
        "group_id": world.group.pk,
        "node_id": world.node.pk,
        "output_id": world.output.pk,
        "document_hash": world.document.hash,
        "job": "reports",
        "task_id": world.task.pk,
        "template_id": world.template.pk,
        # None of these objects exists, so users who may use them get a 404.
        **dict.fromkeys(
            (
                "chain_id",
                "channel_id",
                "rule_id",
                "mailing_id",
                "record_id",
                "run_id",
                "token_id",
                "version_id",
                "suspect_id",
            ),
            1,
        ),
        "export_id": world.export.pk,
        "operation_id": world.bulk.pk,
        "subject": "nodes",
        "kind": "email",
    }
    (pattern,) = (known for known in PAGES if known.name == name)
    # The addresses of operations on documents are included below that of their job.
    needed = {*pattern.pattern.converters, *(["job_id"] if name.startswith("job-bulk") else [])}
    return reverse(name, kwargs={name: values[name] for name in needed})


def assert_open_from(least, clients, ask):
    """
    Send the request as each role, from the lowest to the lowest that is allowed. Higher roles have all permissions of
    that role.
    """
    for role in up_to(least):
        response = ask(clients[role])

        leads_to_login = response.status_code == 302 and "/login/" in response["Location"]
        if role == least:
            assert response.status_code != 403, role
            assert not leads_to_login, role
        else:
            assert leads_to_login if role == ANYBODY else response.status_code == 403, role


@each_row("name", sorted(set(NAMES) - ONLY_CHANGE))
def test_a_page_can_be_read_from_its_lowest_role_upwards(name, clients, things):
    path = reverse(name) if name == "drills" else address(name, things)

    assert_open_from(LEAST_READER.get(name, VIEWER), clients, lambda client: client.get(path))


@each_row("is_on", [True, False])
def test_a_public_page_is_for_every_visitor_or_for_none(is_on, settings):
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, webmasters.PAGES.path: is_on}
    names = {pattern.name: dict.fromkeys(pattern.pattern.converters, "www.a.example") for pattern in PUBLIC}

    answers = {name: Client().get(reverse(name, kwargs=values)).status_code for name, values in names.items()}

    # Without a requested limit, the page of its proof redirects to the page of the host. The page of a form accepts
    # only POST.
    of_requests = {"webmaster-ask": 405, "webmaster-prove": 302}
    assert answers == {name: of_requests.get(name, 200) if is_on else 404 for name in names}


@each_row(("name", "operation"), sorted(CHANGES.items()))
def test_a_page_allows_the_same_changes_as_the_api_for_each_role(name, operation, clients, things):
    path = address(name, things)

    assert_open_from(LEAST_ROLE[operation], clients, lambda client: client.post(path))


@each_row("verb", sorted(VERBS))
def test_a_button_of_a_job_needs_the_role_of_its_operation(verb, clients, things):
    path = address("job-transition", things)
    least = LEAST_ROLE[f"jobs_{verb.replace('-', '_')}"]

    assert_open_from(least, clients, lambda client: client.post(path, {"transition": verb}))


@each_row(("form", "operation"), sorted(FORMS.items()), ids=[f"{m}-{a}" for m, a in sorted(FORMS)])
def test_a_form_of_the_set_up_needs_the_role_of_its_operation(form, operation, clients, things):
    model, action = form
    unused = {
        "job": things.job,
        "outputconnection": OutputConnection.objects.create(name="unused", connector="search"),
        "repositoryconnection": RepositoryConnection.objects.create(name="unused"),
        "throttlepolicy": ThrottlePolicy.objects.create(name="unused"),
        "authoritygroup": AuthorityGroup.objects.create(name="unused"),
        "authorityconnection": AuthorityConnection.objects.create(
            name="unused", kind="null", group=AuthorityGroup.objects.create(name="used")
        ),
        "mappingconnection": MappingConnection.objects.create(name="unused", kind="null"),
    }
    application = unused[model]._meta.app_label
    path = reverse(f"admin:{application}_{model}_{action}", args=[] if action == "add" else [unused[model].pk])

    assert_open_from(LEAST_ROLE[operation], clients, lambda client: client.post(path))


def test_every_page_that_accepts_a_post_has_an_operation_of_the_api(things):
    administrator = client_of(ADMINISTRATOR)

    taking = {name for name in set(NAMES) - {"drills"} if administrator.post(address(name, things)).status_code != 405}

    assert taking == CHANGES.keys() | {"job-transition"}
