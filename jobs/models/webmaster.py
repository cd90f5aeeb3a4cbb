"""Limits that the webmasters of hosts asked for, after a proof of control."""

from typing import Final

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from jobs.lifecycle.limits import LONGEST_GAP

# The policy with the rules of these limits. It applies everywhere.
WEBMASTERS: Final = "Webmasters"


class WebmasterLimit(models.Model):
    """
    The limit of a host that its webmaster asked for, at most one for each host.

    `gap` is the time between two starts (seconds); null stops all requests. Rules of the policy `Webmasters` apply it.
    `proof` is the way in which control of the host was proved, with the published `token`.
    """

    class Proof(models.TextChoices):
        DNS = "dns"
        FILE = "file"

    host = models.CharField(max_length=300, unique=True)
    gap = models.FloatField(null=True, validators=[MinValueValidator(1.0), MaxValueValidator(LONGEST_GAP)])
    proof = models.CharField(max_length=4, choices=Proof.choices)
    token = models.CharField(max_length=64)
    proved_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.host
