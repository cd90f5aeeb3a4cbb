"""JSON lines files that lost lines."""

from django.db import models


class LostLines(models.Model):
    """
    The file of an output on one machine was deleted or became shorter: from `was_bytes` to `is_bytes`.

    A worker of the machine inserts the row. It is deleted when all documents are to be written again.
    """

    output = models.ForeignKey(
        "jobs.OutputConnection", on_delete=models.CASCADE, db_index=False, related_name="lost_lines"
    )
    machine = models.CharField(max_length=255)
    noticed_at = models.DateTimeField()
    was_bytes = models.BigIntegerField()
    is_bytes = models.BigIntegerField()

    class Meta:
        ordering = ("machine",)
        constraints = (models.UniqueConstraint(fields=["output", "machine"], name="one_loss_a_machine"),)

    def __str__(self) -> str:
        return f"{self.output_id} on {self.machine}"
