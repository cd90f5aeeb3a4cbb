"""The duty of the evidence of politeness: the main manager of the cluster appends the blocks of closed minutes."""

from typing import Final, LiteralString

from jobs.duties.context import Pass
from jobs.duties.progress import OF_THE_CLUSTER
from jobs.queue.evidence import REPORTS_TO_CHAIN, append_blocks
from jobs.settings.kept import KEEP_EVIDENCE
from nodes.settings.running import current

EVIDENCE_TO_CHAIN: Final[LiteralString] = f"{OF_THE_CLUSTER} AND {REPORTS_TO_CHAIN}"


def append_evidence(at: Pass) -> int:
    """Append the blocks of closed minutes and of gaps; return their number."""
    return append_blocks(at.connection, term=at.held_term, now=at.now, is_on=current()[KEEP_EVIDENCE] > 0)
