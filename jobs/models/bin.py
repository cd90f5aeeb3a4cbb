"""Bins: the units of politeness, one row each for all jobs, policies, managers and scopes."""

from django.db import models
from django.db.models.functions import Collate


class Bin(models.Model):
    """
    One host, as far as politeness goes; or a parent of many, whose limits hold for them together: an address, all
    bins of a policy.

    `back_off_until` is what the host itself asked for, and `back_off_level` how often in a row; `interval` its
    robots.txt's crawl-delay (seconds). A stopped bin is asked for nothing, and its
    documents wait, until an operator lets it go on.
    What each turn changes is its state.
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
    back_off_until = models.DateTimeField(null=True)
    back_off_level = models.SmallIntegerField(default=0, db_default=0)
    # When it was at level 0 last.
    backing_off_since = models.DateTimeField(null=True)
    interval = models.FloatField(default=0.0)
    is_known = models.BooleanField(default=False)
    # What holds where no policy says anything: requests open at once, seconds between two starts.
    usual_requests = models.IntegerField(default=2, db_default=2)
    usual_gap = models.FloatField(default=1.0, db_default=1.0)
    stopped_at = models.DateTimeField(null=True)
    stopped_by = models.CharField(max_length=150, default="", db_default="")
    stopped_why = models.TextField(default="", db_default="")
    # The stop holds for all ports of this host, also for ports that no crawl has come to yet.
    stops_every_port = models.BooleanField(default=False, db_default=False)

    class Meta:
        permissions = (("stop_bin", "Can stop and deny hosts, and let them go on"),)
        constraints = (models.UniqueConstraint(fields=["namespace", "name"], name="one_bin_a_name"),)
        indexes = (
            # Of connectors: of what stands above their bins there may be as many, and all addresses come before.
            models.Index(
                Collate("name", "C"), "id", name="bin_by_name", condition=~models.Q(namespace__in=["address", "policy"])
            ),
            models.Index(fields=["id"], name="bin_stopped", condition=models.Q(stopped_at__isnull=False)),
            models.Index(fields=["id"], name="bin_backing_off", condition=models.Q(back_off_level__gt=0)),
        )

    def __str__(self) -> str:
        return self.name


class BinState(models.Model):
    """
    What each turn changes of a bin, in the one row that it has; made with the bin, and locked for it.

    `last_start_at` is when a request started last, as far as turns have closed, and `not_before` until when what was read is
    paid for at `paid_rate` bytes a second, where bytes are limited: when the next one may start, follows with the limits in force (`jobs/queue/opening.py`). `open_turns` and `open_requests` are what is handed
    out. `closed_at` is when a place last became free. `starts` and `bytes_read` count requests and what they read, as
    of then: they grow when a turn closes, so they show a rate and are no audit: what a worker did that was lost with it
    is not in them. `answer_seconds` is the recent time of a document of the bin, from its start to its end.
    `version` grows with each turn (`jobs/queue/newest.py`).
    """

    bin = models.ForeignKey(Bin, on_delete=models.CASCADE, db_index=False, related_name="states")
    version = models.BigIntegerField(default=0, db_default=0)
    not_before = models.DateTimeField(null=True)
    paid_rate = models.FloatField(null=True)
    last_start_at = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True)
    open_turns = models.IntegerField(default=0, db_default=0)
    open_requests = models.IntegerField(default=0, db_default=0)
    starts = models.BigIntegerField(default=0, db_default=0)
    bytes_read = models.BigIntegerField(default=0, db_default=0)
    answer_seconds = models.FloatField(null=True)

    # Its number alone would be the key of a row of many versions.
    pk = models.CompositePrimaryKey("bin_id", "version")


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
    The documents of one seed in one bin: the queue that stuffing looks at. What each turn changes is its state.
    """

    # The index of the constraint begins with the seed.
    seed = models.ForeignKey("jobs.Seed", on_delete=models.CASCADE, db_index=False, related_name="lanes")
    bin = models.ForeignKey(Bin, on_delete=models.CASCADE, related_name="lanes")

    class Meta:
        constraints = (models.UniqueConstraint(fields=["seed", "bin"], name="one_lane_a_seed_and_bin"),)


class LaneState(models.Model):
    """
    What each turn changes of a lane, in the one row that it has; made with the lane, and locked for it.

    `ready_at` is the earliest moment it may hand something out; null means dormant. `head` is a hint:
    no due document has a lower `seq`, unless a stuff finds too few and reads from the start.
    One that `is_ahead` has come to the front of the line and has more to give, so it does not queue again.
    `version` grows with each turn (`jobs/queue/newest.py`). `seed` and `bin` are the lane's.
    """

    lane = models.ForeignKey(Lane, on_delete=models.CASCADE, db_index=False, related_name="states")
    version = models.BigIntegerField(default=0, db_default=0)
    seed = models.ForeignKey(
        "jobs.Seed", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    bin = models.ForeignKey(Bin, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+")
    ready_at = models.DateTimeField(null=True)
    served_at = models.DateTimeField(null=True)
    head = models.BigIntegerField(default=0, db_default=0)
    is_ahead = models.BooleanField(default=False, db_default=False)

    # Its number alone would be the key of a row of many versions.
    pk = models.CompositePrimaryKey("lane_id", "version")

    class Meta:
        indexes = (
            models.Index(fields=["seed", "is_ahead", "ready_at"], name="lane_ready"),
            models.Index(
                "seed",
                models.F("served_at").desc(nulls_last=True),
                name="lane_asleep",
                condition=models.Q(ready_at__isnull=True),
            ),
        )
