"""Throttle groups: the indivisible work items of allocation, and the only rows that name an owner."""

from django.db import models

from nodes.decisions.items import ItemState

# Plain strings, so that a migration keeps its values and does not import present code.
_FREE, _OWNED, _RELEASING = (state.value for state in (ItemState.FREE, ItemState.OWNED, ItemState.RELEASING))


class ThrottleGroup(models.Model):
    """
    All running seeds of one policy in one scope; a seed without a policy is a group of its own.

    A group exists while one of its seeds runs. A move is a change of this one row: `epoch` grows with every change of
    owner, and a stuffing manager locks the row with the epoch that it was given. `nodes.decisions.items` defines the
    states.
    """

    policy = models.ForeignKey("jobs.ThrottlePolicy", null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    seed = models.ForeignKey("jobs.Seed", null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    node_scope = models.CharField(max_length=100)
    owner = models.ForeignKey("nodes.Node", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    epoch = models.BigIntegerField(default=0)
    state = models.CharField(max_length=10, choices=[(state.value, state.value) for state in ItemState], default=_FREE)
    # The weight of the group when the main manager last balanced the groups.
    weight = models.FloatField(default=1.0)
    # While the group moves (RELEASING): the manager to which it moves, and the start of the move.
    destination = models.ForeignKey("nodes.Node", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    releasing_since = models.DateTimeField(null=True, blank=True)
    # The time since which each attempt of the owner to stuff the group has failed; null if the last attempt succeeded.
    # `failing_why` is the error in short.
    failing_since = models.DateTimeField(null=True, blank=True)
    failing_why = models.CharField(max_length=300, default="", db_default="", blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["policy", "node_scope"], name="one_group_a_policy_and_scope"),
            models.UniqueConstraint(fields=["seed", "node_scope"], name="one_group_a_seed_and_scope"),
            models.CheckConstraint(
                name="group_is_of_a_policy_or_of_a_seed",
                condition=models.Q(policy__isnull=False, seed__isnull=True)
                | models.Q(policy__isnull=True, seed__isnull=False),
            ),
            models.CheckConstraint(
                name="group_has_a_destination_only_while_it_moves",
                condition=models.Q(state=_RELEASING, releasing_since__isnull=False)
                | models.Q(~models.Q(state=_RELEASING), destination__isnull=True, releasing_since__isnull=True),
            ),
        )
        # Two indexes of few groups: groups that the main manager has to check, and groups in the attention list.
        indexes = (
            models.Index(fields=["node_scope"], name="group_not_owned", condition=~models.Q(state=_OWNED)),
            models.Index(fields=["id"], name="group_failing", condition=models.Q(failing_since__isnull=False)),
        )

    def __str__(self) -> str:
        return f"group {self.pk}"
