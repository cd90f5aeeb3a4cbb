"""The latest activities of one document, from the newest entries of the history, which has no index of documents."""

import datetime as dt
from dataclasses import dataclass
from typing import Final

from django.db import connection

from jobs.models import QueueItem

# Number of newest history entries of the job's source that are examined.
EXAMINED: Final = 5_000
_SHOWN: Final = 20

_HISTORY: Final = """
SELECT newest.started_at, newest.activity, coalesce(output.name, ''), newest.result_code, left(newest.result_description, 300),
       newest.bytes, newest.seconds, newest.node
  FROM (SELECT started_at, job_id, activity, output_id, entity, result_code, result_description, bytes, seconds, node
          FROM jobs_activity WHERE repository_id = %(source)s ORDER BY started_at DESC LIMIT %(examined)s) AS newest
  LEFT JOIN jobs_outputconnection AS output ON output.id = newest.output_id
 WHERE newest.entity = %(document)s AND newest.job_id = %(job)s
 ORDER BY newest.started_at DESC
 LIMIT %(shown)s
"""


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """An activity of a document. `output` is '' for an activity of its source, and `node` is '' if no worker did it."""

    at: dt.datetime
    activity: str
    output: str
    code: str
    description: str
    bytes: int | None
    seconds: float | None
    node: str


def read_history(item: QueueItem) -> list[HistoryLine]:
    """
    Return the latest activities of a document among the newest `EXAMINED` entries of its source, the newest first.
    """
    facts: dict[str, int | str] = {
        "source": item.job.repository_id,
        "job": item.job_id,
        "document": item.identifier,
        "examined": EXAMINED,
        "shown": _SHOWN,
    }
    with connection.cursor() as cursor:
        cursor.execute(_HISTORY, facts)
        return [HistoryLine(*row) for row in cursor.fetchall()]
