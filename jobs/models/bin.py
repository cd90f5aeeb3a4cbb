"""Bins: the units of politeness, one row each for all jobs, policies, managers and scopes."""

from django.db import models
from django.db.models.functions import Collate


class Bin(models.Model):
    """
    One host, as far as politeness goes; or a parent of many, whose limits hold for them together: an address, all
    bins of a policy.

    `not_before` is the earliest moment of the next request start; `back_off_until` what the host
    itself asked for, and `back_off_level` how often in a row; `interval` its robots.txt's crawl-delay
    (seconds). `open_turns` and `open_requests` are what is handed out. `closed_at` is when a place last
    became free. A bin that was stopped is asked for nothing until somebody lets it go on. `starts` and
    `bytes_read` count requests and what they read, as of then: they grow when a turn closes, with the row that this
    changes anyway, so they show a rate and are no audit: what a worker did that was lost with it is not in them.
    """

    # What stands above bins of connectors: the address of a host, all bins of a policy together (by its id).
    ADDRESS = "address"
    POLICY = "policy"

    namespace = models.CharField(max_length=20)
    name = models.TextField()
    # Of its host, as far as that was asked: the least of several.
    address = models.CharField(max_length=64, default="", db_default="")
    parent = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, db_constraint=False, related_name="children"
    )
    not_before = models.DateTimeField(null=True)
    back_off_until = models.DateTimeField(null=True)
    back_off_level = models.SmallIntegerField(default=0, db_default=0)
    # When it was at level 0 last.
    backing_off_since = models.DateTimeField(null=True)
    interval = models.FloatField(default=0.0)
    is_known = models.BooleanField(default=False)
    open_turns = models.IntegerField(default=0)
    open_requests = models.IntegerField(default=0)
    closed_at = models.DateTimeField(null=True)
    starts = models.BigIntegerField(default=0, db_default=0)
    bytes_read = models.BigIntegerField(default=0, db_default=0)
    # What holds where no policy says anything: requests open at once, seconds between two starts.
    usual_requests = models.IntegerField(default=2, db_default=2)
    usual_gap = models.FloatField(default=1.0, db_default=1.0)
    stopped_at = models.DateTimeField(null=True)
    stopped_by = models.CharField(max_length=150, default="", db_default="")
    stopped_why = models.TextField(default="", db_default="")

    class Meta:
        constraints = (models.UniqueConstraint(fields=["namespace", "name"], name="one_bin_a_name"),)
        # None of them holds a column that stuffing or closing changes: their updates stay within the page of the row.
        indexes = (
            models.Index(Collate("name", "C"), name="bin_by_name"),
            models.Index(fields=["id"], name="bin_stopped", condition=models.Q(stopped_at__isnull=False)),
            models.Index(fields=["id"], name="bin_backing_off", condition=models.Q(back_off_level__gt=0)),
        )

    def __str__(self) -> str:
        return self.name


class BinLimit(models.Model):
    """A policy that a job brought to a bin; made with the lane. The strictest of running jobs holds."""

    bin = models.ForeignKey(Bin, on_delete=models.CASCADE, related_name="limits")
    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="+")
    policy = models.ForeignKey("jobs.ThrottlePolicy", on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = (models.UniqueConstraint(fields=["bin", "policy", "job"], name="one_limit_a_bin_policy_and_job"),)


class Robots(models.Model):
    """What an origin answered for its robots.txt: fetched once, shared by all workers until it expires."""

    origin = models.TextField(primary_key=True)
    answer = models.JSONField()
    fetched_at = models.DateTimeField()
    expires_at = models.DateTimeField()


class Lane(models.Model):
    """
    The documents of one seed in one bin: the queue that stuffing looks at.

    `ready_at` is the earliest moment it may hand something out; null means dormant. `head` is a hint:
    no due document has a lower `seq`, unless a stuff finds too few and reads from the start.
    One that `is_ahead` has come to the front of the line and has more to give, so it does not queue again.
    """

    seed = models.ForeignKey("jobs.Seed", on_delete=models.CASCADE, related_name="lanes")
    bin = models.ForeignKey(Bin, on_delete=models.CASCADE, related_name="lanes")
    ready_at = models.DateTimeField(null=True)
    served_at = models.DateTimeField(null=True)
    head = models.BigIntegerField(default=0)
    is_ahead = models.BooleanField(default=False, db_default=False)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["seed", "bin"], name="one_lane_a_seed_and_bin"),)
        indexes = (models.Index(fields=["seed", "is_ahead", "ready_at"], name="lane_ready"),)
