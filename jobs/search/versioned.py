"""The kept versions of documents, for users whose tokens admit them."""

import uuid

from django.core.exceptions import PermissionDenied

from jobs.connectors.repository.access import Access
from jobs.models import DocumentVersion, QueueItem
from jobs.queries.documents.versions import ComparedVersion, choose_versions, compare_versions, versions_of
from jobs.search.reading import access_by_rules, ask_for_tokens
from nodes.errors import Unknown


def read_version_for(
    login: str, job_id: int, document: uuid.UUID, *, number: int | None = None, earlier: int | None = None
) -> ComparedVersion:
    """
    Return a version of a document and its difference from an earlier one, if the user with this login may see both.

    The user needs tokens for the access of both versions, for the access of the newest version, and for the present
    rules of the job. No authority is asked about an open document.

    Raises:
        Unknown: the document, or a version of it, does not exist.
        PermissionDenied: the document is protected, and the user has no token for it.
    """
    item = QueueItem.objects.select_related("job__repository__authority_group")
    found = item.filter(job_id=job_id, hash=document).first()
    if found is None:
        raise Unknown("document", f"{job_id}-{document.hex}")
    kept = list(versions_of(job_id, document))
    version, before = choose_versions(kept, number=number, earlier=earlier)
    asked = [
        access_by_rules(found.job, found.identifier),
        *(_access_of(one) for one in (kept[0], version, before) if one is not None),
    ]
    protected = [access for access in asked if not access.is_open]
    if protected:
        tokens = ask_for_tokens(login)
        if not all(access.admits(tokens) for access in protected):
            raise PermissionDenied("This document is protected. You have no token for it.")
    return compare_versions(version, before)


def _access_of(version: DocumentVersion) -> Access:
    return Access.from_json(version.access)
