"""Proves that every role reads the system's rows on set-up pages, and that only valid actions change these rows."""

import uuid

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db import connection as django_connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, VIEWER
from jobs.connectors.repository.base import hash_of
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Phase, is_possible
from jobs.models import Job, JobEvent, Outcome, QueueItem, Seed, ThrottleGroup
from jobs.verbs.control import VERBS
from nodes.models import Node, NodeEvent
from nodes.tasks import verbs
from nodes.tasks.models import ArchivedTask, Task, TaskTemplate
from tests.support.api import NOON, make_documents, make_job, make_node, make_user, make_world, set_phase
from tests.support.task_kinds import NAMED

pytestmark = pytest.mark.django_db

QUEUE = "/admin/jobs/queueitem/"


@pytest.fixture(autouse=True)
def kinds(settings):
    settings.CRAWLCTL_TASKS = (NAMED,)


def visitor(role):
    client = Client()
    client.force_login(make_user(role, name=role))
    return client


@pytest.fixture
def operator():
    return visitor(OPERATOR)


@pytest.fixture
def administrator():
    return visitor(ADMINISTRATOR)


def text_of(response):
    assert response.status_code == 200, response.status_code
    return response.content.decode()


def messages_of(response):
    return [str(message) for message in response.context["messages"]]


def rows_of(response):
    assert response.status_code == 200, response.status_code
    return list(response.context["cl"].result_list)


def detail_actions_of(response):
    """Return the labels of the actions that a page offers for its row."""
    assert response.status_code == 200, response.status_code
    return [str(action["title"]) for action in response.context["actions_detail"] if action]


def act(client, path, name, *keys, sure=True):
    """Perform an action on the rows with these keys. `sure` confirms it."""
    sent = {"action": name, ACTION_CHECKBOX_NAME: list(keys), **({"sure": "1"} if sure else {})}
    return client.post(path, sent, follow=True)


def key_of(document):
    return f"{document.hash.hex}.{document.job_id}"


def records_of(world):
    """Return the list pages of records, each with the key of one row."""
    event = JobEvent.objects.create(job=world.job, job_name="manual", at=NOON, kind="start", made_by="me", message="go")
    return {
        QUEUE: key_of(world.document),
        "/admin/jobs/seed/": world.job.seeds.get().pk,
        "/admin/jobs/throttlegroup/": world.group.pk,
        "/admin/jobs/jobevent/": event.pk,
        "/admin/nodes/node/": world.node.pk,
        "/admin/nodes/nodeevent/": NodeEvent.objects.first().pk,
        "/admin/nodes/clusterrequest/": world.request.pk,
        "/admin/tasks/task/": world.task.pk,
        "/admin/tasks/archivedtask/": world.archived_task.pk,
        "/admin/tasks/tasktemplate/": world.template.pk,
        "/admin/tasks/taskworker/": world.task_worker.pk,
    }


# --- Reading -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [VIEWER, OPERATOR, ADMINISTRATOR])
def test_every_role_reads_all_records(role):
    client = visitor(role)

    for path, key in records_of(make_world()).items():
        assert rows_of(client.get(path)), path
        assert client.get(f"{path}{key}/change/").status_code == 200, path


def test_a_user_without_a_role_reads_no_records():
    client = Client()
    client.force_login(make_user(name="nobody"))

    for path in records_of(make_world()):
        assert client.get(path).status_code == 302, path
        assert Client().get(path).status_code == 302, path


def test_no_record_is_added_changed_or_deleted_by_a_form(administrator):
    for path, key in records_of(make_world()).items():
        for changing in (f"{path}add/", f"{path}{key}/change/", f"{path}{key}/delete/"):
            assert administrator.post(changing, {"post": "yes", "message": "forged"}).status_code == 403, changing
        form = administrator.get(path).context["action_form"]
        offered = dict(form.fields["action"].choices) if form else {}
        assert "delete_selected" not in offered, path


@pytest.mark.parametrize("path", ["/admin/jobs/jobevent/", "/admin/nodes/nodeevent/"])
def test_a_journal_offers_no_action(administrator, path):
    records_of(make_world())

    assert administrator.get(path).context["action_form"] is None


def test_moments_of_records_are_shown_to_the_second(operator):
    JobEvent.objects.create(job_name="manual", at=NOON, kind="start", made_by="me", message="go")

    assert "2026-06-01 12:00:00" in text_of(operator.get("/admin/jobs/jobevent/"))


def test_an_unknown_record_redirects_without_a_server_error(administrator):
    records_of(make_world())

    for path in (
        f"{QUEUE}{'0' * 32}.1/",
        f"{QUEUE}nothing/",
        "/admin/nodes/node/nothing/",
        "/admin/tasks/task/nothing/",
    ):
        assert administrator.get(f"{path}change/").status_code in {302, 404}, path
    for path in ("/admin/tasks/task/nothing/cancel/", "/admin/jobs/seed/nothing/remove/", "/admin/nodes/node/x/drain/"):
        assert administrator.get(path).status_code in {403, 404}, path


# --- Documents ---------------------------------------------------------------------------------------


def test_a_document_is_found_by_its_exact_address(operator):
    documents = make_documents(make_job(), 20)
    url = documents[7].identifier
    QueueItem.objects.filter(hash=documents[7].hash).update(hash=hash_of(url))

    assert [row.identifier for row in rows_of(operator.get(QUEUE, {"q": url}))] == [url]
    assert rows_of(operator.get(QUEUE, {"q": url[:-1] + "x"})) == []


def test_documents_are_found_by_the_beginning_of_their_address(operator):
    job = make_job()
    make_documents(job, 12)
    make_documents(job, 12, host="news.test")

    found = rows_of(operator.get(QUEUE, {"q": "http://news.test/1*"}))

    assert sorted(row.identifier for row in found) == [f"http://news.test/{n}" for n in ("1", "10", "11")]


def test_a_search_for_an_address_without_a_whole_host_gives_a_reason(operator):
    make_documents(make_job(), 3)

    response = operator.get(QUEUE, {"q": "http://doc*"})

    assert rows_of(response) == []
    assert messages_of(response) == ["Write the host in full, such as https://example.org/news*."]


def test_the_pages_of_the_queue_show_each_document_once(operator):
    documents = [*make_documents(make_job(), 70), *make_documents(make_job("second"), 60)]

    seen, link = [], "?"
    while link:
        response = operator.get(QUEUE + link)
        seen += [key_of(row) for row in rows_of(response)]
        link = response.context["cl"].next_link

    assert sorted(seen) == sorted(map(key_of, documents))


def test_lists_of_the_queue_use_no_count_and_no_offset(operator):
    documents = make_documents(make_job(), 60)
    after = key_of(sorted(documents, key=lambda document: document.hash.hex)[5])

    for query in ("", f"?after={after}", "?q=http://docs.test/1", "?q=http://docs.test/*"):
        with CaptureQueriesContext(django_connection) as executed:
            rows_of(operator.get(QUEUE + query))
        reads = [one["sql"] for one in executed if 'FROM "jobs_queueitem"' in one["sql"]]
        assert reads
        assert not [sql for sql in reads if "COUNT(" in sql.upper() or "OFFSET" in sql.upper()]
        assert all("LIMIT" in sql for sql in reads)


@pytest.mark.parametrize("after", ["x", "0.1", f"{'0' * 32}.x", f"{'0' * 32}.{10**30}"])
def test_an_invalid_position_in_the_queue_leads_back_to_the_first_page(operator, after):
    assert operator.get(QUEUE, {"after": after}).status_code == 302


def test_only_failed_documents_among_the_selected_ones_are_retried(operator):
    job = make_job()
    failed = make_documents(job, 2, outcome=Outcome.FAILED, result_code="500")
    (done,) = make_documents(job, 1, host="news.test")
    other = make_documents(job, 1, host="other.test", outcome=Outcome.FAILED, result_code="500")

    keys = [key_of(document) for document in (*failed, done)]
    confirmation = act(operator, QUEUE, "retry_selected", *keys, sure=False)
    assert failed[0].identifier in text_of(confirmation)
    assert done.identifier not in text_of(confirmation)
    assert QueueItem.objects.filter(stage=Stage.PENDING).count() == 0
    retried = act(operator, QUEUE, "retry_selected", *keys)

    assert messages_of(retried) == ["Documents to be retried: 2."]
    pending = QueueItem.objects.filter(stage=Stage.PENDING).values_list("hash", flat=True)
    assert set(pending) == {document.hash for document in failed}
    assert QueueItem.objects.get(hash=other[0].hash).stage == Stage.DONE
    assert JobEvent.objects.filter(kind="sent back", made_by=OPERATOR).count() == 1


def test_a_document_of_another_job_with_the_same_address_is_not_changed(operator):
    first = make_documents(make_job(), 1, outcome=Outcome.FAILED, result_code="500")
    second = make_documents(make_job("second"), 1, outcome=Outcome.FAILED, result_code="500")
    assert first[0].hash == second[0].hash

    operator.post(f"{QUEUE}{key_of(second[0])}/retry/")

    stages = {document.job_id: document.stage for document in QueueItem.objects.all()}
    assert stages == {first[0].job_id: Stage.DONE, second[0].job_id: Stage.PENDING}


@pytest.mark.parametrize(
    ("facts", "phase", "is_legal"),
    [
        ({"outcome": Outcome.FAILED, "result_code": "500"}, Phase.ACTIVE, True),
        ({"outcome": Outcome.EXCLUDED, "result_code": "DENIED"}, Phase.ACTIVE, True),
        ({"outcome": Outcome.FAILED, "result_code": "500"}, Phase.DELETING, False),
        ({"outcome": Outcome.INDEXED}, Phase.ACTIVE, False),
        ({"stage": Stage.PENDING, "outcome": Outcome.NONE}, Phase.ACTIVE, False),
    ],
)
def test_a_document_offers_a_retry_only_if_it_is_possible(operator, facts, phase, is_legal):
    job = make_job()
    (document,) = make_documents(job, 1, **facts)
    set_phase(job, phase=phase)
    page = f"{QUEUE}{key_of(document)}"

    assert ("Retry" in detail_actions_of(operator.get(f"{page}/change/"))) == is_legal
    assert operator.post(f"{page}/retry/").status_code == (302 if is_legal else 403)


def test_a_forged_key_selects_nothing(operator):
    make_documents(make_job(), 1, outcome=Outcome.FAILED, result_code="500")

    response = act(operator, QUEUE, "retry_selected", "forged", "1.x", f"{'0' * 32}.1")

    assert messages_of(response) == ["None of these documents has failed in the present run of its job."]


def test_a_viewer_retries_nothing():
    client = visitor(VIEWER)
    (document,) = make_documents(make_job(), 1, outcome=Outcome.FAILED, result_code="500")

    act(client, QUEUE, "retry_selected", key_of(document))

    assert client.post(f"{QUEUE}{key_of(document)}/retry/").status_code == 403
    assert QueueItem.objects.get().stage == Stage.DONE


@pytest.mark.parametrize(
    "place",
    [
        "jobs/repositoryconnection/x/clear-history",
        "jobs/outputconnection/x/verify",
        "jobs/outputconnection/x/clear",
        "jobs/outputconnection/x/index-again",
        "jobs/outputconnection/x/restore",
        "authorities/authorityconnection/x/test",
        "authorities/mappingconnection/x/test",
    ],
)
def test_an_action_with_an_invalid_key_is_not_found(administrator, place):
    assert administrator.post(f"/admin/{place}/").status_code == 404


def test_a_forged_selection_of_all_rows_is_refused(operator):
    first, *_others = make_documents(make_job(), 3, outcome=Outcome.FAILED, result_code="500")
    forged = {"action": "retry_selected", ACTION_CHECKBOX_NAME: key_of(first), "select_across": "1", "sure": "1"}

    answer = operator.post(QUEUE, forged)

    assert answer.status_code == 403
    assert not QueueItem.objects.filter(stage=Stage.PENDING).exists()


# --- Jobs and seeds ----------------------------------------------------------------------------------

_STATES = {
    "inactive": {"phase": Phase.INACTIVE},
    "active": {"phase": Phase.ACTIVE, "run_no": 1},
    "paused": {"phase": Phase.ACTIVE, "run_no": 1, "pause": "paused"},
}


@pytest.mark.parametrize("state", _STATES)
def test_a_job_offers_exactly_the_actions_that_its_state_permits(administrator, state):
    job = make_job()
    set_phase(job, **_STATES[state])
    job.refresh_from_db()

    offered = detail_actions_of(administrator.get(f"/admin/jobs/job/{job.pk}/change/"))

    assert offered == [verb.label for verb in VERBS.values() if is_possible(verb.transition, job.state)]
    for name, verb in VERBS.items():
        response = administrator.get(f"/admin/jobs/job/{job.pk}/do-{name}/")
        assert response.status_code == (200 if is_possible(verb.transition, job.state) else 403), name


def test_an_action_on_a_job_requires_a_confirmation(administrator):
    job = make_job()
    address = f"/admin/jobs/job/{job.pk}/do-start/"

    assert VERBS["start"].effect in text_of(administrator.get(address))
    assert Job.objects.get().phase == Phase.INACTIVE
    response = administrator.post(address, follow=True)

    job.refresh_from_db()
    assert job.phase != Phase.INACTIVE
    assert messages_of(response) == [f"{job.name}: {job.status}."]


@pytest.mark.parametrize(
    "action", ["job/4242/do-start", "seed/4242/remove", "throttlegroup/4242/move", f"node/{uuid.UUID(int=4242)}/drain"]
)
def test_an_action_on_a_deleted_object_is_not_found(administrator, action):
    text = administrator.get(f"/admin/{'nodes' if 'node/' in action else 'jobs'}/{action}/").content.decode()

    assert ("This does not exist." in text, "Not allowed" in text) == (True, False)


def test_an_operator_performs_actions_but_cannot_delete_a_job(operator):
    job = make_job()

    assert operator.get(f"/admin/jobs/job/{job.pk}/do-start/").status_code == 200
    assert operator.post(f"/admin/jobs/job/{job.pk}/do-delete/").status_code == 403


def make_seeds(number, **facts):
    job = make_job(**facts)
    for n in range(number - 1):
        job.seeds.create(urls=[f"http://more{n}.test/"])
    return job, list(job.seeds.order_by("pk"))


def test_a_seed_is_removed_from_its_job(administrator):
    job, (first, second) = make_seeds(2)
    page = f"/admin/jobs/seed/{first.pk}"

    assert detail_actions_of(administrator.get(f"{page}/change/")) == ["Edit in its job", "Remove"]
    administrator.post(f"{page}/remove/")

    assert list(job.seeds.filter(removed_at=None)) == [second]
    assert Seed.objects.get(pk=first.pk).removed_at is not None
    assert detail_actions_of(administrator.get(f"/admin/jobs/seed/{second.pk}/change/")) == ["Edit in its job"]


def test_several_seeds_are_removed_only_after_a_confirmation(administrator):
    job, seeds = make_seeds(3)
    keys = [seed.pk for seed in seeds]

    assert "http://docs.test/" in text_of(
        act(administrator, "/admin/jobs/seed/", "remove_selected", *keys[:2], sure=False)
    )
    refused = act(administrator, "/admin/jobs/seed/", "remove_selected", *keys)
    assert messages_of(refused) == [f"{job.name} needs a seed. Keep one of them, or delete the job."]
    assert job.seeds.filter(removed_at=None).count() == 3
    act(administrator, "/admin/jobs/seed/", "remove_selected", *keys[:2])

    assert [seed.pk for seed in job.seeds.filter(removed_at=None)] == keys[2:]


def test_a_seed_of_a_job_that_is_being_deleted_stays(administrator):
    job, (first, _second) = make_seeds(2)
    set_phase(job, phase=Phase.DELETING)

    assert administrator.post(f"/admin/jobs/seed/{first.pk}/remove/").status_code == 403


def test_a_seed_is_found_by_its_job_and_by_an_address(operator):
    job, (first, second) = make_seeds(2)
    other = make_job("other").seeds.get()
    (document,) = make_documents(make_job("third"), 1)
    QueueItem.objects.filter(hash=document.hash).update(hash=hash_of(document.identifier))

    def found(searched):
        return [seed.pk for seed in rows_of(operator.get("/admin/jobs/seed/", {"q": searched}))]

    assert found(job.name) == [first.pk, second.pk]
    assert found(str(other.pk)) == [other.pk]
    assert found(document.identifier) == [document.lane.seed_id]


def test_only_administrators_remove_seeds(operator):
    _job, (first, _second) = make_seeds(2)

    assert operator.post(f"/admin/jobs/seed/{first.pk}/remove/").status_code == 403
    act(operator, "/admin/jobs/seed/", "remove_selected", first.pk)
    assert Seed.objects.filter(removed_at=None).count() == 2


# --- The cluster -------------------------------------------------------------------------------------


def test_a_drain_leads_to_the_page_with_its_preview(administrator):
    node, ended = make_node(), make_node("gone", status=Node.Status.STOPPED, stopped_at=NOON)
    preview = f"/cluster/nodes/{node.pk}/drain/"

    assert detail_actions_of(administrator.get(f"/admin/nodes/node/{node.pk}/change/")) == ["Drain"]
    assert detail_actions_of(administrator.get(f"/admin/nodes/node/{ended.pk}/change/")) == []
    assert administrator.get(f"/admin/nodes/node/{node.pk}/drain/")["Location"] == preview
    assert administrator.get(f"/admin/nodes/node/{ended.pk}/drain/").status_code == 403
    assert act(administrator, "/admin/nodes/node/", "drain_selected", node.pk).redirect_chain[0][0] == preview


def test_one_node_is_drained_at_a_time(administrator):
    nodes = [make_node(f"worker-{n}") for n in range(2)]

    response = act(administrator, "/admin/nodes/node/", "drain_selected", *(node.pk for node in nodes))

    assert messages_of(response) == ["Select exactly one row for this action."]


def test_a_move_leads_to_the_page_with_its_choices(administrator):
    group = make_world().group
    moving = ThrottleGroup.objects.create(
        seed=make_job("second").seeds.get(), node_scope="cluster", state="releasing", releasing_since=NOON
    )

    assert detail_actions_of(administrator.get(f"/admin/jobs/throttlegroup/{group.pk}/change/")) == ["Move"]
    assert detail_actions_of(administrator.get(f"/admin/jobs/throttlegroup/{moving.pk}/change/")) == []
    assert (
        administrator.get(f"/admin/jobs/throttlegroup/{group.pk}/move/")["Location"] == f"/cluster/groups/{group.pk}/"
    )
    refused = act(administrator, "/admin/jobs/throttlegroup/", "move_selected", moving.pk)
    assert messages_of(refused) == [f"Group {moving.pk} is moving, or is not a group of the cluster."]


@pytest.mark.parametrize("table", ["nodes/node", "jobs/throttlegroup", "nodes/clusterrequest"])
def test_a_rebalance_is_sent_to_the_page_with_its_plan(administrator, table):
    text = text_of(administrator.get(f"/admin/{table}/rebalance/"))

    assert 'action="/cluster/rebalance/"' in text
    assert 'name="go"' not in text


def test_only_administrators_control_the_cluster(operator):
    world = make_world()

    for path in (
        f"/admin/nodes/node/{world.node.pk}/drain/",
        f"/admin/jobs/throttlegroup/{world.group.pk}/move/",
        "/admin/nodes/node/rebalance/",
    ):
        assert operator.get(path).status_code == 403, path
    assert detail_actions_of(operator.get(f"/admin/nodes/node/{world.node.pk}/change/")) == []


# --- Tasks -------------------------------------------------------------------------------------------


def test_tasks_are_cancelled_only_after_a_confirmation(operator):
    tasks = [verbs.create(kind="count", made_by="me") for _ in range(3)]
    keys = [task.pk for task in tasks[:2]]

    assert f"task {keys[0]}: count" in text_of(
        act(operator, "/admin/tasks/task/", "cancel_selected", *keys, sure=False)
    )
    assert Task.objects.count() == 3
    response = act(operator, "/admin/tasks/task/", "cancel_selected", *keys)

    assert messages_of(response) == ["Tasks cancelled: 2."]
    assert [task.pk for task in Task.objects.all()] == [tasks[2].pk]


def test_a_task_with_a_requested_cancellation_offers_no_second_cancellation(operator):
    task = verbs.create(kind="count", made_by="me")
    page = f"/admin/tasks/task/{task.pk}"
    assert "Cancel" in detail_actions_of(operator.get(f"{page}/change/"))

    Task.objects.update(cancelled_by="me")

    assert "Cancel" not in detail_actions_of(operator.get(f"{page}/change/"))
    assert operator.post(f"{page}/cancel/").status_code == 403


def test_ended_tasks_are_run_again(operator):
    task = make_world().archived_task

    operator.post(f"/admin/tasks/archivedtask/{task.pk}/reschedule/")
    act(operator, "/admin/tasks/archivedtask/", "reschedule_selected", task.pk)

    assert Task.objects.filter(made_of_urn=str(task.pk)).count() == 2


def test_a_template_is_removed_unless_it_is_built_in(administrator):
    template = make_world().template
    page = f"/admin/tasks/tasktemplate/{template.pk}"
    assert detail_actions_of(administrator.get(f"{page}/change/")) == ["Edit", "Remove"]

    TaskTemplate.objects.filter(pk=template.pk).update(is_built_in=True)
    assert detail_actions_of(administrator.get(f"{page}/change/")) == ["Edit"]
    assert administrator.post(f"{page}/remove/").status_code == 403
    TaskTemplate.objects.filter(pk=template.pk).update(is_built_in=False)
    administrator.post(f"{page}/remove/")

    assert not TaskTemplate.objects.filter(pk=template.pk).exists()


def test_viewers_change_no_task():
    client, world = visitor(VIEWER), make_world()

    for path in (
        f"/admin/tasks/task/{world.task.pk}/cancel/",
        f"/admin/tasks/archivedtask/{world.archived_task.pk}/reschedule/",
        f"/admin/tasks/tasktemplate/{world.template.pk}/remove/",
    ):
        assert client.post(path).status_code == 403, path
    act(client, "/admin/tasks/task/", "cancel_selected", world.task.pk)
    assert Task.objects.filter(pk=world.task.pk).exists()


def test_an_ended_task_is_found_by_its_number_kind_group_or_reason(operator):
    world = make_world()

    for searched in (str(world.archived_task.pk), "count", "generic", "done"):
        assert [task.pk for task in rows_of(operator.get("/admin/tasks/archivedtask/", {"q": searched}))] == [
            world.archived_task.pk
        ]
    assert rows_of(operator.get("/admin/tasks/archivedtask/", {"q": "nothing"})) == []
    assert ArchivedTask.objects.count() == 1


def test_a_list_of_the_set_up_that_takes_too_long_gives_the_reason(operator, monkeypatch):
    make_documents(make_job(), 30)
    monkeypatch.setattr("nodes.admin.by_key._PATIENCE", 1)
    monkeypatch.setattr(
        "jobs.admin.document.DocumentAdmin.rows_after",
        lambda _self, found, _after: found.extra(where=["pg_sleep(0.05) IS NOT NULL"]),
    )

    response = operator.get(QUEUE, {"after": "any"})

    assert rows_of(response) == []
    assert messages_of(response) == ["Too many rows to look through. Search for an exact value."]


@pytest.mark.parametrize(
    ("path", "lookup"),
    [
        ("/admin/jobs/outputconnection/", {"configuration__path__startswith": "/"}),
        ("/admin/notices/notificationchannel/", {"configuration__secret__startswith": "s"}),
        ("/admin/nodes/node/", {"name__regex": "(("}),
        ("/admin/jobs/jobevent/", {"job_name__regex": "(a+)+$"}),
        ("/admin/jobs/job/", {"phase__exact": "\0"}),
    ],
)
def test_a_list_of_the_set_up_refuses_filters_that_it_does_not_offer(path, lookup):
    response = visitor(VIEWER).get(path, lookup)

    assert (response.status_code, response.headers.get("Location")) == (302, f"{path}?e=1")


def test_a_list_of_the_set_up_selects_rows_by_a_filter_that_it_offers():
    make_job()

    response = visitor(VIEWER).get("/admin/jobs/job/", {"phase__exact": Job.objects.get().phase})

    assert response.status_code == 200
    assert len(rows_of(response)) == 1


def test_a_search_of_very_many_words_finds_nothing_and_gives_the_reason():
    make_job()

    response = visitor(VIEWER).get("/admin/jobs/job/", {"q": "a b " * 15_000})

    assert rows_of(response) == []
    assert messages_of(response) == ["Search for at most 400 characters."]
