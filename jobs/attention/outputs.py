"""JSON lines files that lost lines."""

import datetime as dt
from typing import Final

from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.attention.lines import SHOWN, AttentionLine
from jobs.models import LostLines
from nodes.web.formats import size

_KIND: Final = "lines_lost"


def sentence_of_lost_lines(lost: LostLines) -> str:
    """Return a sentence on the loss in the file of `lost.output` on one machine, and what to do."""
    return _(
        "Output %(output)s lost lines on %(machine)s: its file had %(was)s and now has %(is)s. “Re-index all” writes them again."
    ) % {
        "output": lost.output.name,
        "machine": lost.machine,
        "was": size(lost.was_bytes),
        "is": size(lost.is_bytes),
    }


def outputs_that_lost_lines(_now: dt.datetime) -> list[AttentionLine]:
    """Return a line for each file that was deleted or truncated on a machine."""
    found = list(LostLines.objects.select_related("output").order_by("output_id", "machine")[: SHOWN + 1])
    lines = [
        AttentionLine(
            kind=_KIND,
            key=str(lost.pk),
            subject=lost.output.name,
            sentence=sentence_of_lost_lines(lost),
            since=lost.noticed_at,
            link=reverse("admin:jobs_outputconnection_change", args=[lost.output_id]),
        )
        for lost in found[:SHOWN]
    ]
    if len(found) > SHOWN:
        lines.append(
            AttentionLine(
                kind=_KIND,
                key="more",
                subject=_("Outputs"),
                sentence=_("%(n)d more files of outputs lost lines.") % {"n": LostLines.objects.count() - SHOWN},
                since=None,
                link=reverse("admin:jobs_outputconnection_changelist"),
            )
        )
    return lines
