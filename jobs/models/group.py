"""Throttle groups: the indivisible work items of allocation, and the only rows that name an owner."""

from django.db import models


class ThrottleGroup(models.Model):
    """
    All seeds of one policy in one scope; a seed without a policy is a group of its own.

    A move is a change of this one row: `epoch` grows with every change of owner, and who stuffs
    holds the row with the epoch that he was given.
    """

    class State(models.TextChoices):
        FREE = "free"
        OWNED = "owned"
        RELEASING = "releasing"

    policy = models.ForeignKey("jobs.ThrottlePolicy", null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    seed = models.ForeignKey("jobs.Seed", null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    node_scope = models.CharField(max_length=100)
    owner = models.ForeignKey("nodes.Node", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    epoch = models.BigIntegerField(default=0)
    state = models.CharField(max_length=10, choices=State.choices, default=State.FREE)
    weight = models.FloatField(default=1.0)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["policy", "node_scope"], name="one_group_a_policy_and_scope"),
            models.UniqueConstraint(fields=["seed", "node_scope"], name="one_group_a_seed_and_scope"),
            models.CheckConstraint(
                name="group_is_of_a_policy_or_of_a_seed",
                condition=models.Q(policy__isnull=False, seed__isnull=True)
                | models.Q(policy__isnull=True, seed__isnull=False),
            ),
        )
