"""States, statuses and activities of reports in words, and their colours."""

from collections.abc import Mapping
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from jobs.lifecycle.activity import ActivityName
from jobs.queries.reports.document_states import State, Status
from jobs.verdicts.results import class_of

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
    Status.HOPCOUNT_EXCEEDED: _("Too far away"),
}
STATUS_TONES: Final[Mapping[Status, str]] = {
    Status.INACTIVE: "quiet",
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


# Tones of activities in the history. All other activities have the grey tone of waiting.
ACTIVITY_TONES: Final[Mapping[str, str]] = {
    ActivityName.FETCH: "working",
    ActivityName.INGEST: "indexed",
    ActivityName.DELETION: "gone",
    ActivityName.NOTIFICATION: "accent",
}


def activity_tone(name: str) -> str:
    """Return the colour of an activity. The name of an activity of an output ends with the name of the output."""
    return next((tone for known, tone in ACTIVITY_TONES.items() if name.startswith(known)), "waiting")


def status_tone(status: Status, code: str) -> str:
    """Return the colour of a document's status. If the document has ended, this is the colour of its result."""
    return class_of(code) if status == Status.INACTIVE and code else STATUS_TONES[status]
