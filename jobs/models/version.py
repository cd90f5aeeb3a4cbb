"""Versions of the definitions of jobs, policies and connections."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class DefinitionVersion(models.Model):
    """
    The definition of an object after a save, without secrets, and its `changes` since the version before.

    The row outlives its object, so it stores the object's name and has no foreign key. The numbers of an object's
    versions count from 1. After a revert, `restores` is the number of the earlier version that this one repeats.
    """

    class Subject(models.TextChoices):
        JOB = "job", _("job")
        POLICY = "policy", _("policy")
        REPOSITORY = "repository", _("repository")
        OUTPUT = "output", _("output")

    definition = models.CharField(max_length=20, choices=Subject)
    object_id = models.BigIntegerField()
    number = models.PositiveIntegerField()
    name = models.CharField(max_length=400)
    at = models.DateTimeField()
    made_by = models.CharField(max_length=200)
    document = models.JSONField()
    changes = models.JSONField(default=dict)
    restores = models.PositiveIntegerField(null=True)

    class Meta:
        default_permissions = ()
        constraints = (
            models.UniqueConstraint(fields=["definition", "object_id", "number"], name="one_version_a_number"),
        )
        indexes = (
            models.Index(fields=["definition", "object_id", "-id"], name="version_newest"),
            models.Index(fields=["at"], name="version_age"),
        )

    def __str__(self) -> str:
        return f"version {self.number} of {self.definition} {self.name}"
