"""The kept versions of a document: their list, and the comparison of a version with an earlier one."""

import uuid
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from jobs.models import DocumentVersion
from jobs.queries.documents.differences import Difference, compare_texts
from nodes.errors import Unknown


@dataclass(frozen=True, slots=True)
class ComparedVersion:
    """
    A version with its text and its difference from an earlier version. `earlier` and `difference` are None for the
    first kept version.
    """

    version: DocumentVersion
    text: str
    earlier: DocumentVersion | None
    difference: Difference | None


def versions_of(job_id: int, document: uuid.UUID) -> QuerySet[DocumentVersion]:
    """Return the kept versions of a document, the newest first, without their texts."""
    return DocumentVersion.objects.filter(job_id=job_id, hash=document).defer("text").order_by("-number")


def choose_versions(
    versions: Sequence[DocumentVersion], *, number: int | None = None, earlier: int | None = None
) -> tuple[DocumentVersion, DocumentVersion | None]:
    """
    Return a version, by default the newest one, and the version to compare it with, by default its predecessor.

    Raises:
        Unknown: the document has no version with this number.
    """
    by_number = {version.number: version for version in versions}
    chosen = versions[0] if number is None and versions else by_number.get(number or 0)
    if chosen is None:
        raise Unknown("version", number or 0)
    if earlier is None:
        return chosen, next((version for version in versions if version.number < chosen.number), None)
    if earlier not in by_number:
        raise Unknown("version", earlier)
    return chosen, by_number[earlier]


def compare_versions(version: DocumentVersion, earlier: DocumentVersion | None) -> ComparedVersion:
    """Return a version with its text and its difference from an earlier one."""
    text = text_of(version)
    difference = None if earlier is None else compare_texts(text_of(earlier), text)
    return ComparedVersion(version, text, earlier, difference)


def text_of(version: DocumentVersion) -> str:
    stored = bytes(version.text)
    return zlib.decompress(stored).decode(errors="replace") if stored else ""
