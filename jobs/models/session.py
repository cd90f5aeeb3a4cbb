"""Login sessions that a connection's documents share over all workers (`jobs.connectors.repository.shared`)."""

from django.db import models


class Session(models.Model):
    """
    The result of one login at the source of a connection, such as cookies, in encrypted form. A worker stores it for
    all other workers. It is deleted when the connection is changed.
    """

    repository = models.ForeignKey("jobs.RepositoryConnection", on_delete=models.CASCADE, related_name="sessions")
    name = models.CharField(max_length=200)
    # Grows with each replacement, so that a worker whose session was refused sees that there is a newer one.
    number = models.PositiveIntegerField(default=1)
    sealed = models.TextField()
    made_at = models.DateTimeField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["repository", "name"], name="one_session_a_name"),)

    def __str__(self) -> str:
        return self.name
