"""Result codes in sentences, for pages, the API and commands."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

_CODES: Final[Mapping[str, str | Promise]] = {
    "OK_UNCHANGED": gettext_lazy("The source answered that the document is unchanged, or sent the same content again."),
    "ROBOTS": gettext_lazy("The host's robots.txt does not allow it."),
    "ROBOTS_UNREACHABLE": gettext_lazy("The host's robots.txt could not be read, so the job fetches nothing from it."),
    "DENIED": gettext_lazy("An operator or a policy denies its host, so no request was made."),
    "TRAP": gettext_lazy(
        "Its address belongs to a group without new content, which the trap guard holds back, so no request was made."
    ),
    "NOINDEX": gettext_lazy("The page asks not to be indexed."),
    "EXCLUDED_TYPE": gettext_lazy("The job does not index this content type."),
    "EXCLUDED_LENGTH": gettext_lazy("The page is longer than the job indexes."),
    "EXCLUDED_TEXT": gettext_lazy("The page has text that the job does not index."),
    "EXCLUDED_URL": gettext_lazy("A stage of the job's pipeline does not pass this address on."),
    "EXCLUDED_DATE": gettext_lazy("A stage of the job's pipeline does not pass documents of this date on."),
    "EXTRACTION_FAILED": gettext_lazy(
        "A stage of the job's pipeline could not process the document. The outputs keep their present version of it."
    ),
    "STAGE_UNAVAILABLE": gettext_lazy("A server that a stage of the job's pipeline needs does not answer."),
    "OUT_OF_SCOPE": gettext_lazy("The job's scope, include and exclude rules do not admit this address."),
    "REDIRECT": gettext_lazy("The document redirects. The target is a separate document."),
    "REDIRECT_LOOP": gettext_lazy("The document is part of a redirect loop."),
    "TOO_MANY_REDIRECTS": gettext_lazy("The redirect chain is too long."),
    "BAD_REDIRECT": gettext_lazy("The document redirects to an address that is not an http or https address."),
    "TOO_LARGE": gettext_lazy("The body is larger than the limit."),
    "TOO_SLOW": gettext_lazy("The host sent the body too slowly."),
    "DEADLINE": gettext_lazy("The host sent no answer within the limit."),
    "NOT_TEXT": gettext_lazy("The content type is not a text type."),
    "DNS": gettext_lazy("The host's name could not be resolved."),
    "REFUSED": gettext_lazy("The host refused the connection."),
    "RESET": gettext_lazy("The host closed the connection."),
    "TLS": gettext_lazy("The encrypted connection could not be set up."),
    "PROTOCOL": gettext_lazy("The host sent invalid HTTP."),
    "INCOMPLETE": gettext_lazy("The body ended before it was complete."),
    "ADDRESS_FORBIDDEN": gettext_lazy("The host's address is in a private network, which this job may not enter."),
    "LOGIN": gettext_lazy("The host showed the login page again after a successful login."),
    "FEED": gettext_lazy("The document is a feed. Each of its entries is a separate document."),
    "NOT_A_FEED": gettext_lazy("The answer is not a feed that crawlctl can read."),
    "BROKEN_FEED": gettext_lazy("The feed is truncated, so its last entries are unknown."),
    "UNCHANGED": gettext_lazy("The file, or the record in the archive, is unchanged since it was last read."),
    "DIRECTORY": gettext_lazy("The document is a directory. Each of its files is a separate document."),
    "EXCLUDED": gettext_lazy("The job's rules exclude the document."),
    "OUT_OF_ROOT": gettext_lazy("The file is outside the directories of its connection."),
    "SYMLINK": gettext_lazy("The file is a symbolic link, and the job does not follow links."),
    "SPECIAL_FILE": gettext_lazy("The file is a pipe, a socket or a device."),
    "NOT_FOUND": gettext_lazy("The file no longer exists."),
    "FORBIDDEN": gettext_lazy("The worker lacks the permission to read the file."),
    "CHANGING": gettext_lazy("The file changed while the worker read it."),
    "IO_ERROR": gettext_lazy("The disk failed to read the file."),
    "NO_ROOT": gettext_lazy("The directory of its connection does not exist."),
    "ARCHIVE": gettext_lazy("The document is a part of an archive. Each of its pages is a separate document."),
    "ARCHIVE_DAMAGED": gettext_lazy(
        "The document is a part of an archive with damaged records. They were skipped, and the history has their number."
    ),
    "NOT_ARCHIVE": gettext_lazy("The file is neither a WARC nor a BARC file."),
    "NOT_BY_RECORD": gettext_lazy(
        "The file is compressed as a whole, so its records cannot be read. Compress each record, for example with warcio recompress."
    ),
    "TRUNCATED": gettext_lazy("The archive has only the beginning of the body."),
    "NO_ORIGINAL": gettext_lazy("The archive lacks the body to which the record refers."),
    "BAD_RECORD": gettext_lazy("The record in the archive is damaged."),
    "NO_CONNECTOR": gettext_lazy("The connector is not installed on the worker."),
    "FAILED": gettext_lazy("The connector failed to read the document."),
    "WORKER_LOST": gettext_lazy("Three workers in a row failed while they processed only this document."),
}


def explain_code(code: str) -> str:
    """Return a sentence for a result code; '' for a code that needs none."""
    if code.isdigit():
        try:
            return HTTPStatus(int(code)).phrase
        except ValueError:
            return _("Non-standard HTTP status")
    return str(_CODES.get(code, ""))
