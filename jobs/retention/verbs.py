"""Shows each subject of retention with its old rows, and schedules the cleaning of one."""

from dataclasses import dataclass

from django.db import connection

from jobs.duties.cleaning import Old, look
from jobs.duties.retention_subjects import SUBJECTS, Subject
from nodes.database.clock import read_clock
from nodes.errors import Unknown
from nodes.membership.silent_periods import moment_of_ages
from nodes.settings.running import current
from nodes.tasks import verbs
from nodes.tasks.models import Task


@dataclass(frozen=True, slots=True)
class SubjectWithOldRows:
    """A subject, the days of its setting, and its old rows."""

    subject: Subject
    days: int | None
    old: Old


def read_all() -> list[SubjectWithOldRows]:
    """Return each subject with the rows that a cleaning would delete now."""
    connection.ensure_connection()
    now = moment_of_ages(connection.connection, now=read_clock())
    return [
        SubjectWithOldRows(
            subject,
            None if subject.setting is None else current()[subject.setting],
            look(connection.connection, subject, now=now),
        )
        for subject in SUBJECTS.values()
    ]


def clean(name: str, *, made_by: str) -> Task:
    """
    Schedule the cleaning of a subject now.

    Raises:
        Unknown: there is no such subject.
    """
    if name not in SUBJECTS:
        raise Unknown("subject", name, f"There is no subject {name!r}; there are: {', '.join(SUBJECTS)}.")
    return verbs.create(kind="clean", arguments={"subject": name}, made_by=made_by)
