"""The tables of the composition root: login attempts."""

from django.db import models


class LoginAttempt(models.Model):
    """
    One login attempt with a wrong password, or one that is not decided yet; kept for minutes.

    `name` is a digest, because users sometimes type a password there by mistake.
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
