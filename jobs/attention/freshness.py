"""Running jobs whose freshness goals need more requests than a host allows."""

import datetime as dt
from typing import Final

from django.db import connection
from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.attention.lines import SHOWN, AttentionLine, Severity
from nodes.web import formats

_KIND: Final = "host_too_slow"
# Each recursive step is one look-up in the index of plans with hosts that are too slow.
_SLOW: Final = f"""
WITH RECURSIVE found AS (
    SELECT min(job_id) AS job_id, 1 AS place FROM jobs_laneplan WHERE lacks > 0
     UNION ALL
    SELECT (SELECT min(job_id) FROM jobs_laneplan WHERE lacks > 0 AND job_id > found.job_id), place + 1
      FROM found WHERE job_id IS NOT NULL AND place <= {SHOWN}
)
SELECT job.id, job.name, bin.name, plan.host_needs, plan.allows, plan.since
  FROM found JOIN jobs_job AS job ON job.id = found.job_id AND job.phase = 'active'
 CROSS JOIN LATERAL (SELECT * FROM jobs_laneplan WHERE job_id = job.id AND lacks > 0 ORDER BY lacks DESC LIMIT 1) AS plan
  JOIN jobs_lane AS lane ON lane.id = plan.lane_id JOIN jobs_bin AS bin ON bin.id = lane.bin_id
 ORDER BY job.id
"""


def goals_that_cannot_be_met(_now: dt.datetime) -> list[AttentionLine]:
    """Return a line for each running job with a host that is too slow for its goals."""
    with connection.cursor() as cursor:
        cursor.execute(_SLOW)
        rows = cursor.fetchall()
    lines = [
        AttentionLine(
            kind=_KIND,
            key=str(id_),
            subject=name,
            sentence=_(
                "Freshness goals need %(needs)s requests per second at %(host)s, which allows %(allows)s. Allow more requests, or change the goals."
            )
            % {"needs": formats.rate(needs), "host": host, "allows": formats.rate(allows)},
            since=since,
            link=reverse("job", args=[id_]),
            severity=Severity.WARNING,
        )
        for id_, name, host, needs, allows, since in rows[:SHOWN]
    ]
    if len(rows) > SHOWN:
        sentence = _("The hosts of more jobs are too slow for their freshness goals.")
        lines.append(AttentionLine(_KIND, "more", _("Jobs"), sentence, None, reverse("overview"), Severity.WARNING))
    return lines
