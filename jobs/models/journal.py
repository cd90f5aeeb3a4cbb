"""The journal of jobs."""

from django.db import models


class JobEvent(models.Model):
    """
    One event of a job, such as a start or an edit. The row outlives the job, so it stores the job's name and has no
    foreign key.
    """

    job = models.ForeignKey(
        "jobs.Job", null=True, on_delete=models.SET_NULL, db_constraint=False, related_name="events"
    )
    job_name = models.CharField(max_length=200)
    at = models.DateTimeField()
    kind = models.CharField(max_length=40)
    made_by = models.CharField(max_length=200)
    message = models.TextField()
    detail = models.JSONField(default=dict)

    class Meta:
        ordering = ("-id",)
        indexes = (models.Index(fields=["job", "-id"], name="job_event_newest"),)

    def __str__(self) -> str:
        return self.message
