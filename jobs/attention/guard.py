"""Jobs whose removals wait for approval."""

import datetime as dt
from typing import Final

from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.attention.lines import SHOWN, AttentionLine
from jobs.lifecycle.job import Guard
from jobs.models import Job

_KIND: Final = "removals_wait"


def removals_that_wait(_now: dt.datetime) -> list[AttentionLine]:
    """Return a line for each job whose delete guard waits for approval; an index finds these jobs."""
    waiting = Job.objects.filter(guard=Guard.WAITING).order_by("pk")
    jobs = list(waiting.values_list("pk", "name", "reason", "ended_at")[: SHOWN + 1])
    lines = [
        AttentionLine(
            kind=_KIND,
            key=str(pk),
            subject=name,
            sentence=_(
                "The clean-up of job %(name)s waits for approval: %(why)s Check the removals, then allow or refuse them."
            )
            % {"name": name, "why": f"{reason.rstrip('.')}."},
            since=ended_at,
            link=reverse("job-removals", args=[pk]),
        )
        for pk, name, reason, ended_at in jobs[:SHOWN]
    ]
    if len(jobs) > SHOWN:
        more = waiting.count() - SHOWN
        lines.append(
            AttentionLine(
                kind=_KIND,
                key="more",
                subject=_("Jobs"),
                sentence=_("The clean-ups of %(n)d more jobs wait for approval.") % {"n": more},
                since=None,
                link=reverse("overview"),
            )
        )
    return lines
