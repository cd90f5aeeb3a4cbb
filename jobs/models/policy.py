"""Throttle policies: limits for each bin, and for all bins of a policy together."""

from typing import Any, Final

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import Now

from jobs.lifecycle.limits import COUNTS, LONGEST_GAP, MOST_REQUESTS
from jobs.lifecycle.period import Period
from nodes.models.word_search import Words

_PERIODS: Final = [(period.value, f"per {period.value}") for period in Period]


def _requests(most: int, **options: Any) -> "models.PositiveIntegerField[Any, Any]":
    return models.PositiveIntegerField(validators=[MinValueValidator(1), MaxValueValidator(most)], **options)


def _gap(**options: Any) -> "models.FloatField[Any, Any]":
    return models.FloatField(validators=[MinValueValidator(0.0), MaxValueValidator(LONGEST_GAP)], **options)


def _maybe(name: str) -> "models.PositiveIntegerField[Any, Any]":
    """Return a field for a limit; null means no limit."""
    return _requests(COUNTS[name][1], null=True, blank=True)


def _period() -> "models.CharField[Any, Any]":
    return models.CharField(max_length=6, choices=_PERIODS, default="", db_default="", blank=True)


def _is_whole(starts: str, period: str) -> models.Q:
    """Return the condition of a complete rate: a number of starts and their period, or neither."""
    return models.Q(**{f"{starts}__isnull": True, period: ""}) | (
        models.Q(**{f"{starts}__isnull": False, f"{starts}__gte": 1}) & ~models.Q(**{period: ""})
    )


class _Limits(models.Model):
    """The columns of limits that both a policy and its rules have. `LimitColumns` has the types of their values."""

    open_requests = _maybe("open_requests")
    min_gap = _gap(null=True, blank=True)
    starts = _maybe("starts")
    period = _period()
    bytes_per_second = _maybe("bytes_per_second")
    total_open_requests = _maybe("total_open_requests")
    total_starts = _maybe("total_starts")
    total_period = _period()
    total_bytes_per_second = _maybe("total_bytes_per_second")

    class Meta:
        abstract = True


class ThrottlePolicy(_Limits):
    """
    Limits for each bin that a seed of this policy reaches, and for all these bins together.

    A policy applies to a bin whichever job has the bin: if several policies reach one bin, the strictest limit of the
    running jobs applies. A rate is a gap between starts (docs/decisions/0015). The longer one of this gap and `min_gap`
    applies.
    """

    name = models.CharField(max_length=200, unique=True)
    # A trigger increments the version with every change of this row and of its rules, so that results may be cached by
    # version.
    version = models.PositiveBigIntegerField(default=1, db_default=1, editable=False)
    # The time of the last change of the version, set by the same trigger.
    changed_at = models.DateTimeField(db_default=Now(), editable=False)
    open_requests = _requests(
        MOST_REQUESTS, default=2, help_text="Requests that may be open to one host at the same time."
    )
    min_gap = _gap(default=1.0, help_text="Seconds between the starts of two requests to one host.")
    # True if the policy limits every bin of the cluster, in addition to the policies of the seeds. Its totals then
    # apply to the whole cluster.
    applies_everywhere = models.BooleanField(default=False, db_default=False)
    # True if the limits of one bin also apply to all bins at one address together.
    per_address = models.BooleanField(default=False, db_default=False)
    skips_loopback = models.BooleanField(default=False, help_text="Skip the gap for hosts of loopback addresses.")
    # Time zone of its rules' times and days.
    time_zone = models.CharField(max_length=60, default="UTC", db_default="UTC")
    # The job of the one-shot crawl that created the policy for itself. Such a policy is shown with its job, and lists
    # of choices leave it out.
    private_to = models.ForeignKey("jobs.Job", null=True, blank=True, on_delete=models.CASCADE, related_name="+")

    class Meta:
        ordering = ("name",)
        verbose_name_plural = "throttle policies"
        permissions = (("limit_everywhere", "Can limit every bin of the cluster, and deny bins"),)
        constraints = (
            models.CheckConstraint(condition=models.Q(open_requests__gte=1), name="policy_opens_a_request"),
            models.CheckConstraint(condition=models.Q(min_gap__gte=0), name="policy_gap_is_a_duration"),
            models.CheckConstraint(condition=_is_whole("starts", "period"), name="policy_rate_is_whole"),
            models.CheckConstraint(condition=_is_whole("total_starts", "total_period"), name="policy_total_is_whole"),
            models.CheckConstraint(
                name="policy_limits_are_null_or_positive",
                condition=~models.Q(bytes_per_second=0)
                & ~models.Q(total_open_requests=0)
                & ~models.Q(total_bytes_per_second=0),
            ),
        )
        indexes = (
            # An index of the few policies that each pass of stuffing searches for.
            models.Index(fields=["id"], name="policy_everywhere", condition=models.Q(applies_everywhere=True)),
            GinIndex(Words("name"), name="policy_words"),
        )

    def __str__(self) -> str:
        return self.name


class BinPlacing(models.Model):
    """
    A pending check of a policy that limits addresses: bins with numbers above `after` may still lack their address as
    parent.

    The row is inserted when the policy is stored, or a seed gets it. It is deleted when the main manager has checked
    the last bin.
    """

    policy = models.OneToOneField(ThrottlePolicy, on_delete=models.CASCADE, primary_key=True, related_name="+")
    after = models.BigIntegerField(default=0, db_default=0)


class ThrottleRule(_Limits):
    """
    Other limits for the bins of a pattern, on some days, at some times; or a denial of these bins.

    The first rule of a policy that matches name and moment applies. Null values come from the policy. Only rules for
    every bin (an empty pattern) have totals.
    """

    policy = models.ForeignKey(ThrottlePolicy, on_delete=models.CASCADE, related_name="rules")
    position = models.PositiveSmallIntegerField()
    pattern = models.CharField(max_length=300, default="", blank=True)
    # ISO days, 1 is Monday. For a window past midnight: the days on which it opens.
    days = ArrayField(models.PositiveSmallIntegerField())
    from_time = models.TimeField(null=True, blank=True)
    to_time = models.TimeField(null=True, blank=True)
    denies = models.BooleanField(default=False)

    class Meta:
        ordering = ("policy", "position")
        constraints = (
            models.UniqueConstraint(fields=["policy", "position"], name="one_rule_a_policy_and_position"),
            models.CheckConstraint(condition=~models.Q(days__len=0), name="rule_names_a_day"),
            models.CheckConstraint(
                name="rule_begins_and_ends",
                condition=models.Q(from_time__isnull=True, to_time__isnull=True)
                | (models.Q(from_time__isnull=False, to_time__isnull=False) & ~models.Q(from_time=models.F("to_time"))),
            ),
            models.CheckConstraint(condition=_is_whole("starts", "period"), name="rule_rate_is_whole"),
            models.CheckConstraint(condition=_is_whole("total_starts", "total_period"), name="rule_total_is_whole"),
            models.CheckConstraint(
                name="rule_limits_are_null_or_positive",
                condition=~models.Q(open_requests=0)
                & ~models.Q(bytes_per_second=0)
                & ~models.Q(total_open_requests=0)
                & ~models.Q(total_bytes_per_second=0),
            ),
        )

    def __str__(self) -> str:
        return f"Rule {self.position + 1}"
