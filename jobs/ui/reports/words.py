"""States, statuses and activities of reports as a person reads them, and the tones that go with them."""

from collections.abc import Mapping
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from jobs.queries.reports.document_states import State, Status

STATES: Final[Mapping[State, str | Promise]] = {
    State.NEVER_PROCESSED: _("Not yet processed"),
    State.PROCESSED: _("Processed"),
    State.BEING_REMOVED: _("Being removed"),
    State.OUT_OF_SCOPE: _("Out of scope"),
}
STATUSES: Final[Mapping[Status, str | Promise]] = {
    Status.INACTIVE: _("Inactive"),
    Status.PROCESSING: _("Processing"),
    Status.EXPIRING: _("Expiring"),
    Status.DELETING: _("Deleting"),
    Status.READY_FOR_PROCESSING: _("Ready for processing"),
    Status.READY_FOR_EXPIRATION: _("Ready for expiration"),
    Status.WAITING_FOR_PROCESSING: _("Waiting for processing"),
    Status.WAITING_FOR_EXPIRATION: _("Waiting for expiration"),
    Status.WAITING_FOREVER: _("Waiting forever"),
    Status.HOPCOUNT_EXCEEDED: _("Hop count exceeded"),
}
STATUS_TONES: Final[Mapping[Status, str]] = {
    Status.INACTIVE: "indexed",
    Status.PROCESSING: "working",
    Status.EXPIRING: "working",
    Status.DELETING: "failed",
    Status.READY_FOR_PROCESSING: "unchanged",
    Status.READY_FOR_EXPIRATION: "excluded",
    Status.WAITING_FOR_PROCESSING: "waiting",
    Status.WAITING_FOR_EXPIRATION: "waiting",
    Status.WAITING_FOREVER: "quiet",
    Status.HOPCOUNT_EXCEEDED: "excluded",
}


def result_tone(code: str) -> str:
    """The tone of a result code: what went well, what the source refused, and what failed."""
    if code in {"OK", "finished"} or code.startswith("2"):
        return "indexed"
    if code.startswith("3"):
        return "unchanged"
    if not code:
        return "quiet"
    return "excluded" if code.startswith("4") else "failed"
