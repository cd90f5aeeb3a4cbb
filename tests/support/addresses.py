"""Every address that the program answers, with values from the database for its variables."""

import re
from collections.abc import Iterator
from typing import Any, Final

import psycopg
from django.urls import get_resolver

from jobs.lifecycle.document import Stage
from jobs.queries.documents.lists import STATES
from jobs.queries.hosts.selection import STATES as STATES_OF_HOSTS

_VARIABLE: Final = re.compile(r"<[^>]*>|\(\?P<\w+>(?:[^()]|\([^()]*\))*\)")

# Query for the value of the star that follows each prefix. The first job has very many of everything.
VALUES: Final = {
    "admin/": "SELECT 'jobs'",
    "admin/r/": "SELECT id || '/1' FROM django_content_type LIMIT 1",
    "admin/auth/user/": "SELECT min(id) FROM auth_user",
    "admin/authorities/authorityconnection/": "SELECT coalesce(max(id), 1) FROM authorities_authorityconnection",
    "admin/authorities/authoritygroup/": "SELECT coalesce(max(id), 1) FROM authorities_authoritygroup",
    "admin/authorities/mappingconnection/": "SELECT coalesce(max(id), 1) FROM authorities_mappingconnection",
    "admin/authorities/servicetoken/": "SELECT coalesce(max(id), 1) FROM authorities_servicetoken",
    "admin/jobs/job/": "SELECT min(id) FROM jobs_job",
    "admin/jobs/outputconnection/": "SELECT min(id) FROM jobs_outputconnection",
    "admin/jobs/repositoryconnection/": "SELECT min(id) FROM jobs_repositoryconnection",
    "admin/jobs/jobevent/": "SELECT coalesce(max(id), 1) FROM jobs_jobevent",
    "admin/jobs/queueitem/": "SELECT replace(hash::text, '-', '') || '.' || job_id FROM jobs_queueitem WHERE outcome = 3 LIMIT 1",
    "admin/jobs/seed/": "SELECT min(id) FROM jobs_seed",
    "admin/jobs/throttlegroup/": "SELECT min(id) FROM jobs_throttlegroup",
    "admin/jobs/throttlepolicy/": "SELECT min(id) FROM jobs_throttlepolicy",
    "admin/notices/notificationchannel/": "SELECT coalesce(max(id), 1) FROM notices_notificationchannel",
    "admin/notices/notificationmessage/": "SELECT coalesce(max(id), 1) FROM notices_notificationmessage",
    "admin/notices/notificationrule/": "SELECT coalesce(max(id), 1) FROM notices_notificationrule",
    "admin/nodes/clusterrequest/": "SELECT max(id) FROM nodes_clusterrequest",
    "admin/nodes/node/": "SELECT min(id::text) FROM nodes_node WHERE status = 'running'",
    "admin/nodes/nodeevent/": "SELECT max(id) FROM nodes_nodeevent",
    "admin/tasks/archivedtask/": "SELECT coalesce(max(id), 1) FROM tasks_archivedtask",
    "admin/tasks/task/": "SELECT coalesce(max(id), 1) FROM tasks_task",
    "admin/tasks/tasktemplate/": "SELECT coalesce(max(id), 1) FROM tasks_tasktemplate",
    "admin/tasks/taskworker/": "SELECT coalesce(max(id::text), gen_random_uuid()::text) FROM tasks_taskworker",
    "api/v1/hosts/": "SELECT min(id) FROM jobs_bin",
    "api/v1/archived-tasks/": "SELECT coalesce(max(id), 1) FROM tasks_archivedtask",
    "api/v1/authority-connections/": "SELECT coalesce(max(id), 1) FROM authorities_authorityconnection",
    "api/v1/authority-groups/": "SELECT coalesce(max(id), 1) FROM authorities_authoritygroup",
    "api/v1/mapping-connections/": "SELECT coalesce(max(id), 1) FROM authorities_mappingconnection",
    "account/tokens/": "SELECT coalesce(max(id), 1) FROM crawlctl_apitoken",
    "api/v1/api-tokens/": "SELECT coalesce(max(id), 1) FROM crawlctl_apitoken",
    "api/v1/service-tokens/": "SELECT coalesce(max(id), 1) FROM authorities_servicetoken",
    "authorities/tokens/": "SELECT coalesce(max(id), 1) FROM authorities_servicetoken",
    "api/v1/cluster/requests/": "SELECT max(id) FROM nodes_clusterrequest",
    "api/v1/deleted-jobs/": "SELECT coalesce(max(id), 1) FROM jobs_deletedjob",
    "api/v1/distributed-jobs/jobs/": "SELECT min(job) FROM nodes_distributedjobonnode",
    "api/v1/documents/": "SELECT job_id || '-' || replace(hash::text, '-', '') FROM jobs_queueitem WHERE outcome = 1 LIMIT 1",
    "api/v1/groups/": "SELECT min(id) FROM jobs_throttlegroup",
    "api/v1/bulk/": "SELECT coalesce(max(id), 1) FROM bulk_bulkoperation",
    "api/v1/verifications/": "SELECT coalesce(max(id), 1) FROM jobs_outputverification",
    "api/v1/archive-verifications/": "SELECT coalesce(max(id), 1) FROM jobs_archiveverification",
    "outputs/": "SELECT min(id) FROM jobs_outputconnection",
    "api/v1/archive-records/": "SELECT coalesce(max(id), 1) FROM jobs_archiverecord",
    "archive/": "SELECT coalesce(max(id), 1) FROM jobs_archiverecord",
    "api/v1/versions/": "SELECT coalesce(max(id), 1) FROM jobs_definitionversion",
    "versions/": "SELECT coalesce(max(id), 1) FROM jobs_definitionversion",
    "api/v1/exports/": "SELECT coalesce(max(id), 1) FROM exports_export",
    "api/v1/retention/": "SELECT 'nodes'",
    "exports/": "SELECT coalesce(max(id), 1) FROM exports_export",
    "retention/": "SELECT 'nodes'",
    "api/v1/job-chains/": "SELECT coalesce(max(id), 1) FROM jobs_jobchain",
    "api/v1/jobs/": "SELECT min(id) FROM jobs_job",
    "api/v1/notification-channels/": "SELECT coalesce(max(id), 1) FROM notices_notificationchannel",
    "api/v1/notification-messages/": "SELECT coalesce(max(id), 1) FROM notices_notificationmessage",
    "api/v1/notification-rules/": "SELECT coalesce(max(id), 1) FROM notices_notificationrule",
    "api/v1/nodes/": "SELECT min(id::text) FROM nodes_node WHERE status = 'running'",
    "api/v1/outputs/": "SELECT min(id) FROM jobs_outputconnection",
    "api/v1/policies/": "SELECT min(id) FROM jobs_throttlepolicy",
    "api/v1/report-mailings/": "SELECT coalesce(max(id), 1) FROM notices_reportmailing",
    "api/v1/repositories/": "SELECT min(id) FROM jobs_repositoryconnection",
    "api/v1/runs/": "SELECT coalesce(max(id), 1) FROM jobs_run",
    "runs/": "SELECT coalesce(max(id), 1) FROM jobs_run",
    "api/v1/seeds/": "SELECT min(id) FROM jobs_seed",
    "api/v1/task-templates/": "SELECT coalesce(max(id), 1) FROM tasks_tasktemplate",
    "api/v1/task-workers/": "SELECT coalesce(max(id::text), gen_random_uuid()::text) FROM tasks_taskworker",
    "api/v1/tasks/": "SELECT coalesce(max(id), 1) FROM tasks_task",
    "api/v1/settings/versions/": "SELECT max(version) FROM nodes_settingsversion",
    "api/v1/trap-suspects/": "SELECT coalesce(max(id), 1) FROM jobs_trapsuspect",
    "traps/": "SELECT coalesce(max(id), 1) FROM jobs_trapsuspect",
    "api/v1/webmasters/": "SELECT 'h7.example'",
    "webmasters/": "SELECT 'h7.example'",
    "cluster/groups/": "SELECT min(id) FROM jobs_throttlegroup",
    "cluster/jobs/job/": "SELECT min(job) FROM nodes_distributedjobonnode",
    "cluster/nodes/": "SELECT min(id::text) FROM nodes_node WHERE status = 'running'",
    "documents/": "SELECT job_id || '/' || replace(hash::text, '-', '') FROM jobs_queueitem WHERE outcome = 1 LIMIT 1",
    "hosts/": "SELECT min(id) FROM jobs_bin",
    "jobs/": "SELECT min(id) FROM jobs_job",
    "jobs/deleted/": "SELECT coalesce(max(id), 1) FROM jobs_deletedjob",
    "notifications/channels/": "SELECT coalesce(max(id), 1) FROM notices_notificationchannel",
    "notifications/channels/new/": "SELECT 'email'",
    "notifications/mailings/": "SELECT coalesce(max(id), 1) FROM notices_reportmailing",
    "notifications/rules/": "SELECT coalesce(max(id), 1) FROM notices_notificationrule",
    "nodes/": "SELECT min(id::text) FROM nodes_node WHERE status = 'running'",
    # Without partitions, these addresses show nothing.
    "partition/": "SELECT 'b/hosts/'",
    "tasks/": "SELECT coalesce(max(id), 1) FROM tasks_archivedtask",
    "tasks/templates/": "SELECT coalesce(max(id), 1) FROM tasks_tasktemplate",
}
# Query strings that some of these addresses also accept.
_QUESTIONS: Final = {
    "documents/": [
        *(f"state={state}" for state in STATES),
        *(f"job={{job}}&state={state}" for state in STATES),
        "code=200",
        "code=500",
        "code=nothing",
        "job={job}&code=500",
        "code=500&after=7f000000000000000000000000000000.1",
        "host=h7.example",
        "host=h7.example&code=500",
        "host=h7.example&sort=-response",
        "job={job}&code=500&sort=depth",
    ],
    "hosts/": ["state=all", "name=h", "name=h77", "name=1", *(f"state={state}" for state in STATES_OF_HOSTS)],
    "search/": ["q=word", "q=word7"],
    **{
        address: [
            "url=http://h7.example/1",
            "url=http://h7.example/1&job={job}",
            "url=http://unknown.example/&job={job}",
            "url=http://unknown.example/",
            "url=http://h7.example/unknown",
        ]
        for address in ("explain/", "api/v1/explain/")
    },
    "cluster/jobs/": ["cluster=jobs"],
    "admin/jobs/job/": ["phase__exact=inactive", "p=3", "all="],
    "admin/jobs/throttlepolicy/": ["p=3", "all="],
    "admin/jobs/repositoryconnection/": ["p=3"],
    "admin/jobs/outputconnection/": ["p=3"],
    "admin/auth/user/": ["p=3", "is_active__exact=1"],
    "admin/jobs/jobevent/": ["q=a%20job"],
    "admin/jobs/queueitem/": [
        "q=http%3A%2F%2Fh7.example%2F1",
        "q=http%3A%2F%2Fh7.example%2F*",
        "after=7f000000000000000000000000000000.1",
    ],
    "admin/jobs/seed/": ["q=7", "q=http%3A%2F%2Fh7.example%2F1", "after=500"],
    "admin/jobs/throttlegroup/": ["state__exact=owned", "p=3"],
    "admin/nodes/node/": ["status__exact=failed", "kind__exact=worker", "p=3"],
    "admin/nodes/clusterrequest/": ["kind__exact=rebalance", "p=3"],
    "admin/nodes/nodeevent/": ["kind__exact=running", "after=500"],
    "admin/tasks/archivedtask/": ["q=sleep", "q=group-7", "q=done", "after=1000100"],
    "admin/tasks/task/": ["q=sleep", "q=group-7"],
    "tasks/": ["group=group-7"],
    "tasks/scheduled/": ["group=group-7", "kind=sleep", "tag=x", "state=waiting", "state=running"],
    "tasks/archived/": [
        *("group=group-7", "kind=sleep", "tag=x", "why=done", "why=tried-too-many-times", "since=2030-01-01T00:00:00"),
        *("group=group-7&why=tried-too-many-times", "since=2020-01-01T00:00:00&kind=sleep"),
    ],
    "tasks/archived/reschedule/": ["group=group-7"],
    "tasks/scheduled/cancel/": ["group=group-7"],
    "tasks/run/": ["kind=sleep"],
    "tasks/templates/new/": ["kind=sleep"],
    "api/v1/documents/": [
        *(f"state={stage.name.lower()}" for stage in Stage),
        "outcome=failed",
        "outcome=indexed",
        "result_code=200",
        "result_code=500",
        "job={job}&result_code=500",
        "host=h7.example",
        "host=h7.example&ordering=-response_ms",
    ],
    "api/v1/versions/": ["definition=job&object={job}", "definition=job"],
    "versions/": ["definition=job&object={job}", "definition=job"],
    "api/v1/failures/": ["job={job}", "host=h7.example", "result_code=500"],
    "failures/": ["job={job}", "host=h7.example", "code=500"],
    "api/v1/jobs/": ["phase=active"],
    "api/v1/hosts/": ["name=h7", "name=h", "state=open", "state=backing_off", "state=stopped"],
    "api/v1/groups/": ["state=releasing", "state=owned", "limit=500"],
    "api/v1/nodes/": ["status=failed", "status=running", "kind=worker"],
    "api/v1/node-events/": ["kind=elected"],
    "api/v1/job-events/": ["job={job}"],
    "api/v1/runs/": ["job={job}", "run_end=error"],
    "api/v1/schedules/calendar/": ["first=2030-01-01&days=42"],
    "schedules/calendar/": ["unit=month"],
    "api/v1/seeds/": ["job={job}"],
    "traps/": ["job={job}", "host=h7.example", "decision=released"],
    "api/v1/trap-suspects/": ["job={job}", "host=h7.example", "decision=open"],
    "api/v1/search/": ["q=word"],
}


def patterns(resolver: Any = None, before: str = "") -> Iterator[str]:
    """Yield all address patterns, with a star for each variable."""
    for pattern in (resolver or get_resolver()).url_patterns:
        path = before + _VARIABLE.sub("*", str(pattern.pattern).removeprefix("^").removesuffix("$"))
        if hasattr(pattern, "url_patterns"):
            yield from patterns(pattern, path)
        else:
            yield path


def addresses(connection: psycopg.Connection[Any], *, but: frozenset[str] = frozenset()) -> Iterator[str]:
    """
    Yield an address for each pattern that does not start with an entry of `but`. If query strings lead to other
    statements, yield the address with each of them, too.
    """
    values = {before: str(_only(connection, question)) for before, question in VALUES.items()}
    job = values["jobs/"]
    for pattern in sorted({*patterns()}):
        if pattern.startswith(tuple(but)):
            continue
        before, star, behind = pattern.partition("*")
        # Two adjacent variables share one value.
        path = before + values[before] + behind.removeprefix("/*") if star else pattern
        yield f"/{path}"
        yield from (f"/{path}?{question.format(job=job)}" for question in _QUESTIONS.get(path, ()))


def _only(connection: psycopg.Connection[Any], question: str) -> object:
    row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return row[0]
