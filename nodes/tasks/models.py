"""The tables of background tasks: scheduled and archived tasks, templates, the roster of workers, and events."""

import datetime as dt

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import DurationField, ExpressionWrapper, F, Q
from django.db.models.functions import Now
from django.db.models.lookups import GreaterThan
from django.utils.translation import gettext_lazy as _

from nodes.tasks.decisions import ANY
from nodes.tasks.retrying import Why

GENERIC = "generic"
# Plain strings, so that a migration keeps its values and imports none of today's code.
_WHYS = sorted(why.value for why in Why)
# Duration of the last attempt, and the condition of slow tasks.
EXECUTION = ExpressionWrapper(F("last_ended_at") - F("last_started_at"), output_field=DurationField())
IS_SLOW = Q(GreaterThan(EXECUTION, dt.timedelta(seconds=5)))


class TaskWorker(models.Model):
    """
    One worker of the roster: one run of `crawlctl runtasks`. Its task is the row of `Task` that names it.

    The recruiter deletes the row of a lost worker. `nodes.tasks.roster` writes the rows.
    """

    # The process chooses this id at its start, because it needs the id before it connects to the database.
    id = models.UUIDField(primary_key=True, editable=False)
    name = models.TextField()
    work_on = models.TextField(_("group of its tasks; * for all groups"), default=ANY, db_default=ANY)
    since = models.DateTimeField(_("when it started"), db_default=Now())
    last_seen_at = models.DateTimeField(db_default=Now())
    is_leaving = models.BooleanField(_("it gets no more tasks"), default=False, db_default=False)
    # Together these fields identify the process to other processes on the same machine (`nodes.life.identity`).
    host = models.TextField()
    boot_id = models.TextField(default="", db_default="")
    pid_namespace = models.TextField(default="", db_default="")
    pid = models.IntegerField()
    process_start = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        ordering = ("since", "id")

    def __str__(self) -> str:
        return f"{self.name} ({self.host}:{self.pid})"


class TaskFacts(models.Model):
    """The columns that a task has before and after its end. The `last_` columns are those of its last attempt."""

    kind = models.TextField()
    arguments = models.JSONField(default=dict)
    group = models.TextField(default=GENERIC)
    tags = ArrayField(models.TextField(), default=list, db_default=[])
    urn = models.TextField(_("name that its creator gave it"), default="", db_default="")
    retry_policy = models.JSONField()
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.TextField()
    # Kind, name and number of its origin, such as (`template`, nightly, 17) or (`archived-task`, 4711, 1).
    made_of = models.TextField(default="", db_default="")
    made_of_urn = models.TextField(default="", db_default="")
    execution = models.IntegerField(_("its number among the tasks of its template"), null=True)

    attempts = models.IntegerField(default=0, db_default=0)
    crashes = models.IntegerField(_("workers that it lost in a row"), default=0, db_default=0)
    last_due_at = models.DateTimeField(_("when the last attempt was due"), null=True)
    last_started_at = models.DateTimeField(null=True)
    last_ended_at = models.DateTimeField(null=True)
    last_crashed = models.BooleanField(_("its worker was lost"), default=False, db_default=False)
    last_class = models.TextField(default="", db_default="")
    last_message = models.TextField(default="", db_default="")
    last_trace = models.TextField(default="", db_default="")
    last_worker = models.TextField(default="", db_default="")
    late_endings = models.IntegerField(_("ends that lost workers reported late"), default=0, db_default=0)

    class Meta:
        abstract = True


class Task(TaskFacts):
    """
    A scheduled task. It waits without a worker, is assigned with one, and runs once it has `started_at`.

    `epoch` counts its assignments: a worker of an older epoch changes nothing.
    """

    scheduled_at = models.DateTimeField()
    worker = models.OneToOneField(
        TaskWorker, null=True, on_delete=models.DO_NOTHING, related_name="task", verbose_name=_("its worker")
    )
    epoch = models.BigIntegerField(default=0, db_default=0)
    assigned_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    progress = models.JSONField(_("report of the running attempt"), default=dict, db_default={})
    cancelled_by = models.TextField(_("user who cancelled the running attempt"), default="", db_default="")

    class Meta:
        ordering = ("scheduled_at", "id")
        permissions = (("run_task", "Can run, cancel and reschedule tasks"),)
        constraints = (
            models.CheckConstraint(
                condition=Q(worker=None, assigned_at=None) | Q(worker__isnull=False, assigned_at__isnull=False),
                name="task_is_assigned_to_a_worker",
            ),
            models.CheckConstraint(
                condition=Q(started_at=None) | Q(worker__isnull=False), name="task_runs_on_a_worker"
            ),
            models.CheckConstraint(condition=~Q(group="") & ~Q(group=ANY), name="task_group_is_a_name"),
        )
        indexes = (
            # The order of assignment, for one group and for all.
            models.Index(fields=["group", "scheduled_at", "id"], condition=Q(worker=None), name="task_due_of_group"),
            models.Index(fields=["scheduled_at", "id"], condition=Q(worker=None), name="task_due"),
            models.Index(fields=["made_of", "made_of_urn"], condition=~Q(made_of=""), name="task_of_template"),
            GinIndex(fields=["tags"], name="task_tags"),
        )

    def __str__(self) -> str:
        return f"task {self.pk}: {self.kind}"


class ArchivedTask(TaskFacts):
    """A task that has ended, under the number that it had before."""

    id = models.BigIntegerField(primary_key=True)
    why = models.TextField(choices=[(why, why) for why in _WHYS])
    archived_at = models.DateTimeField(db_default=Now())
    result = models.JSONField(_("return value of the last attempt"), null=True)

    class Meta:
        ordering = ("-id",)
        constraints = (models.CheckConstraint(condition=Q(why__in=_WHYS), name="archived_task_why_is_known"),)
        indexes = (
            models.Index(fields=["archived_at"], name="archived_task_oldest"),
            models.Index(fields=["archived_at"], condition=IS_SLOW, name="archived_task_slow"),
            models.Index(fields=["archived_at"], condition=Q(attempts__gt=1), name="archived_task_often_tried"),
            models.Index(fields=["group", "-id"], name="archived_task_of_group"),
            models.Index(fields=["kind", "-id"], name="archived_task_of_kind"),
            models.Index(fields=["why", "-id"], name="archived_task_why"),
            models.Index(
                F("made_of"),
                F("made_of_urn"),
                F("id").desc(),
                condition=~Q(made_of=""),
                name="archived_task_of_template",
            ),
            GinIndex(fields=["tags"], name="archived_task_tags"),
        )

    def __str__(self) -> str:
        return f"task {self.pk}: {self.kind}, {self.why}"


class TaskTemplate(models.Model):
    """A template of repeated tasks. The recruiter makes a task of it at each `next_at`."""

    urn = models.TextField(unique=True)
    kind = models.TextField()
    arguments = models.JSONField(default=dict)
    group = models.TextField(default=GENERIC)
    tags = ArrayField(models.TextField(), default=list, db_default=[])
    retry_policy = models.JSONField()
    schedule = models.JSONField()
    unique = models.BooleanField(_("no task while the last one has not ended"), default=False, db_default=False)
    is_built_in = models.BooleanField(_("it cannot be removed"), default=False, db_default=False)
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.TextField()
    # The counters below survive an update of the template.
    executions = models.IntegerField(_("tasks made of it"), default=0, db_default=0)
    last_moment = models.DateTimeField(_("moment of its last task"), null=True)
    last_task = models.BigIntegerField(_("number of its last task"), null=True)
    next_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("urn",)
        constraints = (
            models.CheckConstraint(condition=~Q(group="") & ~Q(group=ANY), name="task_template_group_is_a_name"),
        )
        indexes = (models.Index(fields=["next_at"], name="task_template_due"),)

    def __str__(self) -> str:
        return self.urn


class TaskEvent(models.Model):
    """An event of a task, written in the transaction that caused it, until its listeners have received it."""

    class Kind(models.TextChoices):
        STARTED = "started", _("started")
        ENDED = "ended", _("ended")
        FAILED_FINALLY = "failed_finally", _("failed for the last time")

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(db_default=Now())
    task = models.BigIntegerField()
    attempt = models.IntegerField()
    kind = models.TextField(choices=Kind)
    # Facts of the task for its listeners, because its row may have changed since: kind, group, urn, class and message.
    detail = models.JSONField(default=dict, db_default={})

    class Meta:
        ordering = ("id",)
        default_permissions = ()

    def __str__(self) -> str:
        return f"task {self.task} {self.kind}"
