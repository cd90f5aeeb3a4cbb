"""Throttle policies: what a bin may be asked for."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models


class ThrottlePolicy(models.Model):
    """
    Limits that hold for each bin that a seed of this policy reaches.

    They are global: where several jobs reach one bin, the strictest limit of the running ones holds.
    """

    name = models.CharField(max_length=200, unique=True)
    open_requests = models.PositiveIntegerField(
        default=2,
        validators=[MinValueValidator(1), MaxValueValidator(1000)],
        help_text="Requests that may be open to one bin at the same time.",
    )
    min_gap = models.FloatField(
        default=1.0,
        validators=[MinValueValidator(0.0), MaxValueValidator(86400.0)],
        help_text="Seconds between the starts of two requests to one bin.",
    )
    spares_loopback = models.BooleanField(
        default=False, help_text="Bins of loopback addresses need no gap: nobody else is there to be spared."
    )
    # A policy that a one-shot made for itself is shown with its job, not in lists to choose from.
    private_to = models.ForeignKey("jobs.Job", null=True, blank=True, on_delete=models.CASCADE, related_name="+")

    class Meta:
        ordering = ("name",)
        verbose_name_plural = "throttle policies"
        constraints = (
            models.CheckConstraint(condition=models.Q(open_requests__gte=1), name="policy_opens_a_request"),
            models.CheckConstraint(condition=models.Q(min_gap__gte=0), name="policy_gap_is_a_duration"),
        )

    def __str__(self) -> str:
        return self.name
