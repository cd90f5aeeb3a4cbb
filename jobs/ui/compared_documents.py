"""The texts of the page that compares two runs: the documents that differ."""

import datetime as dt
from typing import Any, Final

from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.lifecycle.document import Stage
from jobs.lifecycle.endings import Kind
from jobs.models import Outcome
from jobs.queries.jobs.run_differences import Flip, Result
from jobs.queries.jobs.run_documents import (
    DOCUMENTS_OF_HOST,
    ComparedDocuments,
    Differing,
    Ended,
    Estimate,
    Pair,
    SlowerHost,
)
from jobs.ui.partitions_views import silent_partitions
from jobs.words.documents import document_state
from nodes.web import formats
from nodes.web.screens import Record

# The name and the meaning of each kind of difference.
_KINDS: Final = {
    Kind.NEW: (gettext_lazy("New documents"), gettext_lazy("not known at the end of the earlier run")),
    Kind.GONE: (gettext_lazy("Vanished documents"), gettext_lazy("no longer known at the end of the later run")),
    Kind.CHANGED: (
        gettext_lazy("Changed documents"),
        gettext_lazy("read in both runs, with other content or under another configuration"),
    ),
    Kind.WORSE: (
        gettext_lazy("Worse results"),
        gettext_lazy("read in the earlier run, failed or excluded in the later run"),
    ),
    Kind.BETTER: (
        gettext_lazy("Better results"),
        gettext_lazy("failed or excluded in the earlier run, read in the later run"),
    ),
    Kind.OTHER: (
        gettext_lazy("Other results"),
        gettext_lazy("failed or excluded in both runs, with another code"),
    ),
}


def compared_documents(found: ComparedDocuments, *, job_id: int, now: dt.datetime) -> dict[str, Any]:
    """Return the documents that differ, and slower hosts, as cells."""
    return {
        "is_sample": found.is_sample,
        "has_ranges": not found.are_counted or found.are_limits,
        "says": _sentence_of_accuracy(found),
        "silent": silent_partitions(found.silent, now=now),
        "kinds": [_kind(one, found, job_id=job_id) for one in found.kinds],
        "slower": [_host(one) for one in found.slower],
        "slower_least": DOCUMENTS_OF_HOST,
    }


def _sentence_of_accuracy(found: ComparedDocuments) -> str:
    compared = formats.number(found.compared)
    if found.is_exact:
        return _("All documents of both runs were compared: %(n)s. These numbers are exact.") % {"n": compared}
    if not found.is_sample:
        return _("All documents of the partitions that answered were compared: %(n)s.") % {"n": compared}
    if found.are_limits:
        return _(
            "A sample was compared: %(n)s of about %(all)s documents, the same ones in both runs. Each run "
            "after the earlier one counted the documents whose result differs from the run before. The sums "
            "are upper limits, because a document may differ more than once."
        ) % {"n": compared, "all": _about(found.of_all)}
    if found.are_counted:
        return _(
            "The later run counted all documents whose result differs from the run before. These numbers are "
            "exact. Slower hosts are found in a sample: %(n)s of about %(all)s documents, the same ones in "
            "both runs."
        ) % {"n": compared, "all": _about(found.of_all)}
    return _(
        "A sample was compared: %(n)s of about %(all)s documents, the same ones in both runs. "
        "Numbers of all documents are estimates, with a range that is right in 95 of 100 cases."
    ) % {"n": compared, "all": _about(found.of_all)}


def _kind(one: Differing, found: ComparedDocuments, *, job_id: int) -> Record:
    name, meaning = _KINDS[one.kind]
    is_counted = found.are_counted and not found.are_limits
    of_all = formats.number(one.of_all.number) if is_counted else ""
    if not is_counted and one.of_all.number:
        of_all = _("about %(n)s") % {"n": _about(one.of_all.number)}
    return {
        "key": one.kind.value,
        "name": name,
        "meaning": meaning,
        "count": formats.number(one.count),
        "of_all": of_all,
        "range": "" if is_counted else _range(one.of_all),
        "number": of_all if found.is_sample else formats.number(one.count),
        "flips": [_flip(flip) for flip in one.flips],
        "examples": [_document(pair, job_id=job_id) for pair in one.examples],
        "more": _("The list has %(n)s of them.") % {"n": len(one.examples)}
        if max(one.count, one.of_all.least) > len(one.examples)
        else "",
    }


def _flip(flip: Flip) -> Record:
    return {
        "host": flip.host or _("all hosts"),
        "number": formats.number(flip.number),
        "earlier": _result(_as_ended(flip.earlier)),
        "later": _result(_as_ended(flip.later)),
    }


def _as_ended(result: Result | None) -> Ended | None:
    return Ended("", result.outcome, result.code, 0, None) if result else None


def _range(of_all: Estimate) -> str:
    if not of_all.least:
        return _("at most %(n)s") % {"n": _about(of_all.most)}
    return _("%(least)s to %(most)s") % {"least": _about(of_all.least), "most": _about(of_all.most)}


def _about(number: int) -> str:
    """Return a number with two significant digits."""
    return formats.number(round(number, 2 - len(str(number))))


def _document(pair: Pair, *, job_id: int) -> Record:
    # A document that no longer exists has no page of its own.
    address = (
        reverse("document", args=[job_id, pair.hash])
        if pair.later
        else f"{reverse('explain')}?{urlencode({'url': pair.identifier})}"
    )
    return {
        "key": pair.hash.hex,
        "identifier": pair.identifier,
        "address": address,
        "earlier": _result(pair.earlier),
        "later": _result(pair.later),
    }


def _result(ended: Ended | None) -> Record:
    if ended is None:
        return {"state": _("not known"), "tone": "", "code": ""}
    stage = Stage.DONE if ended.outcome != Outcome.NONE else Stage.PENDING
    state, tone = document_state(stage=stage, outcome=ended.outcome, code=ended.code, is_of_this_run=True)
    return {"state": state, "tone": tone, "code": ended.code}


def _host(host: SlowerHost) -> Record:
    return {
        "name": host.name,
        "address": reverse("host", args=[host.id]) if host.id else "",
        "documents": formats.number(host.documents),
        "earlier": formats.milliseconds(host.earlier_ms),
        "later": formats.milliseconds(host.later_ms),
    }
