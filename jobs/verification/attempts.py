"""Attempts of verifications: their fence, their progress and their state."""

import datetime as dt
from collections.abc import Callable
from typing import Final, TypeVar

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from jobs.models import Verification
from nodes.database.clock import read_clock
from nodes.tasks.models import Task

V = TypeVar("V", bound=Verification)

# True while the verification may go on.
ShouldContinue = Callable[[V], bool]

# Silence after which a verification without a task counts as ended early.
_SILENT: Final = dt.timedelta(minutes=10)


class AnotherAttempt(Exception):
    """Another attempt carries out this verification, so this one must end and change nothing."""


@transaction.atomic
def begin_attempt(verification: V) -> V:
    """Return the present row of the verification. Unless the verification has ended, a new attempt has begun."""
    found = _rows_like(verification).select_for_update(of=("self",)).get(pk=verification.pk)
    if found.ended_at is None:
        found.attempt += 1
        found.save(update_fields=["attempt"])
    return found


def note(verification: Verification, **facts: object) -> None:
    """
    Store the progress of a verification.

    Raises:
        AnotherAttempt: another attempt carries out the verification, or it has ended.
    """
    mine = _rows_like(verification).filter(pk=verification.pk, attempt=verification.attempt, ended_at=None)
    if not mine.update(**facts, moved_at=Now()):
        raise AnotherAttempt(f"Another attempt carries out verification {verification.pk}.")
    # The number of the attempt is left out: it is the fence of this attempt.
    verification.refresh_from_db(fields=verification.MOVING)


def refuse(verification: Verification, why: str, *, ends: bool) -> None:
    """
    Store why an attempt failed. `ends` is true for a verification without a task, because no other attempt follows.
    """
    rows = _rows_like(verification).filter(pk=verification.pk, ended_at=None)
    rows.update(refused=why, **({"ended_at": Now(), "moved_at": Now()} if ends else {}))


def state_of(verification: Verification) -> str:
    """Return the state of a verification."""
    if verification.ended_at is not None:
        return "refused" if verification.refused else "done"
    if verification.task is None:
        return "running" if verification.moved_at > read_clock() - _SILENT else "ended early"
    task = Task.objects.filter(pk=verification.task).first()
    if task is None:
        return "ended early"
    return "running" if task.started_at is not None else "waiting"


def _rows_like(verification: V) -> QuerySet[V]:
    """Return all verifications of the same kind, of outputs or of archives."""
    return type(verification)._default_manager.all()  # noqa: SLF001 (Django documents it for models of any class)
