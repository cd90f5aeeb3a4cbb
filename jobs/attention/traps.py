"""Lines about suspects (possible traps) that wait for a decision."""

import datetime as dt
from typing import Final

from django.db import connection
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.attention.lines import SHOWN, AttentionLine, Severity
from jobs.models import TrapDecision
from nodes.web import formats

_KIND: Final = "traps_wait"
_OPEN: Final = f"decision = '{TrapDecision.OPEN}'"
# Each recursive step is one look-up in the index of open suspects. A job has at most `jobs.queue.traps.MOST_OF_JOB` of
# them.
_WAITING: Final = f"""
WITH RECURSIVE found AS (
    SELECT min(job_id) AS job_id, 1 AS place FROM jobs_trapsuspect WHERE {_OPEN}
     UNION ALL
    SELECT (SELECT min(job_id) FROM jobs_trapsuspect WHERE {_OPEN} AND job_id > found.job_id), place + 1
      FROM found WHERE job_id IS NOT NULL AND place <= {SHOWN}
)
SELECT job.id, job.name, counted.groups, counted.held, counted.since
  FROM found JOIN jobs_job AS job ON job.id = found.job_id
 CROSS JOIN LATERAL (SELECT count(*) AS groups, sum(held)::bigint AS held, min(suspected_at) AS since
                       FROM jobs_trapsuspect WHERE {_OPEN} AND job_id = job.id) AS counted
 ORDER BY job.id
"""


def traps_that_wait(_now: dt.datetime) -> list[AttentionLine]:
    """Return a line for each job with open suspects."""
    with connection.cursor() as cursor:
        cursor.execute(_WAITING)
        rows = cursor.fetchall()
    lines = [
        AttentionLine(
            kind=_KIND,
            key=str(id_),
            subject=name,
            sentence=_sentence(name, groups, held),
            since=since,
            link=f"{reverse('traps')}?{urlencode({'job': id_, 'decision': TrapDecision.OPEN.value})}",
            severity=Severity.WARNING,
        )
        for id_, name, groups, held, since in rows[:SHOWN]
    ]
    if len(rows) > SHOWN:
        link = f"{reverse('traps')}?{urlencode({'decision': TrapDecision.OPEN.value})}"
        sentence = _("More jobs have groups of addresses that look like traps.")
        lines.append(AttentionLine(_KIND, "more", _("Jobs"), sentence, None, link, Severity.WARNING))
    return lines


def _sentence(name: str, groups: int, held: int) -> str:
    sentence = ngettext(
        "%(n)s group of addresses of job %(job)s looks like a trap; %(held)s documents were held back. Accept its rule, or release it.",
        "%(n)s groups of addresses of job %(job)s look like traps; %(held)s documents were held back. Accept their rules, or release them.",
        groups,
    )
    return sentence % {"n": formats.number(groups), "job": name, "held": formats.number(held)}
