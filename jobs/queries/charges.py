"""The waiting time of documents by cause, as the main manager keeps it in the database."""

import datetime as dt
from collections.abc import Mapping
from typing import Final

from django.db import connection

from jobs.models import Charge
from jobs.queue.counting.progress import MINUTE
from jobs.verdicts.causes import Cause

# Number of minutes that the bar of causes covers.
MINUTES: Final = 5

_CHARGES: Final = f"""
SELECT cause, sum(seconds) AS seconds
  FROM jobs_charge
 WHERE subject = %(subject)s AND subject_id = %(id)s AND step = {MINUTE:d}
   AND at > %(now)s - make_interval(mins => {MINUTES:d})
 GROUP BY cause ORDER BY seconds DESC, cause
"""


def read_charges(subject: Charge.Subject, subject_id: int, *, now: dt.datetime) -> dict[Cause, float]:
    """Return the document-seconds by cause of the last minutes, the largest first."""
    with connection.cursor() as cursor:
        cursor.execute(_CHARGES, {"subject": int(subject), "id": subject_id, "now": now})
        return _known(dict(cursor.fetchall()))


def _known(charged: Mapping[str, float]) -> dict[Cause, float]:
    """Return the charges whose causes this version of crawlctl knows."""
    names = set(Cause)
    return {Cause(cause): seconds for cause, seconds in charged.items() if cause in names}
