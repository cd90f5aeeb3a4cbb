"""
Every operation of the API that changes something, each with a request that succeeds.

An operation is named by its id in the API's description. Tests that hold for all changes walk this table.
"""

import datetime as dt
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection
from django.utils import timezone

from crawlctl.access.api_tokens import verbs as api_tokens
from jobs.authorities import verbs as authorities
from jobs.authorities.models import AuthorityConnection, MappingConnection
from jobs.bulk import verbs as bulk
from jobs.connectors.repository.base import hash_of
from jobs.exports import verbs as exports
from jobs.lifecycle.job import Guard, Pause, Phase, RunEnd, StartMethod
from jobs.models import (
    Bin,
    DefinitionVersion,
    Job,
    Outcome,
    OutputConnection,
    QueueItem,
    RepositoryConnection,
    TrapDecision,
    TrapSuspect,
    WebmasterLimit,
)
from jobs.notices import mailings
from jobs.notices import verbs as notices
from jobs.notices.channels.signing import new_secret
from jobs.queue.removing import tombstones
from jobs.state.deleted_jobs import store_deleted_job
from jobs.verbs import chains, deny_list, editing, schedules, webmasters
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.models import MainTerm, Node
from tests.support.api import NOON, document_id, make_job, make_node, make_user, set_phase
from tests.support.factories import make_policy

# Operations that do not change stored data.
PREVIEWS: Final = frozenset({"bulk_preview", "jobs_rehearse", "policies_preview", "policies_preview_change"})
# A token is a secret of its user, and cannot be read. It has no ETag, and a log-in is not a change of the crawl.
OF_LOG_INS: Final = frozenset({"token_create", "token_destroy"})


def _nothing(world):
    pass


def limit_by_webmaster(_world):
    """Apply a limit that a webmaster has set for a host."""
    facts = {"proof": WebmasterLimit.Proof.DNS, "token": "a token", "lasts": dt.timedelta(days=1)}
    webmasters.put_in_force("www.a.example", gap=60.0, now=timezone.now(), **facts)


def suspect(world):
    """Let a worker suspect a group of addresses of the job."""
    facts = {"host": "docs.test", "template": "/x/{n}", "rule": "/x/[0-9]+$", "samples": ["http://docs.test/x/1"]}
    unknown = {"new_samples": [], "proven": [], "suspected_at": timezone.now(), "run_no": 1}
    world.suspect = TrapSuspect.objects.create(job=world.job, **facts, **unknown).pk


def released_suspect(world):
    """Let an operator release a suspect of the job."""
    suspect(world)
    TrapSuspect.objects.filter(pk=world.suspect).update(decision=TrapDecision.RELEASED, decided_by="root")


@dataclass(frozen=True)
class Change:
    """
    A valid request. `prepare` sets up the world for it. `body` is its body, or a function that makes the body.

    `thing` makes the address of the changed thing, which has the ETag. It is None if the request changes nothing that
    exists.
    """

    body: Any = None
    thing: Callable[..., str] | None = None
    prepare: Callable[..., object] = _nothing
    content_type: str = "application/json"

    def body_for(self, world, client):
        return self.body(world, client) if callable(self.body) else self.body


def _address(kind, key):
    return lambda world: f"/api/v1/{kind}/{key(world)}/"


def _at(path):
    return lambda _world: f"/api/v1/{path}/"


JOB = _address("jobs", lambda world: world.job.pk)
SEED = _address("seeds", lambda world: world.document.lane.seed_id)
POLICY = _address("policies", lambda world: world.policy.pk)
REPOSITORY = _address("repositories", lambda world: world.repository.pk)
OUTPUT = _address("outputs", lambda world: world.output.pk)
HOST = _address("hosts", lambda world: world.document.lane.bin_id)
GROUP = _address("groups", lambda world: world.group.pk)
NODE = _address("nodes", lambda world: world.node.pk)
DENY_LIST = _at("deny-list")
SWITCHES = _at("distributed-jobs")
SETTINGS = _at("settings")
MAILING = _address("report-mailings", lambda world: world.mailing)
CHANNEL = _address("notification-channels", lambda world: world.channel)
RULE = _address("notification-rules", lambda world: world.rule)
AUTHORITY_GROUP = _address("authority-groups", lambda world: world.authority_group)
AUTHORITY = _address("authority-connections", lambda world: world.authority)
MAPPING = _address("mapping-connections", lambda world: world.mapping)
SERVICE_TOKEN = _address("service-tokens", lambda world: world.service_token)
API_TOKEN = _address("api-tokens", lambda world: world.api_token)
HOOK = {"url": "http://a.example/", "secret": new_secret()}
CHAIN = _address("job-chains", lambda world: world.chain)
EXPORT = _address("exports", lambda world: world.export.pk)
VERSION = _address("versions", lambda world: world.version)
BULK = _address("bulk", lambda world: world.bulk.pk)
SUSPECT = _address("trap-suspects", lambda world: world.suspect)
TASK = _address("tasks", lambda world: world.task.pk)
ARCHIVED_TASK = _address("archived-tasks", lambda world: world.archived_task.pk)
TEMPLATE = _address("task-templates", lambda world: world.template.pk)


def _seen(thing, **changes):
    """Return the body that GET shows, with these changes."""
    return lambda world, client: {**client.get(thing(world)).json(), **changes}


def _definition_of(world):
    return f"/api/v1/definitions/?definition=job&name={world.job.name}"


def _definition(world, client):
    (shown,) = client.get(_definition_of(world)).json()["results"]
    return {**shown, "priority": 1}


def _in_phase(**facts):
    return lambda world: set_phase(world.job, **facts)


def _stop(world):
    facts = {"stopped_at": NOON, "stopped_by": "vera", "stopped_why": "they called"}
    Bin.objects.filter(pk=world.document.lane.bin_id).update(**facts)


def _back_off(world):
    Bin.objects.filter(pk=world.document.lane.bin_id).update(back_off_level=2, backing_off_since=NOON)


def _deny(world):
    deny_list.deny("*.denied.test", reason="they called", confirm=True, made_by="vera", now=NOON)


def _denied(world, client):
    (denial,) = client.get("/api/v1/deny-list/").json()["denials"]
    return {"pattern": "*.denied.test", "policy": denial["policy"]}


def make_unused(world):
    """Create things that no job uses, because only these can be deleted."""
    world.policy = make_policy("unused")
    world.output = OutputConnection.objects.create(name="unused", connector="null")
    world.repository = RepositoryConnection.objects.create(name="unused")


def _remove(world, *, run_no=1, cause=""):
    """Let a run, by default the first, remove the document."""
    set_phase(world.job, run_no=1)
    QueueItem.objects.filter(pk=world.document.pk).update(indexed_before=True)
    facts = (world.job.pk, run_no, world.output.pk, world.document.hash.hex)
    removed = tombstones.Removed(*facts, leaves_output=True, cause=cause)
    with connection.connection.cursor() as cursor:
        tombstones.store(cursor, [removed], now=timezone.now())


def _clear(world):
    """Clear the output, so that the document leaves it."""
    _remove(world, run_no=tombstones.NO_RUN, cause=tombstones.CLEARED)


def _fail(world):
    """Let the document fail in the run, which is active."""
    set_phase(world.job, phase=Phase.ACTIVE, run_no=1)
    QueueItem.objects.filter(pk=world.document.pk).update(outcome=Outcome.FAILED, result_code="500", run_no=1)


def _schedule(world):
    """Give the job a schedule."""
    Job.objects.filter(pk=world.job.pk).update(start_method=StartMethod.WINDOW_BEGIN)


def _pause_schedule(world):
    _schedule(world)
    schedules.pause(world.job.pk, made_by="a test", now=NOON)


def _delete_job(world):
    """Delete a job, so that a test can restore it. Its id is `world.deleted_job`."""
    job = make_job("deleted", policy=None)
    store_deleted_job(job, now=NOON)
    world.deleted_job = job.pk
    job.delete()


def _add_job(world):
    world.second = make_job("second", policy=None)


def _successor(world, client):
    return {"predecessor": world.job.pk, "successor": world.second.pk}


def _change_job(world):
    """Change the job, and choose the version before the change."""
    editing.change_job(world.job.pk, priority=1, made_by="vera", now=NOON)
    world.version = DefinitionVersion.objects.get(definition="job", object_id=world.job.pk, number=1).pk


def _chain(world):
    """Let a second job follow the first one."""
    _add_job(world)
    world.chain = chains.add(world.job.pk, world.second.pk, made_by="vera").pk


def _notify(world):
    """Create a channel and a rule of notifications."""
    channel = notices.create_channel(name="a", kind="webhook", configuration=HOOK, made_by="vera")
    world.channel = channel.pk
    world.rule = notices.create_rule(name="a", channels=[channel.pk], made_by="vera").pk


def _mail(world):
    """Create a mail channel and a scheduled report."""
    configuration = {"host": "a.example", "sender": "a@a.example", "recipients": ["b@a.example"]}
    channel = notices.create_channel(name="a", kind="email", configuration=configuration, made_by="vera")
    world.channel = channel.pk
    world.mailing = mailings.put_mailing(**_mailing(world, None), made_by="vera").pk


def _mailing(world, client):
    facts = {"report": "queue", "channel": world.channel, "schedule": {"cron": "0 7 * * 1"}}
    return {**facts, "name": "b" if client else "a"}


def authorize(world):
    """Create a group, an authority, a mapping, and a token of a service. None of them uses another."""
    made_by = {"made_by": "vera"}
    world.authority_group = authorities.create_group(name="a", **made_by).pk
    group = authorities.create_group(name="of the authority", **made_by).pk
    world.authority = authorities.create(AuthorityConnection, name="a", kind="null", group=group, **made_by).pk
    world.mapping = authorities.create(MappingConnection, name="a", kind="null", **made_by).pk
    world.service_token = authorities.create_token(name="a", **made_by)[0].pk


def give_token(world):
    """Create an API token of a user."""
    owner = make_user("viewer", name="otto")
    world.api_token = api_tokens.create(owner=owner, name="a", scope="viewer", made_by="otto")[0].pk


def _name_by_its_hash(world):
    """Give the document the key of its address, as a crawl does, so that it is found by its address."""
    key = hash_of(world.document.identifier)
    QueueItem.objects.filter(hash=world.document.hash, job=world.job).update(hash=key)
    world.document.hash = uuid.UUID(key)


def _document(world, client):
    return {"document": document_id(world.document)}


def _of_group(world, client):
    return {"name": "b", "kind": "null", "group": world.authority_group}


def _export(world):
    """Schedule an export."""
    world.export = exports.request(what="documents", format="csv", filter={}, may=_may, made_by="vera")


def _ended_export(world):
    """Schedule an export, and cancel it before it starts."""
    _export(world)
    exports.cancel(world.export.pk, may=_may, made_by="vera")


def _bulk(world):
    """Schedule an operation on documents."""
    _fail(world)
    shown = bulk.preview("retry", world.job.pk, {}, may=_may)
    world.bulk = bulk.start(shown.token, may=_may, made_by="vera")


def _token(world, client):
    asked = {"operation": "retry", "job": world.job.pk, "filter": {}}
    return {"token": client.post("/api/v1/bulk/preview/", asked).json()["token"]}


def _verification(world, client):
    return {"output": world.output.pk}


def _may(_permission):
    return True


def _elect(world):
    """Elect a main manager that has just sent a heartbeat, and never answers."""
    main = make_node("manager-1", kind=Node.Kind.MANAGER, heartbeat_at=timezone.now())
    MainTerm.objects.create(scope=CLUSTER_SCOPE, main=main, term=1, since=NOON)
    world.main = main


def _to_main(world, client):
    return {"to": str(world.main.pk)}


_ACTIVE = _in_phase(phase=Phase.ACTIVE, run_no=1)
_HELD = _in_phase(guard=Guard.WAITING, run_end=RunEnd.HELD, run_no=1)
_REASON: Final = {"reason": "they called"}
_LINES: Final = b"http://docs.test/\nhttp://docs.test/more\n"

CHANGES: Final = {
    "hosts_end_back_off": Change(thing=HOST, prepare=_back_off),
    "hosts_release": Change(thing=HOST, prepare=_stop),
    "hosts_stop": Change(_REASON, HOST),
    "hosts_stop_by_name": Change({"name": "docs.test", **_REASON}),
    "archived_tasks_reschedule": Change({}, ARCHIVED_TASK),
    "archived_tasks_reschedule_many": Change({"kind": "count"}),
    "authority_connections_create": Change(_of_group, prepare=authorize),
    "authority_connections_destroy": Change(thing=AUTHORITY, prepare=authorize),
    "authority_connections_partial_update": Change({"name": "b"}, AUTHORITY, authorize),
    "authority_connections_test": Change({}, prepare=authorize),
    "authority_groups_create": Change({"name": "b"}),
    "authority_groups_destroy": Change(thing=AUTHORITY_GROUP, prepare=authorize),
    "authority_groups_partial_update": Change({"name": "b"}, AUTHORITY_GROUP, authorize),
    "mapping_connections_create": Change({"name": "b", "kind": "null"}),
    "mapping_connections_destroy": Change(thing=MAPPING, prepare=authorize),
    "mapping_connections_partial_update": Change({"name": "b"}, MAPPING, authorize),
    "mapping_connections_test": Change({}, prepare=authorize),
    "api_tokens_create": Change({"name": "b", "scope": "viewer"}),
    "api_tokens_destroy": Change(thing=API_TOKEN, prepare=give_token),
    "service_tokens_create": Change({"name": "b"}),
    "service_tokens_destroy": Change(thing=SERVICE_TOKEN, prepare=authorize),
    "cluster_rebalance": Change({"dry_run": True}, prepare=_elect),
    "definitions_import": Change(_definition, _definition_of),
    "deleted_jobs_restore": Change(prepare=_delete_job),
    "deny_list_add": Change({"pattern": "*.test", "confirm": True, **_REASON}, DENY_LIST),
    "trap_suspects_accept": Change(thing=SUSPECT, prepare=suspect),
    "trap_suspects_release": Change(thing=SUSPECT, prepare=suspect),
    "trap_suspects_undo": Change(thing=SUSPECT, prepare=released_suspect),
    "webmasters_limits_withdraw": Change(
        body={"host": "www.a.example"}, thing=_at("webmasters-limits"), prepare=limit_by_webmaster
    ),
    "deny_list_remove": Change(_denied, DENY_LIST, _deny),
    "distributed_jobs_rebalance": Change({}),
    "distributed_jobs_switch": Change({"job": "mails", "is_disabled": True}, SWITCHES),
    "groups_move": Change(_to_main, GROUP, _elect),
    "jobs_abort": Change(thing=JOB, prepare=_ACTIVE),
    "jobs_allow_removals": Change(thing=JOB, prepare=_HELD),
    "jobs_create": Change(_seen(JOB, name="another")),
    "jobs_delete": Change(thing=JOB),
    "jobs_destroy": Change(thing=JOB),
    "jobs_partial_update": Change({"priority": 1}, JOB),
    "jobs_pause": Change(thing=JOB, prepare=_ACTIVE),
    "jobs_refuse_removals": Change(thing=JOB, prepare=_HELD),
    "jobs_reset_seeding": Change(thing=JOB),
    "jobs_restart": Change(thing=JOB, prepare=_ACTIVE),
    "jobs_restart_minimal": Change(thing=JOB, prepare=_ACTIVE),
    "bulk_cancel": Change(thing=BULK, prepare=_bulk),
    "bulk_create": Change(_token, prepare=_fail),
    "explain_fetch_again": Change(_document, prepare=_name_by_its_hash),
    "explain_forget": Change(_document, prepare=_name_by_its_hash),
    "versions_revert": Change({}, VERSION, _change_job),
    "exports_cancel": Change(thing=EXPORT, prepare=_export),
    "exports_create": Change({"what": "documents", "format": "csv"}),
    "exports_destroy": Change(thing=EXPORT, prepare=_ended_export),
    "retention_clean": Change(),
    "verifications_create": Change(_verification),
    "archive_verifications_create": Change({"repair": True}),
    "job_chains_create": Change(_successor, prepare=_add_job),
    "job_chains_destroy": Change(thing=CHAIN, prepare=_chain),
    "jobs_restore": Change({}, JOB, _remove),
    "jobs_resume": Change(thing=JOB, prepare=_in_phase(phase=Phase.ACTIVE, pause=Pause.PAUSED, run_no=1)),
    "jobs_pause_schedule": Change({}, JOB, _schedule),
    "jobs_resume_schedule": Change({}, JOB, _pause_schedule),
    "jobs_send_back": Change({}, JOB, _fail),
    "jobs_start": Change(thing=JOB),
    "jobs_start_minimal": Change(thing=JOB),
    "jobs_update": Change(_seen(JOB, name="another"), JOB),
    "nodes_drain": Change({}, NODE, _elect),
    "notification_channels_create": Change({"name": "b", "kind": "webhook", "configuration": HOOK}),
    "notification_channels_destroy": Change(thing=CHANNEL, prepare=_notify),
    "notification_channels_mute": Change({"minutes": 5}, CHANNEL, _notify),
    "notification_channels_partial_update": Change({"most_an_hour": 5}, CHANNEL, _notify),
    "notification_channels_test": Change({}, CHANNEL, _notify),
    "notification_rules_create": Change({"name": "b", "topics": ["job_fails"]}),
    "notification_rules_destroy": Change(thing=RULE, prepare=_notify),
    "notification_rules_mute": Change({"minutes": 5}, RULE, _notify),
    "notification_rules_partial_update": Change({"remind_after": 5}, RULE, _notify),
    "report_mailings_create": Change(_mailing, prepare=_mail),
    "report_mailings_destroy": Change(thing=MAILING, prepare=_mail),
    "outputs_clear": Change(thing=OUTPUT),
    "outputs_create": Change(_seen(OUTPUT, name="another")),
    "outputs_destroy": Change(thing=OUTPUT, prepare=make_unused),
    "outputs_partial_update": Change({"name": "another"}, OUTPUT),
    "outputs_reindex": Change(thing=OUTPUT),
    "outputs_restore": Change(thing=OUTPUT, prepare=_clear),
    "outputs_update": Change(_seen(OUTPUT, name="another"), OUTPUT),
    "policies_create": Change({"name": "another"}),
    "policies_destroy": Change(thing=POLICY, prepare=make_unused),
    "policies_partial_update": Change({"name": "another"}, POLICY),
    "policies_update": Change(_seen(POLICY, name="another"), POLICY),
    "repositories_clear_history": Change(thing=REPOSITORY),
    "repositories_create": Change(_seen(REPOSITORY, name="another")),
    "repositories_destroy": Change(thing=REPOSITORY, prepare=make_unused),
    "repositories_partial_update": Change({"name": "another"}, REPOSITORY),
    "repositories_update": Change(_seen(REPOSITORY, name="another"), REPOSITORY),
    "seeds_append_urls": Change(_LINES, SEED, content_type="text/plain"),
    "seeds_replace_urls": Change(_LINES, SEED, content_type="text/plain"),
    "task_templates_create": Change({"urn": "nightly", "kind": "count", "schedule": {"cron": "0 3 * * *"}}),
    "task_templates_destroy": Change(thing=TEMPLATE),
    "tasks_cancel": Change(thing=TASK),
    "tasks_cancel_many": Change({"kind": "count"}),
    "tasks_create": Change({"kind": "count"}),
    "settings_update": Change({"cluster": {"heartbeat_interval": 1}}, SETTINGS),
}
