"""The states by which operators choose documents, as conditions on a document `item`."""

from collections.abc import Mapping
from typing import Final, LiteralString

from jobs.lifecycle.document import Stage
from jobs.models.document import Outcome
from jobs.queue.sql.stages import CLAIMED, PENDING_OR_DONE

_CONDITIONS: Final[Mapping[str, LiteralString]] = {
    "waiting": f"item.stage = {Stage.PENDING:d} AND item.run_no = {{run}}",
    "working": f"item.stage IN {CLAIMED}",
    **{
        str(outcome.label): f"item.stage = {Stage.DONE:d} AND item.outcome = {outcome:d} AND item.run_no = {{run}}"
        for outcome in (Outcome.INDEXED, Outcome.UNCHANGED, Outcome.FAILED, Outcome.EXCLUDED)
    },
    "far": f"item.stage = {Stage.HOPCOUNT_REMOVED:d} AND item.run_no = {{run}}",
    "earlier": f"item.stage IN {PENDING_OR_DONE} AND item.run_no < {{run}}",
}
NAMES: Final = tuple(_CONDITIONS)


def states_in(run: LiteralString) -> Mapping[str, LiteralString]:
    """Return the condition of each state; `run` is the present run of the document's job in the statement."""
    return {name: condition.replace("{run}", run) for name, condition in _CONDITIONS.items()}
