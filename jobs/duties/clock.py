"""
If the clock of the database is set back while nodes run, the main manager corrects the stored moments.

A batch of a running crawl, or a heartbeat of an ended node, shows a jump if its moment is in the future. The first
registration after a jump corrects moments, too (`nodes/membership/clock_jumps.py`).
"""

import datetime as dt
from typing import Final, LiteralString

from jobs.duties.context import Pass
from nodes.membership.clock_jumps import A_HEARTBEAT_IS_AHEAD, AHEAD, correct_moments, notice_jump
from nodes.membership.fences import hold_term

# True if the clock was set back. Several newest batches of the scope are examined, because a manager may have made the
# last ones after the jump.
CLOCK_WAS_SET_BACK: Final[LiteralString] = f"""
EXISTS (SELECT FROM (SELECT created_at FROM jobs_batch WHERE node_scope = %(scope)s ORDER BY id DESC LIMIT 20) AS newest
         WHERE created_at > clock_timestamp() + {AHEAD})
OR {A_HEARTBEAT_IS_AHEAD}
"""
_JUMP: Final[LiteralString] = f"""
SELECT clock.now, max(batch.created_at) - clock.now
  FROM (SELECT clock_timestamp() AS now) AS clock
  JOIN jobs_batch AS batch ON batch.node_scope = %(scope)s AND batch.created_at > clock.now + {AHEAD}
 GROUP BY clock.now
"""


def follow_clock(at: Pass) -> int:
    """
    Correct stored moments after the clock of the database was set back. Return 1 if the clock was set back, else 0.
    """
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        row = at.connection.execute(_JUMP, {"scope": at.scope}).fetchone()
        if row is None:
            return int(notice_jump(at.connection))
        now, jump = row
        assert isinstance(now, dt.datetime)
        assert isinstance(jump, dt.timedelta)
        correct_moments(at.connection, now=now, jump=jump)
    return 1
