"""Result codes in sentences, for pages, the API and commands."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

_CODES: Final[Mapping[str, str | Promise]] = {
    "OK_UNCHANGED": gettext_lazy("The source answered that nothing changed, or sent the same content as before."),
    "ROBOTS": gettext_lazy("The host's robots.txt does not allow it."),
    "ROBOTS_UNREACHABLE": gettext_lazy("The host's robots.txt could not be read, so nothing may be fetched there."),
    "DENIED": gettext_lazy("An operator or a policy denies its host, so no request was made."),
    "NOINDEX": gettext_lazy("The page asks not to be indexed."),
    "EXCLUDED_TYPE": gettext_lazy("The job does not index this content type."),
    "EXCLUDED_LENGTH": gettext_lazy("The page is longer than the job indexes."),
    "EXCLUDED_TEXT": gettext_lazy("The page has text that the job does not index."),
    "OUT_OF_SCOPE": gettext_lazy("The job's scope, include and exclude rules do not admit this address."),
    "REDIRECT": gettext_lazy("It leads elsewhere; where it leads is a document of its own."),
    "REDIRECT_LOOP": gettext_lazy("Its redirect leads back to where it came from."),
    "TOO_MANY_REDIRECTS": gettext_lazy("The chain of redirects is too long."),
    "BAD_REDIRECT": gettext_lazy("It redirects to something that is no web address."),
    "TOO_LARGE": gettext_lazy("The body is larger than the limit."),
    "TOO_SLOW": gettext_lazy("The host sent it too slowly."),
    "DEADLINE": gettext_lazy("The host sent no answer within the limit."),
    "NOT_TEXT": gettext_lazy("It is not a kind of text."),
    "DNS": gettext_lazy("The host's name could not be resolved."),
    "REFUSED": gettext_lazy("The host refused the connection."),
    "RESET": gettext_lazy("The host cut the connection."),
    "TLS": gettext_lazy("The encrypted connection could not be set up."),
    "PROTOCOL": gettext_lazy("What the host sent is not proper HTTP."),
    "INCOMPLETE": gettext_lazy("The body ended before it was complete."),
    "ADDRESS_FORBIDDEN": gettext_lazy("The host's address is in a private network, which this job may not enter."),
    "LOGIN": gettext_lazy("The login page came again after a login that succeeded."),
    "FEED": gettext_lazy("It is a feed: each of its entries is a document."),
    "NOT_A_FEED": gettext_lazy("The answer is not a feed that crawlctl can read."),
    "BROKEN_FEED": gettext_lazy("The feed is cut off, so its last entries are unknown."),
    "UNCHANGED": gettext_lazy("The file looks as it did when it was read."),
    "DIRECTORY": gettext_lazy("It is a directory: each of its files is a document."),
    "EXCLUDED": gettext_lazy("The job's rules leave it out."),
    "OUT_OF_ROOT": gettext_lazy("It is below none of the directories that its connection names."),
    "SYMLINK": gettext_lazy("It is a link, and the job does not follow links."),
    "SPECIAL_FILE": gettext_lazy("It is a pipe, a socket or a device."),
    "NOT_FOUND": gettext_lazy("There is nothing of this name any more."),
    "FORBIDDEN": gettext_lazy("The worker may not read it."),
    "CHANGING": gettext_lazy("It changed while it was read."),
    "IO_ERROR": gettext_lazy("The disk could not read it."),
    "NO_ROOT": gettext_lazy("The directory that its connection names is not there."),
    "NO_CONNECTOR": gettext_lazy("Its connector is not installed on the worker that had it."),
    "WORKER_LOST": gettext_lazy("Three workers in a row were lost while they worked on it alone."),
}


def explain_code(code: str) -> str:
    """Return a sentence for a result code; '' for a code that needs none."""
    if code.isdigit():
        try:
            return HTTPStatus(int(code)).phrase
        except ValueError:
            return _("A status that no standard knows")
    return str(_CODES.get(code, ""))
