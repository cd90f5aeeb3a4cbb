"""
Jobs with problems, which an operator must see even if lists do not show them: a list has only the jobs that run, or ran
last. Each query reads an index that has only the rows of these jobs.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Any, Final

from django.db import connection

from jobs.lifecycle.job import Pause, Phase, RunEnd
from nodes.database.shared_results import cached_in_moment

# Largest number of jobs in one answer.
MOST: Final = 100
# The index `run_failed` has exactly this condition.
_FAILED: Final = f"""
SELECT run.job_id
  FROM jobs_run AS run
  JOIN jobs_job AS job ON job.id = run.job_id AND job.run_no = run.run_no AND job.phase = '{Phase.INACTIVE}'
 WHERE run.ended_at > %(since)s
   AND (run.run_end = '{RunEnd.ERROR}' OR (run.excluded = 0 AND run.failed > 0 AND run.indexed = 0 AND run.unchanged = 0))
 ORDER BY run.ended_at DESC LIMIT {MOST}
"""
# Each part reads a separate index.
_HELD: Final = f"""
(SELECT id FROM jobs_job WHERE phase = '{Phase.ACTIVE}' AND pause <> '{Pause.NO}' AND reason <> '' ORDER BY id LIMIT {MOST})
 UNION
(SELECT id FROM jobs_job WHERE NOT connectors_ready ORDER BY id LIMIT {MOST})
 UNION
(SELECT id FROM jobs_job WHERE archive_hold <> '' ORDER BY id LIMIT {MOST})
 ORDER BY id
"""


def find_failed_runs(since: dt.datetime) -> Sequence[int]:
    """Return stopped jobs with a last run that ended after this moment, in an error or with failures only."""
    return _ids(_FAILED, since=since)


@cached_in_moment
def find_held() -> Sequence[int]:
    """Return jobs that crawlctl itself paused, that lack a connector, or that wait for the stores of their archives."""
    return _ids(_HELD)


def _ids(query: str, **facts: Any) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(query, facts)
        return [job_id for (job_id,) in cursor.fetchall()]
