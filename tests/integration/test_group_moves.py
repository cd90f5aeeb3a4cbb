"""Proves that managers get groups, move them without a pause, and lose them. Tests call the duties on real rows."""

from collections import Counter

import pytest
from django.db import connection as django_connection
from django.db import transaction
from django.utils import timezone

from jobs.duties import allocate
from jobs.duties.allocate import allocate_groups, join_groups, retire_groups
from jobs.duties.groups import read_cluster_view
from jobs.duties.hand_over import hand_over_groups
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Phase
from jobs.models import Batch, BinLimit, BinState, Job, QueueItem, Seed, ThrottleGroup
from jobs.queue.flushing.flush import flush
from jobs.queue.offering.hold import GroupHeld
from jobs.queue.offering.stuff import stuff
from jobs.queue.take import take
from jobs.settings.table import BALANCE
from jobs.verbs import editing
from jobs.verbs.seeds import SeedWanted
from nodes.decisions.hand_over import let_go
from nodes.membership import leadership, members
from nodes.membership.fences import FenceRefused
from tests.support.cluster import NOON, TIMEOUT, events_of, fall_silent, register_node, seconds
from tests.support.factories import facts_of, make_documents, make_job, make_lane, make_policy, make_result
from tests.support.rival import Rival
from tests.support.stepping import Main, Manager


@pytest.fixture
def main(connection):
    return Main(connection)


def run_jobs(count, *, policy=None):
    """Return this number of jobs with one seed each, in the middle of a run. No manager owns their groups yet."""
    jobs = [make_job(policy=policy) for _ in range(count)]
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(phase=Phase.ACTIVE, run_no=1, started_at=NOON)
    return list(Job.objects.filter(pk__in=[job.pk for job in jobs]).order_by("pk"))


def owners():
    """Return the number of groups that each manager owns."""
    return Counter(ThrottleGroup.objects.filter(state="owned").values_list("owner_id", flat=True))


def epoch_of(group):
    row = ThrottleGroup.objects.get(pk=group.pk)
    return GroupHeld(row.pk, row.epoch)


def offer(manager, group):
    return stuff(manager.connection, manager=manager.id, group=epoch_of(group), room=10, workers=1, now=NOON)


def begin_move(main, to):
    """
    Return a group of the main manager that is to move to another manager, with documents that its owner may still hand
    out.
    """
    (job,) = run_jobs(1)
    main.step(allocate_groups)
    group = ThrottleGroup.objects.get()
    ThrottleGroup.objects.update(owner=main.id)
    make_documents(make_lane(job.seeds.get()), 30)
    offer(main, group)
    ThrottleGroup.objects.update(state="releasing", destination=to.id, releasing_since=NOON)
    return group


# --- Assignment ------------------------------------------------------------------------------------


def test_seeds_of_one_policy_form_one_group_and_groups_are_spread(main, connection):
    other = Manager(connection)
    shared = make_policy()
    run_jobs(3, policy=shared)
    run_jobs(5)

    main.step(allocate_groups)

    group = ThrottleGroup.objects.get(policy=shared)
    assert Seed.objects.filter(group=group).count() == 3
    weights = Counter()
    for row in read_cluster_view(connection, scope="cluster", now=NOON).items:
        weights[row.owner] += row.weight
    assert weights == {main.id: 4, other.id: 4}


def test_a_seed_that_starts_joins_the_group_that_runs_with_its_policy(main, connection):
    shared = make_policy()
    run_jobs(1, policy=shared)
    main.step(allocate_groups)
    Manager(connection)

    run_jobs(1, policy=shared)
    main.step(allocate_groups)

    assert ThrottleGroup.objects.get().seeds.count() == 2
    assert owners() == {main.id: 1}


def test_running_jobs_are_checked_only_after_a_change_of_a_seed(main):
    (job,) = run_jobs(1)
    main.step(allocate_groups)
    assert not Job.objects.filter(ungrouped__gt=0).exists()

    Seed.objects.filter(job=job).update(policy=make_policy())

    assert main.step(join_groups) == 1
    assert main.step(join_groups) == 0
    assert not Job.objects.filter(ungrouped__gt=0).exists()


def test_a_seed_that_changes_during_a_pass_is_seen_by_the_next_pass(main, connection):
    (job,) = run_jobs(1)
    seen = Job.objects.get().ungrouped
    main.step(join_groups)
    Seed.objects.filter(job=job).update(policy=make_policy())

    connection.execute(allocate._UNMARK, {"jobs": [job.pk], "seen": [seen]})

    assert main.step(join_groups) == 1


def test_seeds_of_a_job_that_changes_its_scope_leave_their_groups(main):
    (job,) = run_jobs(1)
    main.step(allocate_groups)
    Job.objects.update(node_scope="crawl:1")
    assert main.step(join_groups) == 0

    Job.objects.update(node_scope="cluster")
    Seed.objects.update(group=ThrottleGroup.objects.create(seed=job.seeds.get(), node_scope="crawl:1"))

    assert main.step(join_groups) == 1
    assert Seed.objects.get().group.node_scope == "cluster"


def test_groups_of_a_failed_manager_go_to_all_other_managers(main, connection):
    one, two = Manager(connection), Manager(connection)
    run_jobs(6)
    main.step(allocate_groups)

    leadership.mark_failed(connection, verdict=fall_silent(connection, one.node), term=main.term)
    main.step(allocate_groups)

    assert owners() == {main.id: 3, two.id: 3}


def test_new_owners_of_groups_are_in_the_journal(main, connection):
    run_jobs(2)

    main.step(allocate_groups)

    assert "given" in events_of(connection, main.id)


def test_a_replaced_main_assigns_no_group(main, connection):
    run_jobs(1)
    leadership.resign(connection, term=main.term)

    with pytest.raises(FenceRefused, match="term fence"):
        main.step(allocate_groups)

    assert not ThrottleGroup.objects.exists()


def test_a_group_without_seeds_is_deleted_and_the_next_run_makes_a_new_group(main):
    (job,) = run_jobs(1)
    main.step(allocate_groups)
    Job.objects.update(phase=Phase.INACTIVE)

    main.step(retire_groups)
    assert not ThrottleGroup.objects.exists()

    Job.objects.update(phase=Phase.READY_FOR_STARTUP)
    main.step(allocate_groups)
    assert job.seeds.get().group.owner_id == main.id


def test_a_group_without_seeds_is_deleted_after_open_edits_of_its_seeds(main, connection, other_connection):
    (job,) = run_jobs(1)
    main.step(allocate_groups)
    Job.objects.update(phase=Phase.INACTIVE)
    rival = Rival(other_connection, django_connection.connection)

    with transaction.atomic():
        Job.objects.select_for_update(no_key=True).get()
        rival.start_and_wait(main.step, retire_groups)
        Seed.objects.filter(job=job).update(policy=make_policy())

    rival.result()
    rival.end()
    assert not ThrottleGroup.objects.exists()


def test_the_weight_of_a_group_is_its_running_work(main):
    run_jobs(3, policy=make_policy())

    main.step(allocate_groups, retire_groups)

    assert ThrottleGroup.objects.get().weight == 3


def test_the_weight_of_a_group_can_be_its_observed_load(main, settings):
    (busy, *idle) = run_jobs(3)
    main.step(allocate_groups)
    busy = ThrottleGroup.objects.get(seed__job=busy)
    Batch.objects.create(
        group=busy, node_scope="cluster", state="done", documents=3000, created_at=NOON, sent_at=timezone.now()
    )

    settings.CRAWLCTL_ENVIRONMENT = {BALANCE.path: "LOAD"}
    main.step(retire_groups)

    weights = dict(ThrottleGroup.objects.values_list("seed__job", "weight"))
    assert weights == {busy.seed.job_id: 10.0, **{job.pk: 0.1 for job in idle}}


# --- Moves -----------------------------------------------------------------------------------------


def test_a_new_manager_gets_its_share_and_other_groups_stay(main, connection):
    run_jobs(6)
    main.step(allocate_groups)
    newcomer = Manager(connection)

    main.step(allocate_groups)
    assert ThrottleGroup.objects.filter(state="releasing", destination=newcomer.id).count() == 3
    main.step(hand_over_groups)

    assert owners() == {main.id: 3, newcomer.id: 3}
    assert {"moving", "handed_over"} <= set(events_of(connection, main.id))


def test_while_a_group_is_released_its_owner_offers_nothing_more(main, connection):
    group = begin_move(main, Manager(connection))

    with pytest.raises(FenceRefused, match="group fence"):
        offer(main, group)


def test_a_move_returns_untaken_turns_for_the_new_owner_to_offer(main, connection):
    other = Manager(connection)
    group = begin_move(main, other)

    main.step(hand_over_groups)

    assert Batch.objects.get().state == "released"
    assert not QueueItem.objects.filter(stage=Stage.ACTIVE).exists()
    assert offer(other, group).documents > 0
    with pytest.raises(FenceRefused, match="group fence"):
        offer(main, group)


def test_turns_that_a_worker_has_taken_stay_valid_through_a_move(main, connection):
    group = begin_move(main, Manager(connection))
    worker = register_node(connection, "worker", capacity=100)
    taken = take(connection, worker=worker.id, room=100, idle=True, now=NOON)
    claimed = taken.turns[0].documents[0]

    main.step(hand_over_groups)
    flush(
        connection,
        worker=worker.id,
        results=[make_result(claimed, facts_of(group.seed.job))],
        now=NOON,
    )

    assert QueueItem.objects.get(hash=claimed.document.hash).stage == Stage.DONE


def test_the_pace_of_a_bin_survives_a_move(main, connection):
    other = Manager(connection)
    group = begin_move(main, other)
    BinState.objects.update(last_start_at=NOON + seconds(5))

    main.step(hand_over_groups)

    assert offer(other, group).documents == 0


def test_groups_of_an_owner_that_died_during_a_move_still_arrive(main, connection):
    owner, other = Manager(connection), Manager(connection)
    begin_move(main, other)
    ThrottleGroup.objects.update(owner=owner.id)

    leadership.mark_failed(connection, verdict=fall_silent(connection, owner.node), term=main.term)
    main.step(allocate_groups)

    assert owners() == {other.id: 1}
    assert Batch.objects.get().state == "released"


def test_an_owner_that_does_not_release_a_group_loses_it(main, connection):
    owner, other = Manager(connection), Manager(connection)
    begin_move(main, other)
    ThrottleGroup.objects.update(owner=owner.id)
    slow = let_go(**seen_by_main(connection), me=owner.id)

    main.now = NOON + TIMEOUT - seconds(1)
    main.step(allocate_groups)
    assert ThrottleGroup.objects.get().state == "releasing"
    main.now = NOON + TIMEOUT + seconds(1)
    main.step(allocate_groups)

    assert owners() == {other.id: 1}
    assert not _hand_over(connection, slow)
    assert owners() == {other.id: 1}


def test_a_group_is_handed_over_by_its_owner_or_the_main_but_never_by_both(main, connection, other_connection, rival):
    owner, other = Manager(connection), Manager(connection)
    begin_move(main, other)
    ThrottleGroup.objects.update(owner=owner.id)
    main.connection, main.now = other_connection, NOON + TIMEOUT + seconds(1)

    with connection.transaction():
        assert _hand_over(connection, let_go(**seen_by_main(connection), me=owner.id))
        rival.start_and_wait(main.step, allocate_groups)

    rival.result()
    group = ThrottleGroup.objects.get()
    assert (group.owner_id, group.epoch) == (other.id, 2)


def test_a_group_that_moves_to_a_lost_manager_goes_to_another(main, connection):
    other = Manager(connection)
    begin_move(main, other)
    leadership.mark_failed(connection, verdict=fall_silent(connection, other.node), term=main.term)

    main.step(hand_over_groups, allocate_groups)

    assert owners() == {main.id: 1}


def test_a_draining_manager_hands_over_all_of_its_groups(main, connection):
    leaving = Manager(connection)
    run_jobs(4)
    main.step(allocate_groups)

    members.begin_draining(connection, node_id=leaving.id, reason="asked to stop")
    main.step(allocate_groups)
    leaving.step(hand_over_groups)

    assert owners() == {main.id: 4}


# --- Change of a policy ----------------------------------------------------------------------------


def test_a_running_seed_that_gets_another_policy_joins_its_group_and_limits(main, connection):
    slow, quick = make_policy(min_gap=5.0), make_policy()
    run_jobs(1, policy=quick)
    (job,) = run_jobs(1, policy=slow)
    main.step(allocate_groups)
    seed, before = job.seeds.get(), ThrottleGroup.objects.get(policy=slow)
    make_documents(make_lane(seed), 5)
    offer(main, before)

    editing.change_job(job.pk, seeds=[SeedWanted(tuple(seed.urls), quick)], made_by="somebody", now=NOON)
    main.step(allocate_groups)

    assert Seed.objects.get(pk=seed.pk).group == ThrottleGroup.objects.get(policy=quick)
    assert list(BinLimit.objects.values_list("policy_id", flat=True)) == [quick.pk]
    assert Batch.objects.get().state == "released"


def test_a_job_keeps_the_limits_of_a_policy_while_a_seed_has_the_policy(main):
    slow, quick = make_policy(min_gap=5.0), make_policy()
    job = make_job(policy=slow)
    editing.change_job(
        job.pk,
        seeds=[SeedWanted(("http://a.example/",), slow), SeedWanted(("http://a.example/b",), slow)],
        made_by="somebody",
        now=NOON,
    )
    first, second = job.seeds.order_by("pk")
    make_lane(first)
    make_lane(second)

    editing.change_job(
        job.pk,
        seeds=[SeedWanted(("http://a.example/",), quick), SeedWanted(("http://a.example/b",), slow)],
        made_by="somebody",
        now=NOON,
    )

    assert set(BinLimit.objects.values_list("policy_id", flat=True)) == {slow.pk, quick.pk}


def seen_by_main(connection):
    seen = read_cluster_view(connection, scope="cluster", now=NOON)
    return {"items": seen.items, "managers": seen.managers}


def _hand_over(connection, actions):
    from jobs.duties.groups import hand_over

    return hand_over(
        connection, actions, cluster_view=read_cluster_view(connection, scope="cluster", now=NOON), scope="cluster"
    )
