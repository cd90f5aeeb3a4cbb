"""The page of a document's kept versions: their list, and one version with its difference from an earlier one."""

import datetime as dt
import uuid
from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from jobs.models import DocumentVersion, QueueItem
from jobs.queries.documents.differences import Difference, Kind, Line
from jobs.queries.documents.versions import ComparedVersion, versions_of
from jobs.search.versioned import read_version_for
from jobs.ui.pages import page
from jobs.verdicts.results import class_of
from nodes.database.clock import read_clock
from nodes.errors import Unknown
from nodes.web import formats
from nodes.web.translated_words import missing

# Largest number of characters of a text that the page shows.
_TEXT_SHOWN: Final = 20_000
_MARKS: Final = {Kind.REMOVED: "-", Kind.ADDED: "+"}


@page
@require_safe
def versions(request: HttpRequest, job_id: int, document_hash: uuid.UUID) -> HttpResponse:
    item = QueueItem.objects.select_related("job").filter(job_id=job_id, hash=document_hash).first()
    if item is None:
        raise Http404(_("Job %(id)d has no document with this key.") % {"id": job_id})
    now, kept = read_clock(), list(versions_of(job_id, document_hash))
    context: dict[str, Any] = {
        "item": item,
        "keeps": item.job.kept_versions,
        "rows": [_row(version, now=now) for version in kept],
    }
    if not kept:
        return render(request, "ui/document_versions.html", context)
    try:
        compared = read_version_for(
            request.user.get_username(),
            job_id,
            document_hash,
            number=_number(request, "version"),
            earlier=_number(request, "earlier"),
        )
    except PermissionDenied as denied:
        return render(request, "ui/document_versions.html", {**context, "problem": str(denied)}, status=403)
    except Unknown as unknown:
        raise Http404(missing(unknown)) from unknown
    return render(request, "ui/document_versions.html", {**context, "shown": _screen(compared, now=now)})


def _number(request: HttpRequest, name: str) -> int | None:
    """Return a number of the address; None if it is absent."""
    given = request.GET.get(name, "")
    if not given:
        return None
    if not (given.isascii() and given.isdigit() and len(given) < 10):
        raise Http404(_("“%(given)s” is not the number of a version.") % {"given": given[:20]})
    return int(given)


def _row(version: DocumentVersion, *, now: dt.datetime) -> dict[str, object]:
    return {
        "number": version.number,
        "fetched": formats.moment(version.fetched_at, now=now),
        "run": version.run_no,
        "code": version.code,
        "tone": str(class_of(version.code)),
        "length": formats.number(version.length),
    }


def _screen(compared: ComparedVersion, *, now: dt.datetime) -> dict[str, object]:
    version, difference = compared.version, compared.difference
    return {
        **_row(version, now=now),
        "earlier": compared.earlier.number if compared.earlier else None,
        "headers": version.headers,
        "summary": _summary(difference) if difference else "",
        "lines": [_line(line) for line in difference.lines] if difference else [],
        "is_partial": (difference is not None and difference.is_cut) or version.is_cut,
        "text": compared.text[:_TEXT_SHOWN],
        "has_more": len(compared.text) > _TEXT_SHOWN,
    }


def _summary(difference: Difference) -> str:
    if not difference.removed and not difference.added:
        return _("The texts are equal.")
    removed = ngettext("%(n)s line removed", "%(n)s lines removed", difference.removed)
    added = ngettext("%(n)s line added", "%(n)s lines added", difference.added)
    amounts = (removed, difference.removed), (added, difference.added)
    return ", ".join(words % {"n": formats.number(amount)} for words, amount in amounts)


def _line(line: Line) -> dict[str, str]:
    text = line.text
    if line.kind is Kind.LEFT_OUT:
        text = ngettext("%(n)s equal line", "%(n)s equal lines", line.amount) % {"n": formats.number(line.amount)}
    return {"kind": str(line.kind), "mark": _MARKS.get(line.kind, ""), "word": _word(line.kind), "text": text}


def _word(kind: Kind) -> str:
    """Return the word that screen readers say for a mark."""
    return _("added") if kind is Kind.ADDED else _("removed") if kind is Kind.REMOVED else ""
