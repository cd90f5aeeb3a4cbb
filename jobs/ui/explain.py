"""Why things are as they are, in sentences: result codes, ends of runs, the story of a document."""

import datetime as dt
from collections.abc import Mapping
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.code_words import explain_code
from jobs.lifecycle.document import CLAIMED, Stage
from jobs.lifecycle.job import Phase, RunEnd
from jobs.models import Outcome
from jobs.queries.documents import DocumentStory
from jobs.ui import bin_words, words

_ENDS: Final[Mapping[str, str | Promise]] = {
    RunEnd.FINISHED: gettext_lazy("finished"),
    RunEnd.HELD: gettext_lazy("finished reading, its removals wait for approval"),
    RunEnd.DOCUMENT_LIMIT: gettext_lazy("ended at its document limit"),
    RunEnd.ABORTED: gettext_lazy("aborted"),
    RunEnd.ERROR: gettext_lazy("ended in an error"),
}


def explain_end(run_end: str) -> str:
    """Return how a run ended, in words; '' while it has not."""
    return str(_ENDS.get(run_end, ""))


def tell_story(story: DocumentStory, *, now: dt.datetime) -> list[str]:
    """Return sentences that say why the document is, or is not, in the index; the answer comes first."""
    return [_verdict(story), *_what_happened(story, now=now), *_what_comes_next(story, now=now)]


def _verdict(story: DocumentStory) -> str:
    holders = [held.output for held in story.held_by if held.version]
    if holders:
        return _("It is in the index: %(outputs)s holds it.") % {"outputs": ", ".join(holders)}
    if story.held_by and all(held.connector == "null" for held in story.held_by):
        return _("It is in no index: the job's only output keeps nothing.")
    return _("It is not in the index.")


def _what_happened(story: DocumentStory, *, now: dt.datetime) -> list[str]:
    item = story.item
    said = []
    if item.fetched_at:
        said.append(_("It was last fetched %(age)s.") % {"age": words.age(item.fetched_at, now=now)})
    elif item.stage == Stage.PENDING:
        said.append(_("It has not been fetched yet."))
    if item.stage == Stage.DONE and item.result_code:
        said.append(_outcome_sentence(story))
    if item.stage == Stage.HOPCOUNT_REMOVED:
        said.append(_("It is farther away from the seeds than the job allows: it is read when a nearer way turns up."))
    if item.stage == Stage.DONE and item.outcome == Outcome.FAILED and story.is_held:
        said.append(_("A failure like this removes nothing: the index keeps the last version that was read."))
    if item.losses:
        said.append(_("Workers were lost while they held it: %(n)d times.") % {"n": item.losses})
    return said


def _outcome_sentence(story: DocumentStory) -> str:
    code = story.item.result_code
    explained = explain_code(code).rstrip(".")
    # A connector of others may have codes that nobody explained here.
    facts = {"code": f"{code}: {explained}" if explained else code}
    match story.item.outcome:
        case Outcome.INDEXED:
            return _("It was indexed (%(code)s).") % facts
        case Outcome.UNCHANGED:
            return _("It is unchanged (%(code)s).") % facts
        case Outcome.EXCLUDED:
            return _("It was left out (%(code)s).") % facts
        case _:
            return _("It failed (%(code)s).") % facts


def _what_comes_next(story: DocumentStory, *, now: dt.datetime) -> list[str]:
    item, job = story.item, story.job
    if item.stage in CLAIMED:
        worker = story.worker or _("no worker yet")
        return [_("It is handed out just now, to %(worker)s.") % {"worker": worker}]
    if not story.is_of_this_run:
        return [
            _("Nothing has named it in run %(run)d so far. If the run finishes without, it is removed.")
            % {"run": job.run_no}
            if job.phase in {Phase.ACTIVE, Phase.SHUTTING_DOWN, Phase.STARTING_UP}
            else _("Run %(run)d did not come to it.") % {"run": job.run_no}
        ]
    if item.stage != Stage.PENDING:
        return []
    said = []
    if item.failures:
        since = words.age(item.failing_since, now=now) if item.failing_since else ""
        said.append(_("%(n)d attempts failed, the first %(since)s.") % {"n": item.failures, "since": since})
    if item.check_time:
        said.append(_("It is tried again %(when)s.") % {"when": words.time_until(item.check_time, now=now)})
    said.append(_why_it_waits(story, now=now))
    return said


def _why_it_waits(story: DocumentStory, *, now: dt.datetime) -> str:
    job, host = story.job, story.host
    if job.phase != Phase.ACTIVE or not job.state.may_be_stuffed:
        return _("It waits, because the job is “%(status)s”.") % {"status": job.status}
    if story.gate is not None:
        return _("It waits until “%(gate)s” opens, which %(worker)s shut %(age)s.") % {
            "gate": story.gate.name,
            "worker": story.gate.node.name,
            "age": words.age(story.gate.shut_at, now=now),
        }
    budget = getattr(job, "budget", None)
    if budget is not None and budget.admitted >= budget.most and _is_not_admitted(story):
        return _("It waits, because the run has used up its %(most)s documents.") % {"most": words.number(budget.most)}
    return _("It waits for its turn at %(host)s. What limits that: %(why)s") % {
        "host": host.name,
        "why": bin_words.sentence(host, now=now),
    }


def _is_not_admitted(story: DocumentStory) -> bool:
    """Whether the document has not been admitted in this run."""
    return story.item.admitted_run != story.job.run_no
