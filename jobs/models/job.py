"""A job: what to crawl, how, and where the result goes. Its state changes only in `jobs.state.transitions`."""

import datetime as dt
import enum
from typing import Final

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import Coalesce, Now

from jobs.archive.records import Format
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
from nodes.models.word_search import Words


def _choices(values: type[enum.StrEnum]) -> list[tuple[str, str]]:
    return [(value.value, value.value.replace("_", " ")) for value in values]


# Intervals that only a continuous job has.
_INTERVALS: Final = ("recrawl_after", "recrawl_at_most", "expire_after", "reseed_after")

# The condition under which a job's seeds may be read again.
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
    """One row for each job. The columns of the state are the dimensions of `jobs.lifecycle.job.JobState`."""

    name = models.CharField(max_length=200, unique=True)
    repository = models.ForeignKey("jobs.RepositoryConnection", on_delete=models.PROTECT, related_name="jobs")
    outputs = models.ManyToManyField("jobs.OutputConnection", related_name="jobs")
    specification = models.JSONField(default=dict, blank=True)
    # The stages between source and outputs (`jobs.connectors.transformation.pipeline`); {} for none.
    pipeline = models.JSONField(default=dict, db_default={}, blank=True)
    # Grows with each change of the specification or the outputs. A document version from before the last change is not
    # trusted.
    specification_version = models.PositiveIntegerField(default=1)
    # Grows with each other change that workers must read before they decide about a document: a change of the seeds'
    # addresses (which define the scope), of freshness goals, of decisions about suspects, or of the map of slots.
    revision = models.PositiveIntegerField(default=1, db_default=1, editable=False)
    max_documents = models.PositiveBigIntegerField(null=True, blank=True, validators=[MinValueValidator(1)])
    priority = models.PositiveSmallIntegerField(
        default=5,
        validators=[MinValueValidator(1), MaxValueValidator(10)],
        help_text="If jobs compete for one host, 1 is served first and 10 last.",
    )
    kind = models.CharField(max_length=10, choices=_choices(Kind), default=Kind.ONCE)
    # Intervals of a continuous job; null means never. A document is fetched again after the first interval, or later if
    # it rarely changes, but not later than the second. The document leaves the outputs after the third interval. Seeds
    # are read again after the fourth.
    recrawl_after = models.DurationField(null=True, blank=True)
    recrawl_at_most = models.DurationField(null=True, blank=True)
    expire_after = models.DurationField(null=True, blank=True)
    reseed_after = models.DurationField(null=True, blank=True)
    hop_mode = models.CharField(max_length=15, choices=_choices(HopMode), default=HopMode.ACCURATE)
    # Largest number of hops from a seed, by type of link.
    hop_limits = models.JSONField(default=dict, blank=True)
    # True if a document of the job ever passed a value to another one (`jobs.queue.flushing.carrying`).
    carries = models.BooleanField(default=False, editable=False)
    # Limits of the delete guard. It asks before a clean-up that removes more than a share of the job (in percent; null:
    # it never asks), or of one host (null: hosts do not count), and more than a number of documents. It also asks if a
    # seed is lost.
    guard_percent = models.PositiveSmallIntegerField(
        null=True, blank=True, default=5, db_default=5, validators=[MaxValueValidator(100)]
    )
    guard_host_percent = models.PositiveSmallIntegerField(
        null=True, blank=True, default=50, db_default=50, validators=[MaxValueValidator(100)]
    )
    guard_documents = models.PositiveIntegerField(default=20, db_default=20)
    guard_seeds = models.BooleanField(default=True, db_default=True)
    # Which tokens may see which documents (`jobs.connectors.repository.access_rules`).
    access_rules = models.JSONField(default=list, db_default=models.Value([], models.JSONField()), blank=True)
    # Freshness goals: for some documents each, the share that must be fresh within a time
    # (`jobs.connectors.repository.freshness_goals`).
    freshness_goals = models.JSONField(default=list, db_default=models.Value([], models.JSONField()), blank=True)
    # The format in which raw exchanges are kept; empty: none are kept.
    archive = models.CharField(
        max_length=10,
        choices=[("", "no archive"), *((one.value, one.name) for one in Format)],
        default="",
        db_default="",
        blank=True,
        help_text="Format in which raw requests and responses are kept.",
    )
    # `kept_versions` is the number of versions of each document that are kept with their headers and texts; 0: none.
    # `surplus_versions_after` is the hash up to which versions above this number are removed (`jobs.duties.versions`);
    # null: all are removed.
    surplus_versions_after = models.UUIDField(null=True, editable=False)
    kept_versions = models.PositiveSmallIntegerField(default=0, db_default=0, validators=[MaxValueValidator(100)])
    start_method = models.CharField(max_length=15, choices=_choices(StartMethod), default=StartMethod.MANUAL)
    # Scope of the nodes that work on the job: the shared scope, or the scope of a one-shot `crawl`.
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
    # True if the next run asks its source as if for the first time, and so ignores the stored state of the seeds.
    from_the_beginning = models.BooleanField(default=True)
    # Next time at which an active job reads its seeds again; null: never.
    reseed_at = models.DateTimeField(null=True, blank=True)
    # Triggers increment the first number when a seed may not be in the group of its policy any more, and the second one
    # when a seed has to be read. The main manager sets them to 0 when it has checked the seeds.
    ungrouped = models.PositiveIntegerField(default=1, db_default=1, editable=False)
    unread = models.PositiveIntegerField(default=1, db_default=1, editable=False)
    # The end of the window in which the job runs; null if it was started by hand, or the window has no end.
    window_ends_at = models.DateTimeField(null=True, blank=True)
    # Windows that began before this moment no longer count.
    schedule_checked_at = models.DateTimeField(db_default=Now())
    # The next check of its schedule, while it waits for a window; null: immediately, because something has changed.
    schedule_due_at = models.DateTimeField(null=True, blank=True, editable=False)
    # Opening of the last window in which the job should have started and did not; null if there was none since the last
    # run.
    missed_window_at = models.DateTimeField(null=True, blank=True, editable=False)
    # The time since which its schedule is paused, and the author of the pause; null: the schedule applies.
    schedule_paused_at = models.DateTimeField(null=True, blank=True, editable=False)
    schedule_paused_by = models.CharField(max_length=200, default="", db_default="", blank=True, editable=False)
    # Failed attempts in a row to start, or to notify an output of the end, and the time of the next attempt.
    failures = models.PositiveSmallIntegerField(default=0)
    failing_since = models.DateTimeField(null=True, blank=True)
    retry_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    run_end = models.CharField(max_length=20, choices=_choices(RunEnd), blank=True)
    # The reason for its state as text, which pages show with the status.
    reason = models.TextField(blank=True)
    # The reason why the archive of the job takes no more files now, and the time since then; empty if it takes files.
    archive_hold = models.TextField(default="", db_default="", blank=True, editable=False)
    archive_held_since = models.DateTimeField(null=True, blank=True, editable=False)
    # The move of slots between partitions that holds the job (`jobs.partitions.moving`); 0 without a move.
    move_hold = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)
        permissions = (("control_job", "Can start, pause, resume and abort jobs"),)
        # Most of these indexes find the few running jobs, or the last finished jobs, among very many inactive jobs.
        indexes = (
            GinIndex(Words("name"), name="job_words"),
            models.Index(fields=["id"], name="job_running", condition=~models.Q(phase=Phase.INACTIVE)),
            models.Index(
                Coalesce("started_at", "created_at").desc(),
                "id",
                name="job_latest",
                condition=models.Q(phase=Phase.INACTIVE),
            ),
            # Indexes for the searches that duties repeat.
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
            models.Index(
                fields=["id"],
                name="job_has_surplus_versions",
                condition=models.Q(surplus_versions_after__isnull=False),
            ),
            models.Index(fields=["id"], name="job_lacks_connector", condition=models.Q(connectors_ready=False)),
            models.Index(
                fields=["id"], name="job_paused", condition=models.Q(phase=Phase.ACTIVE) & ~models.Q(pause=Pause.NO)
            ),
            models.Index(fields=["id"], name="job_waits_for_archive", condition=~models.Q(archive_hold="")),
            models.Index(fields=["id"], name="job_held_by_move", condition=models.Q(move_hold__gt=0)),
            models.Index(
                fields=["id"],
                name="job_has_ungrouped",
                condition=~models.Q(phase=Phase.INACTIVE) & models.Q(ungrouped__gt=0),
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
        """Return the facts of the job's state, as a value."""
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
        """
        Return the moment after which openings of windows count for the job: the last check of its schedule, or the end
        of its run if that was later.
        """
        if self.phase == Phase.INACTIVE and self.ended_at is not None:
            return max(self.schedule_checked_at, self.ended_at)
        return self.schedule_checked_at

    @property
    def manifoldcf_status(self) -> str:
        return manifoldcf_name(self.state)

    @property
    def status(self) -> str:
        """Return the status in plain words."""
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
    # The last run for which the seed was read.
    seeded_run = models.PositiveIntegerField(default=0)
    # The version that the connector returned for that seeding. The connector gets it back at the next seeding.
    seeding_version = models.TextField(default="", db_default="", blank=True)
    removed_at = models.DateTimeField(null=True, blank=True)
    # Tag that workers need for the documents of the seed; empty: none.
    tag = models.CharField(
        max_length=64,
        default="",
        db_default="",
        blank=True,
        help_text="Only workers with this tag read the documents of the seed. If empty, any worker does.",
    )

    class Meta:
        ordering = ("id",)
        indexes = (models.Index(fields=["job"], name="seed_tagged", condition=~models.Q(tag="")),)

    def __str__(self) -> str:
        more = f" and {len(self.urls) - 1} more" if len(self.urls) > 1 else ""
        return f"{self.urls[0]}{more}" if self.urls else "(empty)"


class Budget(models.Model):
    """
    The document limit of a run, and the number of documents that have got a place in it. Stuffing gives out places
    under the lock of this row.

    `most` is the limit in this partition. If several partitions crawl the job, the control partition also has the limit
    of all of them in `total`.
    """

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="budget")
    run_no = models.PositiveIntegerField()
    most = models.PositiveBigIntegerField()
    admitted = models.PositiveBigIntegerField(default=0)
    total = models.PositiveBigIntegerField(null=True)
