"""JSON lines files that lost lines, and outputs whose last verification found documents that differ."""

import datetime as dt
from typing import Final

from django.db.models import F, Max
from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.attention.lines import SHOWN, AttentionLine, Severity
from jobs.models import LostLines, OutputVerification
from nodes.web.formats import number, share, size

_KIND: Final = "lines_lost"
_SYNC_KIND: Final = "output_out_of_sync"


def sentence_of_lost_lines(lost: LostLines) -> str:
    """Return a sentence about the lines that the file of `lost.output` lost on one machine, with the next step."""
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
        sentence = _("%(n)d more files of outputs lost lines.") % {"n": LostLines.objects.count() - SHOWN}
        lines.append(_line_of_others(_KIND, sentence, Severity.CRITICAL))
    return lines


def sentence_of_verification(found: OutputVerification) -> str:
    """Return a sentence about the documents that differ in the output of a verification, with the next step."""
    in_sync = share(found.documents - found.faults, found.documents)
    counted = _("%(share)s of output %(output)s is in sync: %(missing)s missing, %(ghost)s ghost, %(stale)s stale.") % {
        "share": in_sync,
        "output": found.output.name,
        "missing": number(found.missing),
        "ghost": number(found.ghost),
        "stale": number(found.stale),
    }
    return f"{counted} {found.question or _('Verify it with the option “Repair”.')}"


def outputs_out_of_sync(_now: dt.datetime) -> list[AttentionLine]:
    """Return a line for each output whose last verification found more documents than it repaired."""
    ended = OutputVerification.objects.filter(ended_at__isnull=False, refused="")
    last = ended.order_by().values("output_id").annotate(last=Max("pk")).values("last")
    differing = (
        OutputVerification.objects.filter(pk__in=last)
        .filter(repaired__lt=F("missing") + F("ghost") + F("stale"))
        .select_related("output")
        .order_by("output__name")
    )
    found = list(differing[: SHOWN + 1])
    lines = [
        AttentionLine(
            kind=_SYNC_KIND,
            key=str(one.output_id),
            subject=one.output.name,
            sentence=sentence_of_verification(one),
            since=one.ended_at,
            link=reverse("output-verification", args=[one.output_id]),
            severity=Severity.WARNING,
        )
        for one in found[:SHOWN]
    ]
    if len(found) > SHOWN:
        sentence = _("%(n)d more outputs are out of sync.") % {"n": differing.count() - SHOWN}
        lines.append(_line_of_others(_SYNC_KIND, sentence, Severity.WARNING))
    return lines


def _line_of_others(kind: str, sentence: str, severity: Severity) -> AttentionLine:
    """Return one line with the number of all further outputs or files of a kind."""
    return AttentionLine(
        kind=kind,
        key="more",
        subject=_("Outputs"),
        sentence=sentence,
        since=None,
        link=reverse("admin:jobs_outputconnection_changelist"),
        severity=severity,
    )
