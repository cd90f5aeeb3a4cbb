"""Pending notifications of outputs."""

from django.db import models


class Notification(models.Model):
    """
    One output that must be notified that a run has ended, or that a job is being deleted.

    The row is inserted when the job begins to notify, and deleted when the job has ended. The notification is sent by
    `worker`. `notified_at` is the time at which the output was notified.
    """

    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="notifications")
    output = models.ForeignKey("jobs.OutputConnection", on_delete=models.CASCADE, related_name="+")
    worker = models.ForeignKey("nodes.Node", null=True, on_delete=models.SET_NULL, related_name="+")
    notified_at = models.DateTimeField(null=True)
    # Why the last attempt failed.
    refused = models.TextField(blank=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["job", "output"], name="one_notification_a_job_and_output"),)
