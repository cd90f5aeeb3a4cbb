"""The schedule windows of jobs."""

from collections.abc import Mapping
from typing import Final

from django.contrib.postgres.fields import ArrayField
from django.db import models

from jobs.lifecycle import schedule

# Smallest and largest number of each field. The rules of time zones are known for this range of years.
FIELDS: Final[Mapping[str, tuple[int, int]]] = {
    "days_of_week": (1, 7),
    "days_of_month": (1, 31),
    "months": (1, 12),
    "years": (2000, 2199),
    "hours": (0, 23),
    "minutes": (0, 59),
}


def _any_of() -> "ArrayField[list[int], list[int]]":
    """Return a field with a list of numbers, of which one has to match. If the list is empty, any number matches."""
    return ArrayField(models.PositiveSmallIntegerField(), default=list, blank=True)


class ScheduleWindow(models.Model):
    """
    A schedule window, which opens whenever the clock of `time_zone` matches these fields.

    Days of the week are numbers from 1 (Monday) to 7. Days of the month and months count from 1. `duration` is null for
    a window that does not close: a run that began in it never has to wait.
    """

    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="windows")
    position = models.PositiveSmallIntegerField()
    days_of_week = _any_of()
    days_of_month = _any_of()
    months = _any_of()
    years = _any_of()
    hours = _any_of()
    minutes = _any_of()
    time_zone = models.CharField(max_length=60, default="UTC")
    duration = models.DurationField(null=True, blank=True)
    # True if the runs that the window starts are minimal: they read only the changes that the source reports.
    minimal = models.BooleanField(default=False)

    class Meta:
        ordering = ("job", "position")
        constraints = (models.UniqueConstraint(fields=["job", "position"], name="one_window_a_job_and_position"),)

    def __str__(self) -> str:
        return f"window {self.position} of {self.job_id}"

    @property
    def times(self) -> schedule.Window:
        """Return the fields and times of the window for computations, which need no database."""
        return schedule.Window(
            **{name: tuple(sorted(getattr(self, name))) for name in FIELDS},
            time_zone=self.time_zone,
            duration=self.duration,
            minimal=self.minimal,
        )
