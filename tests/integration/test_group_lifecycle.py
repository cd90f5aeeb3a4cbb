"""Proves on real rows that duties change the state of a group only as the lifecycle of groups allows."""

import pytest

from jobs.duties.allocate import join_groups, retire_groups
from jobs.duties.groups import begin_moves, give, hand_over, read_cluster_view
from jobs.lifecycle.job import Phase
from jobs.models import Job, Seed, ThrottleGroup
from nodes.decisions.allocate import Give
from nodes.decisions.hand_over import LetGo, Release, TakeBack
from nodes.decisions.items import ITEM_TRANSITIONS, ItemState
from tests.support.cluster import NOON
from tests.support.factories import make_job, make_policy
from tests.support.stepping import Main, Manager

EPOCH = 3
SCOPE = "cluster"


class Stage:
    """A main manager, an owner, another manager, and a job whose seed has a group in the given state, or no group."""

    def __init__(self, connection, state):
        self.connection, self.main = connection, Main(connection)
        self.owner, self.other = Manager(connection), Manager(connection)
        policy = make_policy()
        make_job(policy=policy)
        self.group = 0
        if state is not None:
            moving = {"destination_id": self.other.id, "releasing_since": NOON} if state == ItemState.RELEASING else {}
            owner = None if state == ItemState.FREE else self.owner.id
            self.group = ThrottleGroup.objects.create(
                policy=policy, node_scope=SCOPE, state=state, epoch=EPOCH, owner_id=owner, **moving
            ).pk
            Seed.objects.update(group_id=self.group)

    def write(self, function, action, **facts):
        """Let this function, which belongs to a duty, write the action."""
        function(
            self.connection,
            [action],
            cluster_view=read_cluster_view(self.connection, scope=SCOPE, now=NOON),
            scope=SCOPE,
            **facts,
        )

    @property
    def state(self):
        group = ThrottleGroup.objects.first()
        return None if group is None else group.state


def open_(stage):
    Job.objects.update(phase=Phase.ACTIVE, run_no=1, started_at=NOON)
    stage.main.step(join_groups)


MOVES = {
    "open": open_,
    "give": lambda stage: stage.write(
        give, Give(item=stage.group, owner=stage.owner.id, epoch=EPOCH, to=stage.other.id)
    ),
    "release": lambda stage: stage.write(
        begin_moves, Release(item=stage.group, owner=stage.owner.id, epoch=EPOCH, to=stage.other.id), now=NOON
    ),
    "hand_over": lambda stage: stage.write(
        hand_over, LetGo(item=stage.group, owner=stage.owner.id, epoch=EPOCH, to=stage.other.id)
    ),
    "let_go": lambda stage: stage.write(hand_over, LetGo(item=stage.group, owner=stage.owner.id, epoch=EPOCH, to=None)),
    "take_back": lambda stage: stage.write(give, TakeBack(item=stage.group, epoch=EPOCH, to=stage.other.id)),
    "retire": lambda stage: stage.main.step(retire_groups),
}


@pytest.mark.parametrize("state", [None, *ItemState])
@pytest.mark.parametrize("transition", ITEM_TRANSITIONS, ids=lambda transition: transition.cause)
def test_every_transition_moves_a_group_only_from_its_sources(connection, transition, state):
    stage = Stage(connection, state)

    MOVES[transition.cause](stage)

    assert stage.state == (transition.target if state in transition.sources else state)


@pytest.mark.parametrize("state", ItemState)
@pytest.mark.parametrize("cause", ["give", "hand_over", "let_go", "take_back"])
def test_the_epoch_of_a_group_grows_exactly_when_its_owner_changes(connection, cause, state):
    stage = Stage(connection, state)
    sources = next(transition.sources for transition in ITEM_TRANSITIONS if transition.cause == cause)

    MOVES[cause](stage)

    assert ThrottleGroup.objects.get().epoch == (EPOCH + 1 if state in sources else EPOCH)
