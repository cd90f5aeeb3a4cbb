"""Documents of a seed with a tag go only to workers with that tag."""

import pytest

from jobs.duties.failover import release_lost_documents
from jobs.duties.tags import report_missing_tags
from jobs.lifecycle.document import Stage
from jobs.models import Batch, Job, QueueItem, Seed
from jobs.queue.offering.stuff import stuff
from jobs.queue.take import take
from jobs.verbs import editing
from jobs.verbs.seeds import SeedWanted
from nodes.errors import Invalid
from nodes.membership import members
from tests.support.api import assert_problem, client_of
from tests.support.cluster import NOON, register_node
from tests.support.factories import make_documents, make_job, make_lane, make_policy, make_running_job
from tests.support.stepping import Main


@pytest.fixture
def main(connection):
    return Main(connection)


@pytest.fixture
def running(main):
    """Return a job in the middle of its run with five due documents. Its seed needs workers with the tag `inside`."""
    running = make_running_job(main.node, policy=make_policy())
    Seed.objects.filter(pk=running.seed.pk).update(tag="inside")
    make_documents(make_lane(running.seed), 5)
    return running


def worker(connection, *tags, capacity=100):
    return register_node(connection, "worker", tags=tags, capacity=capacity)


def offer(running, connection):
    return stuff(connection, manager=running.manager.id, group=running.group, room=100, workers=1, now=NOON).documents


def taken_by(connection, node):
    taken = take(connection, worker=node.id, room=100, idle=True, now=NOON)
    return taken.documents


def test_documents_that_need_a_tag_go_only_to_workers_that_have_it(connection, running):
    tagged, other = worker(connection, "fast", "inside"), worker(connection)

    assert offer(running, connection) == 5

    assert taken_by(connection, other) == 0
    assert taken_by(connection, tagged) == 5


def test_a_worker_with_a_tag_also_reads_seeds_without_a_tag(connection, running):
    Seed.objects.update(tag="")

    offer(running, connection)

    assert taken_by(connection, worker(connection, "inside")) == 5


def test_without_a_worker_that_has_the_tag_nothing_is_offered(connection, running):
    worker(connection, "outside")

    assert offer(running, connection) == 0


def test_the_workers_of_a_one_shot_crawl_read_seeds_with_any_tag(connection):
    alone = register_node(connection, "manager", scope="crawl:1")
    running = make_running_job(alone, policy=make_policy())
    Seed.objects.filter(pk=running.seed.pk).update(tag="inside")
    make_documents(make_lane(running.seed), 5)

    assert offer(running, connection) == 5
    assert taken_by(connection, register_node(connection, "worker", scope="crawl:1")) == 5


def test_offers_of_a_tag_are_limited_by_the_capacity_of_its_workers(connection, running):
    worker(connection, "inside", capacity=5)
    assert offer(running, connection) == 5
    make_documents(make_lane(running.seed, "b.example"), ["more"])

    assert offer(running, connection) == 0


def test_a_tagged_lane_does_not_follow_a_turn_at_a_worker_without_the_tag(connection, main, running):
    plain = make_running_job(main.node, policy=make_policy(min_gap=1.0))
    make_documents(make_lane(plain.seed), 50)
    tagged, other = worker(connection, "inside"), worker(connection)
    offer(plain, connection)
    assert taken_by(connection, other) > 0

    offer(running, connection)

    assert not Batch.objects.filter(group_id=running.group.id).exists()
    assert taken_by(connection, tagged) == 0


def test_offered_turns_are_released_after_the_last_worker_with_the_tag(connection, main, running):
    tagged = worker(connection, "inside")
    offer(running, connection)

    members.stop(connection, node_id=tagged.id, reason="")
    main.step(release_lost_documents)

    assert Batch.objects.get().state == "released"
    assert set(QueueItem.objects.values_list("stage", flat=True)) == {Stage.PENDING}


def test_a_job_names_its_tag_while_no_worker_has_the_tag(connection, main, running):
    main.step(report_missing_tags)
    assert "No worker has the tag “inside”" in Job.objects.get(pk=running.job.pk).reason
    assert main.step(report_missing_tags) == 0

    worker(connection, "inside")
    main.step(report_missing_tags)
    assert Job.objects.get(pk=running.job.pk).reason == ""


def test_setting_a_tag_keeps_other_fields_of_the_job(main, running):
    Job.objects.update(reason="The disk is full.")

    main.step(report_missing_tags)

    assert Job.objects.get(pk=running.job.pk).reason == "The disk is full."


def test_a_tag_is_given_and_changed_with_its_seed(db):
    job = make_job()

    editing.change_job(job.pk, seeds=[SeedWanted(("http://a.example/",), tag="inside")], made_by="somebody", now=NOON)
    assert job.seeds.get().tag == "inside"

    with pytest.raises(Invalid) as refused:
        editing.change_job(
            job.pk, seeds=[SeedWanted(("http://a.example/",), tag="two words")], made_by="somebody", now=NOON
        )
    assert "letters, digits" in refused.value.problems["seeds"][0]


def test_the_api_shows_and_accepts_a_tag(db):
    job = make_job()
    administrator = client_of("administrator")
    address = f"/api/v1/jobs/{job.pk}/"
    seed = {"urls": ["http://a.example/"], "policy": None}

    changed = administrator.patch(address, {"seeds": [seed | {"tag": "inside"}]}, format="json")
    assert changed.json()["seeds"][0]["tag"] == "inside"

    refused = administrator.patch(address, {"seeds": [seed | {"tag": "two words"}]}, format="json")
    assert_problem(refused, 400, "invalid", fields=["seeds.0.tag"])
