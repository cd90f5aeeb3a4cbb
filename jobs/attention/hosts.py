"""Lines about hosts that an operator stopped, and about documents that were not read because of a denial."""

import datetime as dt
from typing import Final

from django.db import connection
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.attention.lines import FOUND, AttentionLine, Severity, with_rest
from jobs.lifecycle.document import Stage
from jobs.models import Outcome
from jobs.queue.sql.low_water import LOWEST_DELTA
from nodes.web import formats

# Largest number of seeds of running jobs whose documents are counted for one stopped host. One more is read, so that
# the line can say that there are more.
_SEEDS: Final = 200
# Largest number of stopped hosts that are read. Stopped hosts without lanes of running jobs are not read.
_STOPPED: Final = 50
_IS_OF_A_RUNNING_JOB: Final = """
EXISTS (SELECT FROM jobs_lane AS lane JOIN jobs_seed AS seed ON seed.id = lane.seed_id
          JOIN jobs_job AS job ON job.id = seed.job_id AND job.phase <> 'inactive'
         WHERE lane.bin_id = host.id)
"""

# Reads the stopped hosts with their numbers of waiting documents, and of documents that ended with the code DENIED. The
# numbers come from the counters of lanes, because a count of documents would take too long.
_STOPPED_HOSTS: Final = f"""
SELECT bin.id, bin.name, bin.stopped_at, bin.stopped_by, bin.stopped_why,
       sum(counted.amount) FILTER (WHERE counted.stage <> {Stage.DONE:d})::bigint AS waiting,
       sum(counted.amount) FILTER (WHERE counted.stage = {Stage.DONE:d})::bigint AS denied,
       max(lane.number) > {_SEEDS} AS has_more_seeds
  FROM (SELECT * FROM jobs_bin AS host WHERE stopped_at IS NOT NULL AND {_IS_OF_A_RUNNING_JOB}
         ORDER BY id LIMIT {_STOPPED}) AS bin
 CROSS JOIN LATERAL (
       SELECT found.*, count(*) OVER () AS number
         FROM (SELECT lane.id, job.id AS job_id, job.run_no
                 FROM jobs_lane AS lane JOIN jobs_seed AS seed ON seed.id = lane.seed_id
                 JOIN jobs_job AS job ON job.id = seed.job_id AND job.phase <> 'inactive'
                WHERE lane.bin_id = bin.id LIMIT {_SEEDS} + 1) AS found) AS lane
 CROSS JOIN LATERAL (
       SELECT stage, code, amount FROM jobs_counter AS counter
        WHERE counter.job_id = lane.job_id AND counter.run_no = lane.run_no AND counter.lane_id = lane.id
          AND measure = 'stage'
        UNION ALL
       SELECT stage, code, amount FROM jobs_counterdelta AS delta
        WHERE delta.job_id = lane.job_id AND delta.run_no = lane.run_no AND delta.lane_id = lane.id
          AND delta.id >= {LOWEST_DELTA} AND measure = 'stage') AS counted
 WHERE counted.stage IN ({Stage.PENDING:d}, {Stage.ACTIVE:d}) OR counted.stage = {Stage.DONE:d} AND counted.code = 'DENIED'
 GROUP BY bin.id, bin.name, bin.stopped_at, bin.stopped_by, bin.stopped_why
HAVING sum(counted.amount) > 0
 ORDER BY bin.stopped_at, bin.id LIMIT {FOUND}
"""
_DENIED: Final = f"""
SELECT job.id, job.name, job.started_at, sum(amount)::bigint AS denied
  FROM jobs_job AS job
 CROSS JOIN LATERAL (
       SELECT amount FROM jobs_jobcounter AS counter
        WHERE counter.job_id = job.id AND counter.run_no = job.run_no AND measure = 'stage' AND stage = {Stage.DONE:d}
          AND outcome IN ({Outcome.EXCLUDED:d}, {Outcome.FAILED:d}) AND code = 'DENIED'
        UNION ALL
       SELECT amount FROM jobs_counterdelta AS delta
        WHERE delta.job_id = job.id AND delta.run_no = job.run_no AND measure = 'stage' AND stage = {Stage.DONE:d}
          AND outcome IN ({Outcome.EXCLUDED:d}, {Outcome.FAILED:d}) AND code = 'DENIED' AND delta.id >= {LOWEST_DELTA}) AS counted
 WHERE job.phase <> 'inactive'
 GROUP BY job.id, job.name, job.started_at
HAVING sum(amount) > 0
 ORDER BY denied DESC, job.id LIMIT {FOUND}
"""


def stopped_hosts(_now: dt.datetime) -> list[AttentionLine]:
    """Return a line for each stopped host at which documents of running jobs wait, or ended as DENIED."""
    with connection.cursor() as cursor:
        cursor.execute(_STOPPED_HOSTS)
        rows = cursor.fetchall()
    found = [
        AttentionLine(
            kind="host_stopped",
            key=str(id_),
            subject=name,
            sentence=_(
                "%(who)s stopped %(host)s: %(why)s. %(documents)s Release the host when the reason no longer applies."
            )
            % {
                "who": who,
                "host": name,
                "why": why.rstrip("."),
                "documents": _documents(waiting or 0, denied or 0, has_more_seeds=has_more_seeds),
            },
            since=stopped_at,
            link=reverse("host", args=[id_]),
            severity=Severity.WARNING,
        )
        for id_, name, stopped_at, who, why, waiting, denied, has_more_seeds in rows
    ]
    return with_rest(found, subject=_("Hosts"), link=f"{reverse('hosts')}?{urlencode({'state': 'stopped'})}")


def denied_documents(_now: dt.datetime) -> list[AttentionLine]:
    """Return a line for each running job with documents that ended as DENIED in this run."""
    with connection.cursor() as cursor:
        cursor.execute(_DENIED)
        rows = cursor.fetchall()
    found = [
        AttentionLine(
            kind="documents_denied",
            key=str(id_),
            subject=name,
            sentence=ngettext(
                "%(n)s document of job %(job)s was not read: its host is denied or stopped.",
                "%(n)s documents of job %(job)s were not read: their hosts are denied or stopped.",
                denied,
            )
            % {"n": formats.number(denied), "job": name},
            since=started_at,
            link=f"{reverse('documents')}?{urlencode({'job': id_, 'code': 'DENIED'})}",
            severity=Severity.WARNING,
        )
        for id_, name, started_at, denied in rows
    ]
    return with_rest(found, subject=_("Jobs"), link=reverse("jobs"))


def _documents(waiting: int, denied: int, *, has_more_seeds: bool) -> str:
    sentences = []
    if waiting:
        sentences.append(
            ngettext("%(n)s document waits there.", "%(n)s documents wait there.", waiting)
            % {"n": formats.number(waiting)}
        )
    if denied:
        sentences.append(
            ngettext("%(n)s document ended as DENIED.", "%(n)s documents ended as DENIED.", denied)
            % {"n": formats.number(denied)}
        )
    if has_more_seeds:
        sentences.append(
            _("There can be more: only documents of %(n)s seeds are counted.") % {"n": formats.number(_SEEDS)}
        )
    return " ".join(sentences)
