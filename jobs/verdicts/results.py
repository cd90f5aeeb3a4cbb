"""Result codes: one fixed class for each, which sets its colour and whether it counts as a failure."""

import enum
import functools
from typing import Final


class ResultClass(enum.StrEnum):
    """The class of a result code. Each class has one colour in charts, tables and lists (`static/css/crawlctl.css`)."""

    OK = "indexed"
    UNCHANGED = "unchanged"
    REDIRECT = "redirected"
    EXCLUDED = "excluded"
    DENIED = "denied"
    GONE = "gone"
    # The source refused: 4xx except 404 and 410.
    REFUSED = "refused"
    FAILED = "failed"
    NONE = "quiet"


_OF_CODES: Final = {
    **dict.fromkeys(("OK", "finished"), ResultClass.OK),
    **dict.fromkeys(("OK_UNCHANGED", "UNCHANGED", "304"), ResultClass.UNCHANGED),
    **dict.fromkeys(("REDIRECT", "FEED", "DIRECTORY", "ARCHIVE"), ResultClass.REDIRECT),
    **dict.fromkeys(
        (
            "ROBOTS",
            "NOINDEX",
            "OUT_OF_SCOPE",
            "TRAP",
            "EXCLUDED_TYPE",
            "EXCLUDED_LENGTH",
            "EXCLUDED_TEXT",
            "EXCLUDED_URL",
            "EXCLUDED_DATE",
            "NOT_TEXT",
            "EXCLUDED",
            "OUT_OF_ROOT",
            "SYMLINK",
            "SPECIAL_FILE",
            "TOO_LARGE",
            "REDIRECT_LOOP",
            "TOO_MANY_REDIRECTS",
            "BAD_REDIRECT",
            "NOT_A_FEED",
            "NOT_ARCHIVE",
            "NOT_BY_RECORD",
        ),
        ResultClass.EXCLUDED,
    ),
    "DENIED": ResultClass.DENIED,
    **dict.fromkeys(("404", "410", "NOT_FOUND"), ResultClass.GONE),
    **dict.fromkeys(
        (
            *("DNS", "REFUSED", "RESET", "TLS", "PROTOCOL", "INCOMPLETE", "TOO_SLOW", "DEADLINE", "LOGIN", "FAILED"),
            *("ADDRESS_FORBIDDEN", "ROBOTS_UNREACHABLE", "BROKEN_FEED", "NO_ROOT", "FORBIDDEN", "CHANGING", "IO_ERROR"),
            *("ARCHIVE_DAMAGED", "TRUNCATED", "NO_ORIGINAL", "BAD_RECORD"),
            *("NO_CONNECTOR", "WORKER_LOST", "EXTRACTION_FAILED", "STAGE_UNAVAILABLE", "error"),
        ),
        ResultClass.FAILED,
    ),
}
_OF_HUNDREDS: Final = {
    "1": ResultClass.OK,
    "2": ResultClass.OK,
    "3": ResultClass.REDIRECT,
    "4": ResultClass.REFUSED,
    "5": ResultClass.FAILED,
}


def class_of(code: str, *, otherwise: ResultClass = ResultClass.NONE) -> ResultClass:
    """Return the class of a result code; `otherwise` for an unknown code, such as that of a plugin's connector."""
    if (known := _OF_CODES.get(code)) is not None:
        return known
    if code.isdigit() and len(code) == 3:
        return _OF_HUNDREDS.get(code[0], otherwise)
    return otherwise


@functools.cache
def is_failure(code: str) -> bool:
    """True if a request with this result shows that its host does not work: no answer, 5xx, 429, or a refusal."""
    return class_of(code) in {ResultClass.FAILED, ResultClass.REFUSED}
