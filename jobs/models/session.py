"""What a connection's documents share over all workers (`jobs.connectors.repository.shared`)."""

from django.db import models


class Session(models.Model):
    """What a login gave, sealed. It goes when its connection says something else."""

    repository = models.ForeignKey("jobs.RepositoryConnection", on_delete=models.CASCADE, related_name="sessions")
    name = models.CharField(max_length=200)
    # Grows with each that takes its place, so that who was refused knows whether there is another.
    number = models.PositiveIntegerField(default=1)
    sealed = models.TextField()
    made_at = models.DateTimeField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["repository", "name"], name="one_session_a_name"),)

    def __str__(self) -> str:
        return self.name
