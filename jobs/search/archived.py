"""The content of archive records, for users whose tokens admit them."""

from django.core.exceptions import PermissionDenied

from jobs.connectors.repository.access import Access
from jobs.models import Job
from jobs.queries.archive import ReadRecord, read_record
from jobs.search.reading import access_by_rules, ask_for_tokens


def read_record_for(login: str, record_id: int) -> ReadRecord:
    """
    Return an archive record with its content, if the present access rules of its job admit the user with this login.

    No authority is asked about an open document.

    Raises:
        Unknown: there is no such record.
        Refused: no copy of its file can be read here, or the record is damaged.
        PermissionDenied: the document is protected, and the user has no token for it, or its job no longer exists.
    """
    read = read_record(record_id)
    access = _access_of(read)
    if access is None:
        raise PermissionDenied(
            f"The job of archive record {record_id} no longer exists, so its access rules are unknown. "
            "`manage.py archive show` reads its file."
        )
    if not access.is_open and not access.admits(ask_for_tokens(login)):
        raise PermissionDenied(f"Archive record {record_id} is of a protected document. You have no token for it.")
    return read


def _access_of(read: ReadRecord) -> Access | None:
    """Return the access of an archived document by the rules of its job; None if the job no longer exists."""
    job = Job.objects.filter(pk=read.row.job_id).select_related("repository__authority_group").first()
    return None if job is None else access_by_rules(job, read.content.url)
