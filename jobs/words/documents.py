"""States of documents as text for people."""

from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.lifecycle.document import Stage
from jobs.models import Outcome
from jobs.verdicts.results import ResultClass, class_of

# The states of `jobs.queue.sql.chosen_states`.
STATE_WORDS: Final = {
    "waiting": gettext_lazy("waiting"),
    "working": gettext_lazy("in progress"),
    "indexed": gettext_lazy("indexed"),
    "unchanged": gettext_lazy("unchanged"),
    "failed": gettext_lazy("failed"),
    "excluded": gettext_lazy("excluded"),
    "far": gettext_lazy("too far away"),
    "earlier": gettext_lazy("of an earlier run"),
}


def document_state(*, stage: Stage, outcome: Outcome, code: str, is_of_this_run: bool) -> tuple[str, str]:
    """Return the state of a document in a word or two, and the tone (colour) of this state."""
    if stage == Stage.ACTIVE:
        return _("in progress"), "working"
    if stage in {Stage.BEING_CLEANED, Stage.BEING_DELETED}:
        return _("being removed"), "working"
    if not is_of_this_run:
        return _("of an earlier run"), "waiting"
    if stage == Stage.PENDING:
        return _("waiting"), "waiting"
    if stage == Stage.HOPCOUNT_REMOVED:
        return _("too far away"), "excluded"
    state, otherwise = {
        Outcome.INDEXED: (_("indexed"), ResultClass.OK),
        Outcome.UNCHANGED: (_("unchanged"), ResultClass.UNCHANGED),
        Outcome.FAILED: (_("failed"), ResultClass.FAILED),
        Outcome.EXCLUDED: (_("excluded"), ResultClass.EXCLUDED),
    }.get(outcome, (_("done"), ResultClass.NONE))
    # The result class gives the tone, so charts and reports show a result in the same colour.
    return state, class_of(code, otherwise=otherwise)
