"""Sentences that explain the end of a run, the state of a document, and the outputs that hold it."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobs.lifecycle.document import CLAIMED, Stage
from jobs.lifecycle.job import Phase, RunEnd
from jobs.models import Outcome
from jobs.queries.documents.outputs import HeldBy
from jobs.queries.documents.story import DocumentStory
from jobs.verdicts.causes import Verdict, is_of_job
from jobs.words import verdicts
from jobs.words.codes import explain_code
from nodes.web import formats

_ENDS: Final[Mapping[str, str | Promise]] = {
    RunEnd.FINISHED: gettext_lazy("finished"),
    RunEnd.HELD: gettext_lazy("finished reading (removals wait for approval)"),
    RunEnd.DOCUMENT_LIMIT: gettext_lazy("reached its document limit"),
    RunEnd.ABORTED: gettext_lazy("aborted"),
    RunEnd.ERROR: gettext_lazy("failed"),
}


def explain_end(run_end: str) -> str:
    """Return the end of a run in words; '' before the end."""
    return str(_ENDS.get(run_end, ""))


def explain_document(story: DocumentStory, *, now: dt.datetime) -> list[str]:
    """
    Return sentences about a document. The first says whether the document is in the index, and the others say why.
    """
    return [explain_holding(story.held_by), *_what_happened(story, now=now), *_what_comes_next(story, now=now)]


def explain_holding(held_by: Sequence[HeldBy]) -> str:
    """Return a sentence about the outputs that hold a document."""
    holders = [held.output for held in held_by if held.version]
    if holders:
        return _("The document is in the index of %(outputs)s.") % {"outputs": ", ".join(holders)}
    if held_by and all(held.connector == "null" for held in held_by):
        return _("The document is in no index, because the job's only output stores nothing.")
    return _("The document is not in the index.")


def _what_happened(story: DocumentStory, *, now: dt.datetime) -> list[str]:
    item = story.item
    said = []
    if item.fetched_at:
        said.append(_("Last fetched %(age)s.") % {"age": formats.age(item.fetched_at, now=now)})
    elif item.stage == Stage.PENDING:
        said.append(_("Not fetched yet."))
    if item.stage == Stage.DONE and item.result_code:
        said.append(_outcome_sentence(story))
    if item.stage == Stage.HOPCOUNT_REMOVED:
        said.append(_("The document is beyond the job's hop limit. The job reads it if it finds a shorter path to it."))
    if item.stage == Stage.DONE and item.outcome == Outcome.FAILED and story.is_held:
        said.append(_("This failure removes nothing. The index keeps the last version that was read."))
    if item.losses:
        said.append(_("Workers that failed while they held the document: %(n)d.") % {"n": item.losses})
    return said


def _outcome_sentence(story: DocumentStory) -> str:
    code = story.item.result_code
    explained = explain_code(code).rstrip(".")
    # A connector of a plugin may have codes that have no explanation here.
    facts = {"code": f"{code}: {explained}" if explained else code}
    match story.item.outcome:
        case Outcome.INDEXED:
            return _("The document was indexed (%(code)s).") % facts
        case Outcome.UNCHANGED:
            return _("The document is unchanged (%(code)s).") % facts
        case Outcome.EXCLUDED:
            return _("The document was excluded (%(code)s).") % facts
        case _:
            return _("The document failed (%(code)s).") % facts


def _what_comes_next(story: DocumentStory, *, now: dt.datetime) -> list[str]:
    item, job = story.item, story.job
    if item.stage in CLAIMED:
        return [
            _("Worker %(worker)s has claimed the document.") % {"worker": story.worker}
            if story.worker
            else _("The document is in a batch that no worker has taken yet.")
        ]
    if not story.is_of_this_run and story.verdict is None:
        return [
            _("Run %(run)d has found no link to this document yet. If it finds none, the job removes the document.")
            % {"run": job.run_no}
            if job.phase in {Phase.ACTIVE, Phase.SHUTTING_DOWN, Phase.STARTING_UP}
            else _("Run %(run)d did not reach the document.") % {"run": job.run_no}
        ]
    if item.stage != Stage.PENDING and story.verdict is None:
        return []
    said = []
    if item.failures:
        since = formats.age(item.failing_since, now=now) if item.failing_since else ""
        said.append(
            ngettext("%(n)d attempt failed, %(since)s.", "%(n)d attempts failed, the first %(since)s.", item.failures)
            % {"n": item.failures, "since": since}
        )
    if story.verdict is not None:
        said.append(_why_it_waits(story, story.verdict, now=now))
    return said


def _why_it_waits(story: DocumentStory, verdict: Verdict, *, now: dt.datetime) -> str:
    facts = {
        "why": verdicts.sentence(verdict, now=now, line=story.host),
        "remedy": verdicts.remedy(verdict),
        "host": story.host.name,
    }
    said = (
        _("The document waits. %(why)s") if is_of_job(verdict.cause) else _("The document waits for %(host)s. %(why)s")
    )
    return (f"{said} %(remedy)s" if facts["remedy"] else said) % facts
