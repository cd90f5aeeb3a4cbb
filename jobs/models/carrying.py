"""
Values that documents pass to the documents that they reference. Only jobs whose connector passes values have rows.
"""

from django.db import models


class CarryDown(models.Model):
    """The values that one parent passes to one child, by name. The child gets the values of all its parents."""

    pk = models.CompositePrimaryKey("job_id", "child", "parent")
    job = models.ForeignKey(
        "jobs.Job", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    child = models.UUIDField()
    parent = models.UUIDField()
    carried = models.JSONField()

    class Meta:
        indexes = (models.Index(fields=["job", "parent"], name="carried_by"),)
