"""Activities of the history that the crawl itself reports. Connectors report others."""

import enum
from typing import Final


class ActivityName(enum.StrEnum):
    """Activities by ManifoldCF's names. Activities of outputs are shown with the name of the output."""

    FETCH = "fetch"
    INGEST = "document ingest"
    DELETION = "document deletion"
    REFUSAL = "document refusal"
    NOTIFICATION = "output notification"
    TRANSFORMATION = "transformation"
    JOB_START = "job start"
    JOB_STOP = "job stop"
    JOB_CONTINUE = "job continue"
    JOB_WAIT = "job wait"
    JOB_UNWAIT = "job unwait"
    JOB_END = "job end"


OF_OUTPUTS: Final = frozenset(
    {ActivityName.INGEST, ActivityName.DELETION, ActivityName.REFUSAL, ActivityName.NOTIFICATION}
)

OF_JOBS: Final = frozenset(
    {
        *(ActivityName.JOB_START, ActivityName.JOB_STOP, ActivityName.JOB_CONTINUE),
        *(ActivityName.JOB_WAIT, ActivityName.JOB_UNWAIT, ActivityName.JOB_END),
    }
)

# The activity of a transition in the history. Only transitions after which a job runs, or no longer runs, have one.
OF_TRANSITIONS: Final = {
    "start": ActivityName.JOB_START,
    "start minimal": ActivityName.JOB_START,
    "start again": ActivityName.JOB_START,
    "begin window": ActivityName.JOB_START,
    "follow": ActivityName.JOB_START,
    "wait": ActivityName.JOB_WAIT,
    "unwait": ActivityName.JOB_UNWAIT,
    "halt": ActivityName.JOB_STOP,
    "interrupt": ActivityName.JOB_STOP,
    "end aborted": ActivityName.JOB_STOP,
    "resume": ActivityName.JOB_CONTINUE,
    "finish": ActivityName.JOB_END,
    "hold removals": ActivityName.JOB_END,
    "end at its limit": ActivityName.JOB_END,
}
