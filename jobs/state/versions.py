"""
Versions of definitions: every save of a job, a policy or a connection also stores its next version, in the same
transaction.

This package may not import `jobs.definitions`, which is in a higher layer. So that package registers two functions here
at the start of the program. The row of the object is locked, so the numbers of its versions are consecutive.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, Final

from jobs.models import DefinitionVersion, Job, OutputConnection, RepositoryConnection, ThrottlePolicy

Definition = dict[str, Any]
_Subject = DefinitionVersion.Subject
_SUBJECTS: Final[Mapping[type, str]] = {
    Job: _Subject.JOB,
    ThrottlePolicy: _Subject.POLICY,
    RepositoryConnection: _Subject.REPOSITORY,
    OutputConnection: _Subject.OUTPUT,
}

_read: list[Callable[[str, int], Definition]] = []
_compare: list[Callable[[Definition, Definition], Mapping[str, Any]]] = []


def register(
    *, read: Callable[[str, int], Definition], compare: Callable[[Definition, Definition], Mapping[str, Any]]
) -> None:
    """Register the functions that read a definition without secrets, and that compare two."""
    _read[:], _compare[:] = [read], [compare]


def keep(stored: Any, *, made_by: str, now: dt.datetime) -> DefinitionVersion:  # noqa: ANN401 (any of four models)
    """Store the present definition of an object as its next version; return it."""
    subject = _SUBJECTS[type(stored)]
    document = _read[0](subject, stored.pk)
    before = DefinitionVersion.objects.filter(definition=subject, object_id=stored.pk).order_by("-number").first()
    return DefinitionVersion.objects.create(
        definition=subject,
        object_id=stored.pk,
        number=before.number + 1 if before else 1,
        name=stored.name,
        at=now,
        made_by=made_by,
        document=document,
        changes=_compare[0](before.document, document) if before else {},
    )


def keep_first(stored: Any, *, now: dt.datetime) -> None:  # noqa: ANN401 (any of four models)
    """Store the definition before a change as the first version, without an author, if the object has no version."""
    subject = _SUBJECTS[type(stored)]
    if not DefinitionVersion.objects.filter(definition=subject, object_id=stored.pk).exists():
        keep(stored, made_by="", now=now)
