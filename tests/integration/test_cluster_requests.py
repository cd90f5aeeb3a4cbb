"""A request to the cluster is answered by the main manager, carried out once, and shown until its end."""

import io
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.management import CommandError, call_command
from django.db import connection as django_connection
from django.test.utils import CaptureQueriesContext

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, VIEWER
from jobs.duties.allocate import allocate_groups
from jobs.duties.hand_over import hand_over_groups
from jobs.duties.requests import answer_requests
from jobs.models import Job, ThrottleGroup
from nodes.membership import leadership, members
from nodes.membership.fences import FenceRefused
from nodes.models import ClusterRequest, Node
from tests.support.api import assert_problem, client_of
from tests.support.cluster import NOON, events_of, register_node, status_of
from tests.support.factories import make_job
from tests.support.processes import wait_for
from tests.support.stepping import Main, Manager

REBALANCE = "/api/v1/cluster/rebalance/"
REQUESTS = "/api/v1/cluster/requests/"


@pytest.fixture
def cluster(dsn, connection, monkeypatch):
    """Yield a main manager that can answer within milliseconds from another thread, as its process would."""
    monkeypatch.setattr("nodes.membership.requests._READ_INTERVAL", 0.01)
    made = _Cluster(connection)
    yield made
    made.stop()


class _Cluster:
    """The main manager with six groups, and a second manager."""

    def __init__(self, connection):
        self.connection = connection
        self.main = Main(connection)
        for _ in range(6):
            make_job()
        Job.objects.update(phase="active", run_no=1, started_at=NOON)
        self.main.step(allocate_groups)
        self.other = Manager(connection)
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(1)

    def answer(self):
        """Let the main manager answer from now on."""
        self._pool.submit(self._go_on)
        return self

    def stop(self):
        self._stopped.set()
        self._pool.shutdown()

    def _go_on(self):
        while not self._stopped.wait(0.02):
            self.main.step(answer_requests)
        django_connection.close()


def moving():
    return ThrottleGroup.objects.filter(state="releasing").count()


def some_group():
    return ThrottleGroup.objects.order_by("pk").first().pk


@pytest.fixture
def impatient(monkeypatch):
    """Let requests return without a wait for their answer."""
    monkeypatch.setattr("nodes.membership.requests._ANSWER_TIMEOUT", 0.0)


@pytest.fixture
def administrator(cluster):
    return client_of(ADMINISTRATOR)


def run(command, *arguments, **options):
    out = io.StringIO()
    call_command(command, *arguments, stdout=out, **options)
    return out.getvalue()


# --- Rebalance -------------------------------------------------------------------------------------


def test_a_rebalance_returns_its_moves_and_the_loads_before_and_after(cluster, administrator):
    cluster.answer()

    response = administrator.post(REBALANCE, {}, format="json")

    assert response.status_code == 200
    body = response.json()
    assert (body["state"], body["asked_by"]) == ("in_progress", "a administrator")
    main, other = str(cluster.main.id), str(cluster.other.id)
    assert [(move["owner"], move["to"]) for move in body["answer"]["moves"]] == [(main, other)] * 3
    assert {load["manager"]: load["groups"] for load in body["answer"]["before"]} == {main: 6, other: 0}
    assert {load["manager"]: load["weight"] for load in body["answer"]["after"]} == {main: 3.0, other: 3.0}
    assert moving() == 3


def test_the_progress_of_a_request_can_be_followed_to_its_end(cluster, administrator, impatient):
    address = administrator.post(REBALANCE, {}, format="json")["Location"]
    assert administrator.get(address).json()["state"] == "waiting"

    cluster.main.step(answer_requests)
    body = administrator.get(address).json()
    assert (body["state"], body["progress"]) == ("in_progress", {"moves": 3, "arrived": 0})

    cluster.main.step(hand_over_groups, answer_requests)
    body = administrator.get(address).json()
    assert (body["state"], body["progress"]) == ("done", {"moves": 3, "arrived": 3})
    assert ThrottleGroup.objects.filter(owner=cluster.other.id, state="owned").count() == 3
    assert "asked" in events_of(cluster.connection, cluster.main.id)


def test_a_list_of_requests_reads_only_the_first_moves_of_each_request(
    cluster, administrator, impatient, settings_known, django_assert_num_queries
):
    address = administrator.post(f"/api/v1/nodes/{cluster.main.id}/drain/", {"dry_run": True}, format="json")[
        "Location"
    ]
    cluster.main.step(answer_requests)
    with CaptureQueriesContext(django_connection) as once:
        administrator.get(REQUESTS)
        statements = len(once)
    administrator.post(REBALANCE, {}, format="json")
    cluster.main.step(answer_requests)
    administrator.post(f"/api/v1/groups/{some_group()}/move/", {"to": str(cluster.main.id)}, format="json")

    with django_assert_num_queries(statements) as asked:
        move, rebalance, drain = administrator.get(REQUESTS).json()["results"]

    assert not any('"answer"' in query["sql"] for query in asked)
    assert (move["answer"], move["progress"]) == (None, {"moves": 0, "arrived": 0})
    assert rebalance["progress"] == {"moves": 3, "arrived": 0}
    plan = administrator.get(address).json()["answer"]
    assert drain["answer"] == {
        "moves_in_all": len(plan["moves"]),
        "first_moves": plan["moves"][:3],
        "before": plan["before"],
        "after": plan["after"],
    }
    assert len(plan["moves"]) == 6


def test_a_dry_run_shows_the_plan_and_moves_nothing(cluster, administrator):
    cluster.answer()

    body = administrator.post(REBALANCE, {"dry_run": True}, format="json").json()

    assert (body["state"], len(body["answer"]["moves"])) == ("done", 3)
    assert moving() == 0


def test_two_simultaneous_equal_cluster_requests_have_one_effect(cluster, administrator, impatient):
    first, second = (administrator.post(REBALANCE, {}, format="json") for _ in range(2))

    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["id"] == second.json()["id"]
    assert cluster.main.step(answer_requests) == 1
    third = administrator.post(REBALANCE, {}, format="json")
    assert (third.status_code, third.json()["id"]) == (200, first.json()["id"])


def test_an_ended_request_can_be_made_again(cluster, administrator, impatient):
    for _ in range(2):
        administrator.post(REBALANCE, {}, format="json")
        cluster.main.step(answer_requests, hand_over_groups, answer_requests)

    assert [len(request.answer["moves"]) for request in ClusterRequest.objects.order_by("pk")] == [3, 0]


def test_a_rebalance_needs_a_main_manager(cluster, administrator):
    leadership.resign(cluster.connection, term=cluster.main.term)

    assert_problem(administrator.post(REBALANCE, {}, format="json"), 503, "no_main")

    assert not ClusterRequest.objects.exists()


def test_a_replaced_main_answers_no_request(cluster, administrator, impatient):
    administrator.post(REBALANCE, {}, format="json")
    leadership.resign(cluster.connection, term=cluster.main.term)

    with pytest.raises(FenceRefused, match="term fence"):
        cluster.main.step(answer_requests)

    assert ClusterRequest.objects.get().state == "waiting"
    assert moving() == 0


@pytest.mark.parametrize("role", [VIEWER, OPERATOR])
def test_only_administrators_may_request_a_rebalance(cluster, role):
    assert_problem(client_of(role).post(REBALANCE, {}, format="json"), 403, "permission_denied")

    assert not ClusterRequest.objects.exists()


def test_an_unknown_object_of_a_rebalance_is_refused(administrator):
    assert_problem(administrator.post(REBALANCE, {"dry": True}, format="json"), 400, "invalid", fields=["dry"])


# --- Moves of one group ----------------------------------------------------------------------------


def move(client, to, *, group=None):
    return client.post(f"/api/v1/groups/{group or some_group()}/move/", {"to": str(to)}, format="json")


def test_a_group_is_moved_to_the_given_manager(cluster, administrator):
    cluster.answer()

    body = move(administrator, cluster.other.id).json()

    assert [(one["group"], one["to"]) for one in body["answer"]["moves"]] == [(some_group(), str(cluster.other.id))]
    assert ThrottleGroup.objects.get(state="releasing").destination_id == cluster.other.id


def test_moving_a_group_to_its_present_owner_changes_nothing(cluster, administrator):
    cluster.answer()

    body = move(administrator, cluster.main.id).json()

    assert (body["state"], body["answer"]["moves"]) == ("done", [])


def _worker(cluster):
    return register_node(cluster.connection, "worker").id


def _failed(cluster):
    Node.objects.filter(pk=cluster.other.id).update(status="failed", stopped_at=NOON)
    return cluster.other.id


def _draining(cluster):
    members.begin_draining(cluster.connection, node_id=cluster.other.id, reason="")
    return cluster.other.id


def _moving_already(cluster):
    ThrottleGroup.objects.filter(pk=some_group()).update(state="releasing", releasing_since=NOON)
    return cluster.other.id


@pytest.mark.parametrize(
    ("to", "sentence"),
    [
        (_worker, "is a worker: groups belong to managers"),
        (_failed, "is failed. Choose a running manager"),
        (_draining, "is draining"),
        (_moving_already, "is moving already"),
    ],
)
def test_an_impossible_move_of_a_group_is_refused_with_a_reason(cluster, administrator, to, sentence):
    node = to(cluster)
    before = moving()
    cluster.answer()

    problem = assert_problem(move(administrator, node), 409, "refused")

    assert sentence in problem["detail"]
    assert moving() == before


def test_an_unknown_group_or_node_is_not_found(cluster, administrator):
    assert_problem(move(administrator, cluster.other.id, group=999_999), 404, "not_found")
    assert_problem(move(administrator, uuid.uuid4()), 404, "not_found")
    assert_problem(administrator.post(f"/api/v1/nodes/{uuid.uuid4()}/drain/"), 404, "not_found")
    assert_problem(
        administrator.post(f"/api/v1/groups/{some_group()}/move/", {"to": "there"}, format="json"),
        400,
        "invalid",
        fields=["to"],
    )

    assert not ClusterRequest.objects.exists()


def test_groups_are_listed_with_their_owners(cluster):
    listed = client_of(VIEWER).get(f"/api/v1/groups/?owner={cluster.main.id}&limit=2").json()

    assert [group["state"] for group in listed["results"]] == ["owned", "owned"]
    assert listed["results"][0]["name"] == "http://a.example/"


# --- Drains ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["manager", "worker"])
def test_a_node_is_drained_and_the_request_ends_when_the_node_ends(cluster, administrator, impatient, kind):
    node = register_node(cluster.connection, kind)

    address = administrator.post(f"/api/v1/nodes/{node.id}/drain/")["Location"]
    cluster.main.step(answer_requests)
    assert status_of(cluster.connection, node.id) == "draining"
    assert administrator.get(address).json()["state"] == "in_progress"

    members.stop(cluster.connection, node_id=node.id, reason="drained")
    cluster.main.step(answer_requests)
    assert administrator.get(address).json()["state"] == "done"


def test_a_drain_lists_the_new_owners_before_it_starts(cluster, administrator):
    cluster.answer()

    answer = administrator.post(f"/api/v1/nodes/{cluster.main.id}/drain/", {"dry_run": True}).json()

    assert {move["to"] for move in answer["answer"]["moves"]} == {str(cluster.other.id)}
    assert {move["group"] for move in answer["answer"]["moves"]} == set(
        ThrottleGroup.objects.filter(owner_id=cluster.main.id).values_list("pk", flat=True)
    )
    assert answer["state"] == "done"
    assert status_of(cluster.connection, cluster.main.id) == "running"
    assert not ThrottleGroup.objects.filter(state="releasing").exists()


def test_the_only_manager_is_not_drained(cluster, administrator):
    members.stop(cluster.connection, node_id=cluster.other.id, reason="")
    cluster.answer()

    problem = assert_problem(administrator.post(f"/api/v1/nodes/{cluster.main.id}/drain/"), 409, "refused")

    assert "the only running one" in problem["detail"]
    assert status_of(cluster.connection, cluster.main.id) == "running"


def test_a_node_that_has_ended_is_not_drained(cluster, administrator):
    _failed(cluster)
    cluster.answer()

    assert_problem(administrator.post(f"/api/v1/nodes/{cluster.other.id}/drain/"), 409, "refused")


# --- If-Match --------------------------------------------------------------------------------------


@pytest.fixture
def two_at_once(cluster, administrator, monkeypatch):
    """Return a function that makes two requests with one ETag, before the main manager answers the first."""

    def make(address, seen_at, first, second):
        seen = {"If-Match": administrator.get(seen_at)["ETag"]}
        with monkeypatch.context() as patched:
            patched.setattr("nodes.membership.requests._ANSWER_TIMEOUT", 0.0)
            assert administrator.post(address, first, format="json", headers=seen).status_code == 202

        def post():
            try:
                return administrator.post(address, second, format="json", headers=seen)
            finally:
                django_connection.close()

        with ThreadPoolExecutor(1) as pool:
            answered = pool.submit(post)
            wait_for(lambda: ClusterRequest.objects.count() == 2, saying="the second request is stored")
            cluster.answer()
            return answered.result()

    return make


def test_a_group_moves_only_from_the_owner_that_the_user_saw(cluster, two_at_once):
    third = Manager(cluster.connection)
    group = f"/api/v1/groups/{some_group()}/"

    refused = two_at_once(f"{group}move/", group, {"to": str(cluster.other.id)}, {"to": str(third.id)})

    problem = assert_problem(refused, 412, "precondition_failed")
    assert f"destination {cluster.other.id}" in problem["detail"]
    assert ThrottleGroup.objects.get(pk=some_group()).destination_id == cluster.other.id
    assert ClusterRequest.objects.first().state == "changed"


def test_a_node_is_drained_only_in_the_state_that_the_user_saw(cluster, two_at_once):
    node = f"/api/v1/nodes/{cluster.other.id}/"

    refused = two_at_once(f"{node}drain/", node, {}, {"dry_run": True})

    assert_problem(refused, 412, "precondition_failed")
    assert ClusterRequest.objects.first().state == "changed"


def test_an_if_match_with_a_star_accepts_any_state(cluster, administrator):
    cluster.answer()
    address = f"/api/v1/groups/{some_group()}/move/"

    answered = administrator.post(address, {"to": str(cluster.other.id)}, format="json", headers={"If-Match": "*"})

    assert answered.status_code == 200
    assert ClusterRequest.objects.get().expected is None


def test_a_request_with_the_present_etag_is_carried_out(cluster, administrator):
    group = f"/api/v1/groups/{some_group()}/"
    seen = {"If-Match": administrator.get(group)["ETag"]}
    cluster.answer()

    answered = administrator.post(f"{group}move/", {"to": str(cluster.other.id)}, format="json", headers=seen)

    assert (answered.status_code, moving()) == (200, 1)


# --- Commands --------------------------------------------------------------------------------------


def test_commands_show_the_plan_of_a_request(cluster):
    cluster.answer()

    assert "groups, weight 6 -> 3" in run("rebalance", "--dry-run")
    assert moving() == 0
    assert "in progress" in run("move", str(some_group()), "--to", str(cluster.other.id))
    assert "in progress" in run("drain", str(cluster.other.id))


@pytest.mark.parametrize(
    ("command", "arguments", "code"),
    [("move", ["999999", "--to", str(uuid.UUID(int=7))], 2), ("drain", [str(uuid.UUID(int=7))], 2)],
)
def test_a_command_names_a_missing_object(cluster, command, arguments, code):
    with pytest.raises(CommandError, match="does not exist") as refused:
        run(command, *arguments)

    assert refused.value.returncode == code


def test_a_command_reports_that_there_is_no_main_manager(cluster):
    leadership.resign(cluster.connection, term=cluster.main.term)

    with pytest.raises(CommandError, match="no main manager now"):
        run("rebalance")
