"""A job: what to crawl, how, and where the result goes. Its state changes only in `jobs.transitions`."""

import datetime as dt
import enum
from typing import Final

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import Coalesce, Now

from jobs.lifecycle.job import (
    Guard,
    HopMode,
    JobState,
    Kind,
    Pause,
    Phase,
    RunEnd,
    Scan,
    StartMethod,
    StopRequest,
    Window,
    manifoldcf_name,
    plain_name,
)
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.models.words import Words


def _choices(values: type[enum.StrEnum]) -> list[tuple[str, str]]:
    return [(value.value, value.value.replace("_", " ")) for value in values]


# Intervals that only a continuous job has.
_INTERVALS: Final = ("recrawl_after", "recrawl_at_most", "expire_after", "reseed_after")

# What holds of a job whose seeds may be read anew.
_MAY_RESEED: Final = models.Q(
    phase=Phase.ACTIVE,
    pause=Pause.NO,
    window=Window.INSIDE,
    resuming=False,
    seeding=False,
    stop_request=StopRequest.NONE,
    connectors_ready=True,
)


class Job(models.Model):
    """One row a job. The state's dimensions are those of `jobs.lifecycle.job.JobState`."""

    name = models.CharField(max_length=200, unique=True)
    repository = models.ForeignKey("jobs.RepositoryConnection", on_delete=models.PROTECT, related_name="jobs")
    outputs = models.ManyToManyField("jobs.OutputConnection", related_name="jobs")
    specification = models.JSONField(default=dict, blank=True)
    # Grows with each change of what is crawled or where it goes: versions of older ones are not trusted.
    specification_version = models.PositiveIntegerField(default=1)
    # Grows with each change of an address in its seeds: workers must not judge a document by the scope around older ones.
    seeds_version = models.PositiveIntegerField(default=1, db_default=1, editable=False)
    max_documents = models.PositiveBigIntegerField(null=True, blank=True, validators=[MinValueValidator(1)])
    priority = models.PositiveSmallIntegerField(
        default=5,
        validators=[MinValueValidator(1), MaxValueValidator(10)],
        help_text="1 is served first, 10 last, where jobs compete for one bin.",
    )
    kind = models.CharField(max_length=10, choices=_choices(Kind), default=Kind.ONCE)
    # Of a continuous job; null means never. A document is looked at again after the first, or later where it
    # changes seldom, but not later than the second; it leaves the outputs after the third; seeds are read
    # anew after the fourth.
    recrawl_after = models.DurationField(null=True, blank=True)
    recrawl_at_most = models.DurationField(null=True, blank=True)
    expire_after = models.DurationField(null=True, blank=True)
    reseed_after = models.DurationField(null=True, blank=True)
    hop_mode = models.CharField(max_length=15, choices=_choices(HopMode), default=HopMode.ACCURATE)
    # The most hops from a seed, by type of link.
    hop_limits = models.JSONField(default=dict, blank=True)
    # Whether a document of it ever passed anything to one that it names (`jobs.queue.carrying`).
    carries = models.BooleanField(default=False, editable=False)
    # Limits above which the clean-up of a run asks first: a share of the job in percent (null: it never asks), or a
    # share of one host (null: hosts do not count). Both need a number of documents. It also asks if a seed is lost.
    guard_percent = models.PositiveSmallIntegerField(
        null=True, blank=True, default=5, db_default=5, validators=[MaxValueValidator(100)]
    )
    guard_host_percent = models.PositiveSmallIntegerField(
        null=True, blank=True, default=50, db_default=50, validators=[MaxValueValidator(100)]
    )
    guard_documents = models.PositiveIntegerField(default=20, db_default=20)
    guard_seeds = models.BooleanField(default=True, db_default=True)
    start_method = models.CharField(max_length=15, choices=_choices(StartMethod), default=StartMethod.MANUAL)
    # The cluster's own circle that works on it: the shared one, or that of a one-shot `crawl`.
    node_scope = models.CharField(max_length=100, default=CLUSTER_SCOPE, db_index=True)

    phase = models.CharField(max_length=30, choices=_choices(Phase), default=Phase.INACTIVE)
    pause = models.CharField(max_length=10, choices=_choices(Pause), default=Pause.NO)
    window = models.CharField(max_length=10, choices=_choices(Window), default=Window.INSIDE)
    stop_request = models.CharField(max_length=10, choices=_choices(StopRequest), default=StopRequest.NONE)
    resuming = models.BooleanField(default=False)
    seeding = models.BooleanField(default=False)
    minimal = models.BooleanField(default=False)
    connectors_ready = models.BooleanField(default=True)
    guard = models.CharField(max_length=10, choices=_choices(Guard), default=Guard.NO, db_default=Guard.NO)

    run_no = models.PositiveIntegerField(default=0)
    scan = models.CharField(max_length=10, choices=_choices(Scan), default=Scan.FULL)
    # The next run asks its source as if it had never been asked: what seeds remember of it does not count.
    from_the_beginning = models.BooleanField(default=True)
    # When seeds are read anew next, while the job is active; null: never.
    reseed_at = models.DateTimeField(null=True, blank=True)
    # By triggers they grow with each change after which a seed may not be in the group of its policy, or has yet to be read; the main
    # has looked since where they are 0.
    strays = models.PositiveIntegerField(default=1, db_default=1, editable=False)
    unread = models.PositiveIntegerField(default=1, db_default=1, editable=False)
    # The end of the window that it runs in; null: it was started by hand, or the window has no end.
    window_ends_at = models.DateTimeField(null=True, blank=True)
    # Windows that began before this are over and done with.
    schedule_checked_at = models.DateTimeField(db_default=Now())
    # When its schedule is looked at next, while it waits for a window; null: at once, since something has changed.
    schedule_due_at = models.DateTimeField(null=True, blank=True, editable=False)
    # Opening of the last window that was open while the job waited for it and did not run; null: there is none since the last run.
    missed_window_at = models.DateTimeField(null=True, blank=True, editable=False)
    # Attempts in a row to start, or to tell an output of the end, that came to nothing; the next one.
    failures = models.PositiveSmallIntegerField(default=0)
    failing_since = models.DateTimeField(null=True, blank=True)
    retry_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    run_end = models.CharField(max_length=20, choices=_choices(RunEnd), blank=True)
    # Why it stands where it stands, in words: shown beside the status.
    reason = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)
        permissions = (("control_job", "Can start, pause, resume and abort jobs"),)
        # Those that run, of very many that do not; and of these the ones that ran last.
        indexes = (
            GinIndex(Words("name"), name="job_words"),
            models.Index(fields=["id"], name="job_running", condition=~models.Q(phase=Phase.INACTIVE)),
            models.Index(
                Coalesce("started_at", "created_at").desc(),
                "id",
                name="job_latest",
                condition=models.Q(phase=Phase.INACTIVE),
            ),
            # What duties look for in each of their turns.
            models.Index(
                fields=["schedule_due_at"],
                name="job_schedule_due",
                condition=models.Q(phase=Phase.INACTIVE) & ~models.Q(start_method=StartMethod.MANUAL)
                | models.Q(phase=Phase.ACTIVE) & ~models.Q(window=Window.INSIDE),
            ),
            models.Index(
                fields=["window_ends_at"],
                name="job_window_ends",
                condition=models.Q(phase=Phase.ACTIVE, window_ends_at__isnull=False),
            ),
            models.Index(
                fields=["missed_window_at"],
                name="job_missed_window",
                condition=models.Q(missed_window_at__isnull=False),
            ),
            models.Index(fields=["id"], name="job_waits_for_approval", condition=models.Q(guard=Guard.WAITING)),
            models.Index(fields=["id"], name="job_lacks_connector", condition=models.Q(connectors_ready=False)),
            models.Index(
                fields=["id"], name="job_has_strays", condition=~models.Q(phase=Phase.INACTIVE) & models.Q(strays__gt=0)
            ),
            models.Index(fields=["id"], name="job_has_unread", condition=_MAY_RESEED & models.Q(unread__gt=0)),
            models.Index(
                fields=["reseed_at"], name="job_reseeds", condition=_MAY_RESEED & models.Q(reseed_at__isnull=False)
            ),
        )
        constraints = (
            models.CheckConstraint(
                name="job_pauses_only_while_active",
                condition=models.Q(phase=Phase.ACTIVE)
                | models.Q(pause=Pause.NO, window=Window.INSIDE, resuming=False, seeding=False),
            ),
            models.CheckConstraint(
                name="job_drains_in_one_way_or_in_both",
                condition=~models.Q(pause=Pause.PAUSED, window=Window.WAITING)
                & ~models.Q(pause=Pause.PAUSING, window=Window.OUTSIDE),
            ),
            models.CheckConstraint(
                name="job_resumes_only_where_nothing_holds_it",
                condition=models.Q(resuming=False)
                | models.Q(pause=Pause.NO, window=Window.INSIDE, stop_request=StopRequest.NONE),
            ),
            models.CheckConstraint(
                name="job_stops_only_while_it_runs",
                condition=models.Q(stop_request=StopRequest.NONE)
                | models.Q(phase__in=[Phase.READY_FOR_STARTUP, Phase.STARTING_UP, Phase.ACTIVE, Phase.SHUTTING_DOWN]),
            ),
            models.CheckConstraint(
                name="job_waits_for_approval_only_at_its_end",
                condition=~models.Q(guard=Guard.WAITING)
                | models.Q(phase__in=[Phase.READY_FOR_NOTIFY, Phase.NOTIFYING, Phase.INACTIVE]),
            ),
            models.CheckConstraint(
                name="job_recurs_only_if_continuous",
                condition=models.Q(kind=Kind.CONTINUOUS) | models.Q(**{f"{name}__isnull": True for name in _INTERVALS}),
            ),
            models.CheckConstraint(
                name="job_recrawls_in_order",
                condition=models.Q(recrawl_at_most__isnull=True)
                | models.Q(recrawl_after__isnull=False, recrawl_at_most__gte=models.F("recrawl_after")),
            ),
            *(
                models.CheckConstraint(
                    name=f"job_{name}_is_a_time_span",
                    condition=models.Q(**{f"{name}__isnull": True}) | models.Q(**{f"{name}__gt": dt.timedelta()}),
                )
                for name in _INTERVALS
            ),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def state(self) -> JobState:
        """The facts of where the job stands, as a value."""
        return JobState(
            phase=Phase(self.phase),
            pause=Pause(self.pause),
            window=Window(self.window),
            stop_request=StopRequest(self.stop_request),
            resuming=self.resuming,
            seeding=self.seeding,
            minimal=self.minimal,
            connectors_ready=self.connectors_ready,
            guard=Guard(self.guard),
        )

    @property
    def waits_since(self) -> dt.datetime:
        """The time since which windows open for the job, if it waits for one."""
        if self.phase == Phase.INACTIVE and self.ended_at is not None:
            return max(self.schedule_checked_at, self.ended_at)
        return self.schedule_checked_at

    @property
    def manifoldcf_status(self) -> str:
        return manifoldcf_name(self.state)

    @property
    def status(self) -> str:
        """The status in plain words."""
        return plain_name(self.state)


class Seed(models.Model):
    """A starting point of a job, or a list of them. All seeds of one policy are on one manager."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="seeds")
    urls = ArrayField(models.TextField(), help_text="One or more addresses to start from.")
    policy = models.ForeignKey(
        "jobs.ThrottlePolicy", null=True, blank=True, on_delete=models.RESTRICT, related_name="seeds"
    )
    group = models.ForeignKey(
        "jobs.ThrottleGroup", null=True, blank=True, on_delete=models.SET_NULL, related_name="seeds"
    )
    # The run whose seeding is done.
    seeded_run = models.PositiveIntegerField(default=0)
    # What the connector said of that seeding, which it is given at the next.
    seeding_version = models.TextField(default="", db_default="", blank=True)
    removed_at = models.DateTimeField(null=True, blank=True)
    # Its documents go only to workers that have this tag; empty: to any.
    tag = models.CharField(
        max_length=64,
        default="",
        db_default="",
        blank=True,
        help_text="Only workers that were started with this tag read it. Empty: any.",
    )

    class Meta:
        ordering = ("id",)
        indexes = (models.Index(fields=["job"], name="seed_tagged", condition=~models.Q(tag="")),)

    def __str__(self) -> str:
        more = f" and {len(self.urls) - 1} more" if len(self.urls) > 1 else ""
        return f"{self.urls[0]}{more}" if self.urls else "(empty)"


class Budget(models.Model):
    """How many documents a run may still ask for: admitted in stuffing, under this row's lock."""

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="budget")
    run_no = models.PositiveIntegerField()
    most = models.PositiveBigIntegerField()
    admitted = models.PositiveBigIntegerField(default=0)
