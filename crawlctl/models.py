"""The tables of the composition root: attempts to log in."""

from django.db import models


class LoginAttempt(models.Model):
    """
    One attempt with a wrong password, or one that is not decided yet; kept for minutes.

    `name` is a digest: what was typed there by mistake may be a password.
    """

    name = models.CharField(max_length=64)
    address = models.CharField(max_length=100)
    at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        indexes = (
            models.Index(fields=["address", "at"], name="login_attempt_by_address"),
            models.Index(fields=["at"], name="login_attempt_by_age"),
        )
