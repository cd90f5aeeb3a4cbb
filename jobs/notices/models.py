"""The tables of notifications: channels, rules, conditions, messages, and the state of the last check."""

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from jobs.notices.topics import TOPICS

MOST_AN_HOUR = 20
LONGEST_ANSWER = 200


class NotificationChannel(models.Model):
    """A way to people or programs. Its kind checks the configuration, and secrets in it are sealed."""

    name = models.CharField(max_length=200, unique=True)
    kind = models.SlugField(max_length=20)
    configuration = models.JSONField(default=dict)
    retry_policy = models.JSONField()
    most_an_hour = models.PositiveIntegerField(
        default=MOST_AN_HOUR,
        db_default=MOST_AN_HOUR,
        validators=[MinValueValidator(1), MaxValueValidator(1000)],
    )
    is_enabled = models.BooleanField(default=True, db_default=True)
    muted_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.CharField(max_length=200)
    last_sent_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_failed_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_error = models.CharField(max_length=LONGEST_ANSWER, default="", db_default="", blank=True, editable=False)

    class Meta:
        ordering = ("name",)
        permissions = (("use_notification", "Can test and mute notifications"),)

    def __str__(self) -> str:
        return self.name


class NotificationRule(models.Model):
    """Conditions and events of these topics become messages of these channels."""

    name = models.CharField(max_length=200, unique=True)
    topics = ArrayField(
        models.CharField(max_length=40, choices=[(name, name) for name in TOPICS]),
        help_text=_("If none is chosen, the rule sends all lines of the attention list."),
        default=list,
        blank=True,
    )
    job = models.ForeignKey("jobs.Job", null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    channels = models.ManyToManyField(NotificationChannel, related_name="rules", blank=True)
    minutes = models.PositiveIntegerField(
        _("limit of the topics no_documents and runs_long, in minutes"), null=True, blank=True
    )
    remind_after = models.PositiveIntegerField(_("minutes until a reminder"), null=True, blank=True)
    notifies_of_end = models.BooleanField(_("a message when the condition has ended"), default=True, db_default=True)
    is_enabled = models.BooleanField(default=True, db_default=True)
    muted_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.CharField(max_length=200)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class NotificationCondition(models.Model):
    """A condition that a rule has found, or an event. An event counts as ended as soon as it is found."""

    rule = models.ForeignKey(NotificationRule, on_delete=models.CASCADE, related_name="conditions")
    topic = models.CharField(max_length=40)
    key = models.TextField()
    subject = models.TextField()
    sentence = models.TextField()
    link = models.TextField()
    since = models.DateTimeField(null=True)
    found_at = models.DateTimeField()
    last_message_at = models.DateTimeField(null=True)
    # A condition that is missing only for a moment has not ended, so the begin of the absence is kept.
    missing_since = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)
        default_permissions = ("view",)
        constraints = (
            models.UniqueConstraint(
                fields=["rule", "topic", "key"], condition=Q(ended_at=None), name="one_open_condition_a_rule"
            ),
        )
        indexes = (models.Index(fields=["ended_at"], condition=Q(ended_at__isnull=False), name="condition_ended"),)

    def __str__(self) -> str:
        return f"{self.topic}: {self.subject}"


class NotificationMessage(models.Model):
    """A message of a channel that was sent, failed or was suppressed. The rows are the log of notifications."""

    class About(models.TextChoices):
        NEW = "new", _("new")
        REMINDER = "reminder", _("reminder")
        ENDED = "ended", _("ended")
        EVENT = "event", _("event")
        SUMMARY = "summary", _("summary")
        TEST = "test", _("test")
        REPORT = "report", _("report")

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        SENT = "sent", _("sent")
        FAILED = "failed", _("failed")
        SUPPRESSED = "suppressed", _("suppressed")
        SUMMED_UP = "summed_up", _("suppressed and summed up")

    channel = models.ForeignKey(NotificationChannel, on_delete=models.CASCADE, related_name="messages")
    rule = models.ForeignKey(NotificationRule, null=True, on_delete=models.SET_NULL, related_name="messages")
    about = models.CharField(max_length=10, choices=About)
    topic = models.CharField(max_length=40, default="", db_default="")
    subject = models.TextField()
    text = models.TextField()
    link = models.TextField(default="", db_default="")
    since = models.DateTimeField(null=True)
    at = models.DateTimeField()
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    task = models.BigIntegerField(null=True)
    attempts = models.IntegerField(default=0, db_default=0)
    sent_at = models.DateTimeField(null=True)
    answer = models.CharField(max_length=LONGEST_ANSWER, default="", db_default="")

    class Meta:
        ordering = ("-id",)
        default_permissions = ("view",)
        indexes = (
            models.Index(fields=["channel", "at"], name="message_of_channel"),
            models.Index(fields=["channel"], condition=Q(state="suppressed"), name="message_suppressed"),
            models.Index(fields=["channel"], condition=Q(state="waiting"), name="message_waiting"),
            models.Index(fields=["at"], name="message_oldest"),
        )

    def __str__(self) -> str:
        return self.subject


class NotificationCheck(models.Model):
    """
    The state of the last check, in one row.

    The next check reads events of journals after `job_event` and `read_until`, without the events in `seen`.
    `progress` has for each running job its run, the number of processed documents, and the time at which this number
    last grew.
    """

    id = models.SmallIntegerField(primary_key=True, default=1)
    checked_at = models.DateTimeField()
    job_event = models.BigIntegerField()
    read_until = models.DateTimeField()
    seen = models.JSONField(default=list)
    progress = models.JSONField(default=dict)

    class Meta:
        default_permissions = ()
        constraints = (models.CheckConstraint(condition=Q(id=1), name="one_row_of_the_last_check"),)

    def __str__(self) -> str:
        return f"check of {self.checked_at}"


class ReportMailing(models.Model):
    """A report that a template of tasks sends by e-mail at each moment of its schedule."""

    name = models.CharField(max_length=100, unique=True)
    report = models.CharField(max_length=20)
    # Parameters of the report, with the names of the parameters in the API.
    filter = models.JSONField(default=dict)
    hours = models.PositiveIntegerField(_("hours of the history before the moment of sending"), default=24)
    channel = models.ForeignKey(NotificationChannel, on_delete=models.PROTECT, related_name="mailings")
    recipients = ArrayField(models.TextField(), default=list, blank=True)
    as_html = models.BooleanField(default=True, db_default=True)
    attaches_csv = models.BooleanField(default=True, db_default=True)
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.CharField(max_length=200)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def template_urn(self) -> str:
        """Return the name of its template of tasks."""
        return f"report-{self.name}"
