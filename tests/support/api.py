"""Users with a role, and a small world for requests to the REST API."""

import datetime as dt
import uuid
from types import SimpleNamespace

from django.contrib.auth.models import Group, User
from knox.models import AuthToken
from rest_framework.test import APIClient

from jobs.bulk.models import BulkOperation
from jobs.exports.models import Export
from jobs.lifecycle.document import Stage
from jobs.models import (
    IndexedDocument,
    Job,
    Outcome,
    OutputConnection,
    QueueItem,
    RepositoryConnection,
    ThrottleGroup,
    ThrottlePolicy,
)
from jobs.verbs import editing
from jobs.verbs.seeds import SeedWanted
from nodes.models import ClusterRequest, Node, NodeEvent
from nodes.tasks.models import ArchivedTask, Task, TaskTemplate, TaskWorker
from tests.support.factories import make_lane

NOON = dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC)
PASSWORD = "a long pass phrase for tests"


def make_user(*roles, name=None, password=None, **facts):
    """
    Return a user with these roles. Without a password the user has an unusable one, which saves the cost of a hash.
    """
    user = User.objects.create_user(name or f"a {' and '.join(roles) or 'nobody'}", password=password, **facts)
    user.groups.set(Group.objects.filter(name__in=roles))
    return user


def client_of(*roles, **facts):
    """Return a client with the session of a user of these roles."""
    client = APIClient()
    client.force_login(make_user(*roles, **facts))
    return client


def token_client_of(*roles):
    """Return a client that sends a token of a user of these roles."""
    _, token = AuthToken.objects.create(user=make_user(*roles))
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {token}")
    return client


def make_job(name="manual", *, repository=None, output=None, urls=("http://docs.test/",), policy=None, **facts):
    repository = repository or RepositoryConnection.objects.get_or_create(name="the web")[0]
    output = output or OutputConnection.objects.get_or_create(name="index", connector="search")[0]
    return editing.create_job(
        name=name,
        repository=repository,
        outputs=[output],
        seeds=[SeedWanted(urls=urls, policy=policy)],
        specification={},
        made_by="a test",
        now=NOON,
        **facts,
    ).job


def set_phase(job, **facts):
    """Write the phase of a job, and further columns, as the loops of the daemons would."""
    Job.objects.filter(pk=job.pk).update(**facts)


def make_documents(job, count, *, host="docs.test", **facts):
    """Create documents in one lane of a job. Their hashes are spread like real ones."""
    lane = make_lane(job.seeds.get(), host, ready_at=None)
    known = {"stage": Stage.DONE, "outcome": Outcome.INDEXED, "result_code": "200", "run_no": job.run_no} | facts
    return QueueItem.objects.bulk_create(
        QueueItem(
            hash=uuid.uuid5(uuid.NAMESPACE_URL, f"http://{host}/{number}"),
            job=job,
            lane=lane,
            identifier=f"http://{host}/{number}",
            **known,
        )
        for number in range(count)
    )


def make_node(name="worker-1", **facts):
    known = {
        "id": uuid.uuid4(),
        "kind": Node.Kind.WORKER,
        "name": name,
        "status": Node.Status.RUNNING,
        "started_at": NOON,
        "heartbeat_at": NOON,
        "timeout_seconds": 10.0,
        "host": "here",
        "pid": 1,
    }
    return Node.objects.create(**known | facts)


def make_world():
    """Create one of everything that the API shows."""
    policy = ThrottlePolicy.objects.create(name="gently")
    job = make_job(policy=policy)
    (document,) = make_documents(job, 1)
    output = OutputConnection.objects.get(name="index")
    IndexedDocument.objects.create(output=output, hash=document.hash, version="1:abc", indexed_at=NOON)
    group = ThrottleGroup.objects.create(policy=policy, node_scope="cluster")
    request = ClusterRequest.objects.create(kind=ClusterRequest.Kind.REBALANCE, asked_by="somebody", asked_at=NOON)
    node = make_node()
    NodeEvent.objects.create(node=node, scope=node.scope, kind=NodeEvent.Kind.REGISTERED, message="worker-1 registered")
    task = {"kind": "count", "retry_policy": {"policy": "never"}, "created_by": "somebody"}
    template = {"kind": "count", "retry_policy": {"policy": "never"}, "schedule": {"every_minutes": 5}}
    ended = ArchivedTask.objects.create(id=1_000_000, **task, why="done", archived_at=NOON, last_due_at=NOON)
    return SimpleNamespace(
        task=Task.objects.create(**task, scheduled_at=NOON),
        archived_task=ended,
        template=TaskTemplate.objects.create(**template, urn="often", created_by="somebody", next_at=NOON),
        export=Export.objects.create(task=ended.pk, what="documents", format="csv", created_by="somebody"),
        bulk=BulkOperation.objects.create(
            task=ended.pk, operation="retry", job_id=job.pk, shown=1, created_by="somebody"
        ),
        task_worker=TaskWorker.objects.create(pk=uuid.uuid4(), name="tasks-1", host="elsewhere", pid=1),
        job=job,
        policy=policy,
        document=document,
        output=output,
        node=node,
        group=group,
        request=request,
        repository=RepositoryConnection.objects.get(name="the web"),
    )


def document_id(document):
    return f"{document.job_id}-{document.hash.hex}"


def assert_problem(response, status, code, *, fields=None, allowed=None):
    """Assert that a response has the one format of errors, and nothing else."""
    assert response.status_code == status, response.content
    body = response.json()
    assert response["Content-Type"] == "application/problem+json"
    assert set(body) <= {"title", "status", "code", "detail", "fields", "allowed"}
    assert (body["status"], body["code"]) == (status, code)
    assert isinstance(body["detail"], str)
    assert body["detail"]
    if fields is not None:
        assert set(body["fields"]) == set(fields), body
    for sentences in body.get("fields", {}).values():
        assert sentences
        assert all(isinstance(sentence, str) for sentence in sentences)
    assert body.get("allowed") == allowed
    return body
