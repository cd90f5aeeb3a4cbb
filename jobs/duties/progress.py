"""
The progress of the crawl and the charges of its waiting time, which the main manager of the cluster keeps.

Charges are computed from the verdicts that pages show. The main manager reads the verdicts regularly, and charges the
time between two reads once. The first read of a term, or a read after a long pause, charges nothing and begins the next
step.
"""

import time
from typing import Final, LiteralString

from jobs.duties.context import Pass
from jobs.queries.charging import read_waiting_by_cause
from jobs.queue.counting.progress import MINUTE, PRESENT_MINUTE, coarsen, sample_states
from jobs.verdicts.charges import LONGEST_STEP, Sample, charge
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership.fences import hold_term

OF_THE_CLUSTER: Final[LiteralString] = f"%(scope)s = '{CLUSTER_SCOPE}'"
JOBS_RUN: Final[LiteralString] = f"{OF_THE_CLUSTER} AND EXISTS (SELECT FROM jobs_job WHERE phase <> 'inactive')"

# Pause after a read of the verdicts, in multiples of its duration, and the longest pause (seconds). Reads take at most
# 1 % of the manager's time, unless one takes longer than 0.1 seconds.
_REST: Final = 99
_LONGEST_REST: Final = LONGEST_STEP - 5

# Locks: MainTerm SHARE (the term fence), then the Charge rows, in the order of their keys.
_WRITE: Final[LiteralString] = f"""
INSERT INTO jobs_charge (subject, subject_id, step, at, cause, seconds)
SELECT subject, subject_id, {MINUTE:d}, {PRESENT_MINUTE}, cause, seconds
  FROM unnest(%(subjects)s::int[], %(ids)s::bigint[], %(causes)s::text[], %(seconds)s::float[])
       AS charged(subject, subject_id, cause, seconds)
 ORDER BY subject, subject_id, cause
ON CONFLICT (subject, subject_id, step, at, cause) DO UPDATE SET seconds = jobs_charge.seconds + excluded.seconds
"""


def charge_waiting_time(at: Pass) -> int:
    """Charge the waiting time since the last read to its causes; return 0."""
    charging = at.charging
    began = time.monotonic()
    if began < charging.rests_until:
        return 0
    sample = Sample(at.now.timestamp(), read_waiting_by_cause(now=at.now), at.held_term.term)
    charging.rests_until = time.monotonic() + min(_REST * (time.monotonic() - began), _LONGEST_REST)
    charged = charge(charging.last, sample)
    if charged:
        facts = {
            "subjects": [int(subject) for (subject, _id), _cause in charged],
            "ids": [id_ for (_subject, id_), _cause in charged],
            "causes": [str(cause) for _subject, cause in charged],
            "seconds": list(charged.values()),
        }
        with at.connection.transaction():
            hold_term(at.connection, at.held_term)
            at.connection.execute(_WRITE, facts)
    charging.last = sample
    return 0


def keep_states(at: Pass) -> int:
    """Store the states of the documents of running jobs for this minute; return 0."""
    sample_states(at.connection, term=at.held_term)
    return 0


def coarsen_progress(at: Pass) -> int:
    """Sum up old minutes of the progress and of charges, and delete the oldest; return 0."""
    coarsen(at.connection, term=at.held_term, now=at.now)
    return 0
