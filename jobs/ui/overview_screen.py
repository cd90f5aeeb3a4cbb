"""The texts of the overview; see `nodes.web.screens` for the structure of a screen."""

import datetime as dt
from collections.abc import Iterable
from typing import Final

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.attention.lines import AttentionLine
from jobs.attention.rows import rows as rows_of_attention
from jobs.queries.jobs.lines import JOBS_SHOWN
from jobs.queries.jobs.schedules import ScheduleLine
from jobs.queries.overview import OverviewPage
from jobs.ui.clusters_screen import count_in_words
from jobs.ui.job_rows import counts_cells, job_row, rate_cells, search_lag
from jobs.ui.nodes_screen import node_row
from jobs.ui.partitions_views import at_least
from jobs.ui.progress_screen import progress_screen
from jobs.verdicts.causes import Cause, is_of_job
from jobs.words import charges, verdicts
from nodes.lifecycle import NodeKind
from nodes.web import formats
from nodes.web.screens import Record

# Verdicts that hold the whole crawl until an operator acts.
_STOP_THE_CRAWL: Final = {Cause.NO_MANAGER, Cause.NO_WORKER, Cause.DISK}


def overview_screen(page: OverviewPage, attention: Iterable[AttentionLine], *, now: dt.datetime) -> Record:
    return {
        "attention": rows_of_attention(attention, now=now),
        **_headline(page, now=now),
        **rate_cells(page.history),
        **counts_cells(page.totals),
        "at_least": " ".join(filter(None, (_of_some_jobs(page), at_least(page.silent, now=now)))),
        "rate": formats.rate(page.rate if page.verdict.is_running else 0.0),
        "rate_says": _("documents per second"),
        "states": _states(page),
        "jobs_running": formats.number(page.running_in_all),
        "managers": _count_nodes(page, NodeKind.MANAGER),
        "workers": _count_nodes(page, NodeKind.WORKER),
        "search_lag": search_lag(page.search_behind_since, now=now),
        "jobs": sorted((job_row(job, now=now) for job in page.jobs), key=lambda row: row["tone"] != "failed"),
        **progress_screen(page.progress, now=now),
        **charges.cells(page.charges),
        "next_starts": [_start_row(line, now=now) for line in page.next_starts],
        "nodes": [node_row(node, now=now) for node in page.nodes],
    }


def _count_nodes(page: OverviewPage, kind: NodeKind) -> str:
    return count_in_words(sum(node.kind == kind for node in page.nodes), is_partial=page.are_more_nodes)


def _states(page: OverviewPage) -> str:
    if page.verdict.is_running:
        return _("Documents of the active runs")
    if len(page.jobs) < JOBS_SHOWN:
        return _("Documents of the last runs")
    return _("Documents of the last runs of %(n)s jobs") % {"n": formats.number(len(page.jobs))}


def _of_some_jobs(page: OverviewPage) -> str:
    if page.running == page.running_in_all:
        return ""
    return _("The true counts may be higher: these are the counts of %(n)s of %(all)s active runs.") % {
        "n": formats.number(page.running),
        "all": formats.number(page.running_in_all),
    }


def _start_row(line: ScheduleLine, *, now: dt.datetime) -> Record:
    starts_at = line.coming[0][0]
    return {
        "key": str(line.id),
        "name": line.name,
        "address": reverse("job", args=[line.id]),
        "at": formats.moment(starts_at, now=now),
        "in": formats.time_until(starts_at, now=now),
    }


def _headline(page: OverviewPage, *, now: dt.datetime) -> Record:
    """Return the verdict on the crawl: a headline, and the number of hosts by cause."""
    crawl = page.verdict
    verdict, tone = crawl.verdict, verdicts.tone(crawl.verdict)
    if not crawl.is_running:
        headline, detail = _("No job is running"), _("Start a job, or create one.")
    elif verdict.cause in _STOP_THE_CRAWL:
        headline, detail = _("No progress"), verdicts.sentence(verdict, now=now)
    elif verdict.failing is not None:
        headline, detail = _("Failing"), f"{verdicts.failures(verdict.failing)} {_queue(page)}"
    elif crawl.is_moving:
        headline, tone, detail = _moving(page), "working", _queue(page)
    elif verdict.cause == Cause.NOT_DUE and not crawl.hosts:
        headline, tone, detail = _("No document is due"), "waiting", verdicts.sentence(verdict, now=now)
    elif is_of_job(verdict.cause):
        brief = verdicts.brief(verdict)
        headline, detail = f"{brief[:1].upper()}{brief[1:]}", verdicts.sentence(verdict, now=now)
    else:
        headline, tone, detail = _("Waiting"), "waiting", _queue(page)
    return {"headline": headline, "headline_detail": detail, "headline_tone": tone}


def _moving(page: OverviewPage) -> str:
    """Return the rate of the crawl, and the most frequent cause of waiting with its number of hosts, in words."""
    said = _("Crawling: %(rate)s/s") % {"rate": formats.rate(page.rate)}
    cause, number = next(iter((page.verdict.hosts or {}).items()), (None, 0))
    if cause is None:
        return said
    held = f"{verdicts.cause_in_brief(cause)} {page.policies.get(cause, '')}".rstrip()
    hosts = ngettext("%(n)s host %(held)s", "%(n)s hosts %(held)s", number) % {
        "n": formats.number(number),
        "held": held,
    }
    return f"{said}; {hosts}"


def _queue(page: OverviewPage) -> str:
    """Return the numbers of documents that wait and that are in progress, and the number of hosts by cause."""
    crawl = page.verdict
    said = _("%(waiting)s waiting, %(active)s in progress.") % {
        "waiting": formats.number(page.totals.pending),
        "active": formats.number(page.totals.active),
    }
    hosts = [(number, verdicts.cause_in_brief(cause)) for cause, number in (crawl.hosts or {}).items()]
    if crawl.failing_hosts:
        hosts.insert(0, (crawl.failing_hosts, _("failing")))
    if not hosts:
        return said
    listed = ", ".join(f"{formats.number(number)} {brief}" for number, brief in hosts)
    return f"{said} {_('Hosts: %(hosts)s.') % {'hosts': listed}}"
