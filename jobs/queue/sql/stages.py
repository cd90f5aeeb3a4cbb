"""Sets of stages of documents, as lists of SQL. The stages have the same order as in the conditions of indexes."""

from typing import Final, LiteralString

from jobs.lifecycle.document import Stage

# Documents with a claim by a batch.
CLAIMED: Final[LiteralString] = f"({Stage.ACTIVE:d}, {Stage.BEING_CLEANED:d}, {Stage.BEING_DELETED:d})"
UNCLAIMED: Final[LiteralString] = f"({Stage.PENDING:d}, {Stage.DONE:d}, {Stage.HOPCOUNT_REMOVED:d})"
# Documents that a run reads when their time has come.
PENDING_OR_DONE: Final[LiteralString] = f"({Stage.PENDING:d}, {Stage.DONE:d})"
