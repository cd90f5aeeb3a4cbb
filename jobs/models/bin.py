"""Bins: the units of politeness. Each has one row, which all jobs, policies, managers and scopes share."""

from django.db import models
from django.db.models.functions import Collate


class Bin(models.Model):
    """
    One host as a unit of politeness; or a parent of many bins, such as an address or a policy. The limits of a parent
    apply to all of its bins together.

    `back_off_until` is the end of the back-off that the host's answers demand, and `back_off_level` its level.
    `interval` is the crawl-delay of its robots.txt (seconds). A stopped bin gets no request, and its documents wait,
    until an operator releases it. Its BinState has the values that each turn changes.
    """

    # Namespaces of parents: the address of a host, and all bins of a policy together (by its id).
    ADDRESS = "address"
    POLICY = "policy"

    namespace = models.CharField(max_length=20)
    name = models.TextField()
    # Network address of the host, if it was looked up. If the host has several, this is the lowest one.
    address = models.CharField(max_length=64, default="", db_default="")
    parent = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, db_constraint=False, related_name="children"
    )
    back_off_until = models.DateTimeField(null=True)
    back_off_level = models.SmallIntegerField(default=0, db_default=0)
    # The last moment at which the back-off level was 0: since then, the host backs off.
    backing_off_since = models.DateTimeField(null=True)
    interval = models.FloatField(default=0.0)
    is_known = models.BooleanField(default=False)
    # Defaults without a policy: open requests, and seconds between two starts.
    usual_requests = models.IntegerField(default=2, db_default=2)
    usual_gap = models.FloatField(default=1.0, db_default=1.0)
    stopped_at = models.DateTimeField(null=True)
    stopped_by = models.CharField(max_length=150, default="", db_default="")
    stopped_why = models.TextField(default="", db_default="")
    # The stop applies to all ports of this host, even to ports that no crawl has reached yet.
    stops_every_port = models.BooleanField(default=False, db_default=False)

    class Meta:
        permissions = (("stop_bin", "Can stop and deny hosts, and release them"),)
        constraints = (models.UniqueConstraint(fields=["namespace", "name"], name="one_bin_a_name"),)
        indexes = (
            # The index leaves out parents. There may be as many parents as hosts, and addresses would come before all
            # hosts in this order.
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
    The values of a bin that each turn changes. Each bin has one such row, created with the bin. Processes lock this
    row, and not the row of the bin.

    - `last_start_at`: the last start of a request in a turn that has closed.
    - `not_before`: if bytes are limited, the end of the delay for the bytes that were read, at `paid_rate` bytes a
      second. The earliest next start follows from the limits in force (`jobs/queue/pace/next_start.py`).
    - `open_turns` and `open_requests`: the turns that are handed out, and their requests.
    - `closed_at`: the time at which the last turn closed.
    - `starts` and `bytes_read`: totals of the closed turns. These totals show a rate, but are not an audit: they lack
      the requests of lost workers.
    - `answer_seconds`: the recent time of a document of the bin, from its start to its end.
    - `version`: grows with each turn (`jobs/queue/sql/states.py`).
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

    # The version is part of the key: an index of the bin's number alone would lead to many dead versions of one row.
    pk = models.CompositePrimaryKey("bin_id", "version")


class BinHour(models.Model):
    """
    The requests of a bin in one hour, and the loosest limits of its turns in that hour.

    `starts` and `bytes_read` count the requests and the bytes of turns that closed in the hour. `gap` is the shortest
    time between two starts (seconds, 0 for no limit). `bytes_per_second` is null if a turn had no limit of bytes.
    """

    pk = models.CompositePrimaryKey("bin_id", "hour")
    bin = models.ForeignKey(Bin, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+")
    hour = models.DateTimeField(db_index=True)
    starts = models.BigIntegerField()
    bytes_read = models.BigIntegerField()
    gap = models.FloatField()
    bytes_per_second = models.FloatField(null=True)


class BinLimit(models.Model):
    """
    A policy that a job applies to a bin. The row is created with the lane. The strictest policy of all running jobs
    applies.
    """

    bin = models.ForeignKey(Bin, on_delete=models.CASCADE, related_name="limits")
    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="+")
    policy = models.ForeignKey("jobs.ThrottlePolicy", on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = (models.UniqueConstraint(fields=["bin", "policy", "job"], name="one_limit_a_bin_policy_and_job"),)


class Robots(models.Model):
    """The robots.txt answer of an origin: fetched once, shared by all workers until it expires."""

    origin = models.TextField(primary_key=True)
    answer = models.JSONField()
    fetched_at = models.DateTimeField()
    expires_at = models.DateTimeField()


class PastRobots(models.Model):
    """An earlier robots.txt answer of an origin, which a newer answer replaced. Each origin has a few of them."""

    pk = models.CompositePrimaryKey("origin", "last_read_at")
    origin = models.TextField()
    last_read_at = models.DateTimeField()
    replaced_at = models.DateTimeField()
    answer = models.JSONField()


class Lane(models.Model):
    """
    The documents of one seed in one bin: the queue from which stuffing takes them. Its LaneState has the values that
    each turn changes.
    """

    # No index for the seed alone, because the index of the constraint begins with the seed.
    seed = models.ForeignKey("jobs.Seed", on_delete=models.CASCADE, db_index=False, related_name="lanes")
    bin = models.ForeignKey(Bin, on_delete=models.CASCADE, related_name="lanes")

    class Meta:
        constraints = (models.UniqueConstraint(fields=["seed", "bin"], name="one_lane_a_seed_and_bin"),)


class LaneState(models.Model):
    """
    The values of a lane that each turn changes. Each lane has one such row, created with the lane. Processes lock this
    row, and not the row of the lane.

    `ready_at` is the earliest moment at which a document of the lane may be handed out; null means dormant. `head` is a
    hint: no due document has a lower `seq`, unless stuffing finds too few and reads from the start. `is_ahead` is true
    if the lane has reached the front of the queue and has more documents, so it keeps its place. `version` grows with
    each turn (`jobs/queue/sql/states.py`). `seed` and `bin` are copies from the row of the lane.
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

    # The version is part of the key: an index of the lane's number alone would lead to many dead versions of one row.
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
