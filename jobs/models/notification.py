"""What an output is still to be told."""

from django.db import models


class Notification(models.Model):
    """
    One output that is to be told that a run has ended, or that a job goes.

    Made when the job begins to notify, dropped when it has come to its end. `worker` has it in hand;
    `told_at` is when the output had heard it.
    """

    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="notifications")
    output = models.ForeignKey("jobs.OutputConnection", on_delete=models.CASCADE, related_name="+")
    worker = models.ForeignKey("nodes.Node", null=True, on_delete=models.SET_NULL, related_name="+")
    told_at = models.DateTimeField(null=True)
    # Why the output could not be told at the last attempt.
    refused = models.TextField(blank=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["job", "output"], name="one_notification_a_job_and_output"),)
