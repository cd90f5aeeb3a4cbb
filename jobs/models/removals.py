"""Removals: the question of the delete guard whether they may be made."""

from django.db import models


class RemovalQuestion(models.Model):
    """
    What the clean-up of a job's run would remove, as the delete guard counted it. One row a job: its last question.

    `leaving` documents would be removed and `staying` ones kept. `hosts`, `parents`, `seeds` and `examples` are lists for
    the page and the API, bounded, those with the most documents first. The question is open while the job's `guard` waits.
    """

    job = models.OneToOneField("jobs.Job", primary_key=True, on_delete=models.CASCADE, related_name="removal_question")
    run_no = models.PositiveIntegerField()
    asked_at = models.DateTimeField()
    leaving = models.PositiveBigIntegerField()
    staying = models.PositiveBigIntegerField()
    cause = models.TextField()
    hosts = models.JSONField(default=list)
    parents = models.JSONField(default=list)
    seeds = models.JSONField(default=list)
    examples = models.JSONField(default=list)
