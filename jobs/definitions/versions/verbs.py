"""The versions that a user may see, and the operation that gives an object the definition of an earlier version."""

from dataclasses import dataclass
from typing import Final

from django.db import transaction
from django.db.models import QuerySet

from jobs.definitions import importing
from jobs.definitions.comparing import differences_of
from jobs.definitions.importing import Change, Result, redefine
from jobs.definitions.reading import read_shown
from jobs.definitions.subjects import SUBJECTS
from jobs.models import DefinitionVersion
from nodes.errors import ChangedMeanwhile, Unknown
from nodes.membership.changes import Differences
from nodes.permissions import May

_ADVICE: Final = "It was deleted or renamed since this version."


@dataclass(frozen=True, slots=True)
class VersionWithEffect:
    """
    A version, the number of the newest version of its object, and the fields that a revert would change.

    `exists` is False if the object no longer exists.
    """

    version: DefinitionVersion
    newest: int
    exists: bool
    differences: Differences


def visible(may: May) -> QuerySet[DefinitionVersion]:
    """Return the versions of objects that the user may see, without their documents."""
    kinds = [name for name, subject in SUBJECTS.items() if may(subject.permission("view"))]
    return DefinitionVersion.objects.filter(definition__in=kinds).defer("document")


def read_version(version_id: int, *, may: May) -> VersionWithEffect:
    """
    Return a version with the effect of a revert to it.

    Raises:
        Unknown: the version does not exist, or the user may not see it.
    """
    version = _find(version_id, may=may)
    exists = SUBJECTS[version.definition].model.objects.filter(pk=version.object_id).exists()
    found: Differences = {}
    if exists:
        found = differences_of(read_shown(version.definition, version.object_id), version.document)
    return VersionWithEffect(version, _newest(version), exists, found)


def lock(version_id: int, *, may: May) -> int:
    """
    Lock the object of a version until the transaction ends, and return the number of its newest version.

    Raises:
        Unknown: the version does not exist, or the user may not see it.
    """
    version = _find(version_id, may=may)
    rows = SUBJECTS[version.definition].model.objects.filter(pk=version.object_id)
    importing.lock([(SUBJECTS[version.definition], name) for name in rows.values_list("name", flat=True)])
    return _newest(version)


def revert(version_id: int, *, newest: int | None = None, may: May, made_by: str) -> Change:
    """
    Save the definition of an earlier version as a new version, with the checks of each save. Secrets stay as they are.

    `newest` is the number of the newest version that the user saw; None if any will do.

    Raises:
        ChangedMeanwhile: the object has a newer version.
        Invalid: the definition has problems now. Each is at its field.
        NotAllowed: the user may not change the object.
        Unknown: the version or its object does not exist, or the user may not see it.
    """
    with transaction.atomic():
        version = _find(version_id, may=may)
        if newest is not None and newest != (present := lock(version_id, may=may)):
            raise ChangedMeanwhile(
                f"The {version.definition} {version.name} was changed since you read it. "
                f"Its newest version is {present}. Read it again, and repeat the revert."
            )
        change = redefine(
            SUBJECTS[version.definition],
            version.object_id,
            version.document,
            may=may,
            made_by=made_by,
            advice=_ADVICE,
        )
        if change.result == Result.CHANGED:
            _of_object(version).filter(number=_newest(version)).update(restores=version.number)
    return change


def _find(version_id: int, *, may: May) -> DefinitionVersion:
    version = visible(may).filter(pk=version_id).defer(None).first()
    if version is None:
        raise Unknown("version", version_id)
    return version


def _of_object(version: DefinitionVersion) -> QuerySet[DefinitionVersion]:
    return DefinitionVersion.objects.filter(definition=version.definition, object_id=version.object_id)


def _newest(version: DefinitionVersion) -> int:
    return _of_object(version).order_by("-number").values_list("number", flat=True)[0]
