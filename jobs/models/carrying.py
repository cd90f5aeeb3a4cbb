"""What documents pass to those that they name: kept only for jobs whose connector carries something."""

from django.db import models


class CarryDown(models.Model):
    """What one parent passes to one child: values by name. The child reads what all its parents pass."""

    pk = models.CompositePrimaryKey("job_id", "child", "parent")
    job = models.ForeignKey(
        "jobs.Job", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    child = models.UUIDField()
    parent = models.UUIDField()
    carried = models.JSONField()

    class Meta:
        indexes = (models.Index(fields=["job", "parent"], name="carried_by"),)
