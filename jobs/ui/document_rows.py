"""The texts about documents: a row of the list, the page of one document, and a search result."""

import datetime as dt
from collections.abc import Mapping

from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.lifecycle.document import Stage
from jobs.models import Outcome
from jobs.partitions.this_partition import address_in
from jobs.queries.documents.history import HistoryLine
from jobs.queries.documents.lists import DocumentLine
from jobs.queries.documents.outputs import HeldBy, PartLine
from jobs.queries.documents.search import Hit, SearchPage
from jobs.queries.documents.story import DocumentStory, LinkLine
from jobs.verdicts.results import class_of
from jobs.words.codes import explain_code
from jobs.words.documents import document_state
from jobs.words.explanations import explain_document
from nodes.web import formats

# Names of the metadata that a search result shows, and the largest number of values of each name.
_SHOWN_OF_HITS = ("author", "published", "categories")
_MOST_SHOWN = 3
_PARTS_SHOWN = 100


def document_row(line: DocumentLine, *, partition: str = "", now: dt.datetime) -> Mapping[str, object]:
    """Return the cells of a document. `partition` is the partition that has it, "" for this one."""
    state, tone = document_state(
        stage=line.stage, outcome=line.outcome, code=line.code, is_of_this_run=line.is_of_this_run
    )
    return {
        "identifier": line.identifier,
        "address": reverse("document", args=[line.job_id, line.hash]),
        "job": line.job_name,
        "job_address": reverse("job", args=[line.job_id]),
        "host": line.host,
        "state": state,
        "tone": tone,
        "code": line.code,
        "meaning": explain_code(line.code) if line.code else "",
        "depth": formats.number(line.depth),
        "fetched": formats.age(line.fetched_at, now=now) if line.fetched_at else "",
        "due": _due(line, now=now),
        "response": formats.milliseconds(line.response_ms) if line.response_ms is not None else "",
        "key": f"{line.hash.hex}.{line.job_id}",
        "partition": partition,
    }


def _due(line: DocumentLine, *, now: dt.datetime) -> str:
    """Return the time at which the document is due next, in words; '' if it is unknown."""
    if line.check_time is not None:
        return formats.time_until(line.check_time, now=now)
    return _("now") if line.stage == Stage.PENDING and line.is_of_this_run else ""


def story_screen(story: DocumentStory, *, now: dt.datetime) -> Mapping[str, object]:
    item = story.item
    state, tone = document_state(
        stage=Stage(item.stage),
        outcome=Outcome(item.outcome),
        code=item.result_code,
        is_of_this_run=story.is_of_this_run,
    )
    verdict, *sentences = explain_document(story, now=now)
    return {
        "identifier": item.identifier,
        # A crawled identifier is untrusted: only a web address becomes a link.
        "link": item.identifier if item.identifier.startswith(("http://", "https://")) else "",
        "state": state,
        "tone": tone,
        "verdict": verdict,
        "is_held": story.is_held,
        "sentences": sentences,
        "job": story.job.name,
        "job_address": reverse("job", args=[story.job.pk]),
        "versions_address": _where_it_is("document-versions", story),
        "archive_address": _where_it_is("document-archive", story),
        "facts": _facts(story, now=now),
        "fetched": formats.moment(item.fetched_at, now=now),
        "held_by": [_held_row(held, now=now) for held in story.held_by],
        "parts": [_part_row(part, now=now) for part in story.parts[:_PARTS_SHOWN]],
        "parts_in_all": formats.number(len(story.parts)) if story.parts else "",
        "parts_hidden": formats.number(len(story.parts) - _PARTS_SHOWN) if len(story.parts) > _PARTS_SHOWN else "",
        "links": [_link_row(link, job_id=story.job.pk) for link in story.links],
        "links_in_all": formats.number(story.links_in_all),
        "links_hidden": formats.number(story.links_in_all - len(story.links))
        if story.links_in_all > len(story.links)
        else "",
        "is_redirect": story.is_redirect,
        "history": [_history_row(line, now=now) for line in story.history],
    }


def _history_row(line: HistoryLine, *, now: dt.datetime) -> dict[str, str]:
    return {
        "at": formats.moment(line.at, now=now),
        "activity": f"{line.activity} ({line.output})" if line.output else line.activity,
        "code": line.code,
        "tone": str(class_of(line.code)),
        "meaning": line.description or explain_code(line.code),
        "bytes": "" if line.bytes is None else formats.size(line.bytes),
        "seconds": "" if line.seconds is None else formats.milliseconds(round(line.seconds * 1000)),
        "node": line.node,
    }


def _part_row(part: PartLine, *, now: dt.datetime) -> dict[str, str]:
    return {
        "part": part.part,
        "outputs": ", ".join(part.outputs),
        "since": formats.moment(part.indexed_at, now=now),
    }


def _facts(story: DocumentStory, *, now: dt.datetime) -> list[tuple[str, str]]:
    item = story.item
    facts = [
        (_("ManifoldCF's name"), item.manifoldcf_status or formats.UNKNOWN),
        (_("Run"), _("%(run)d (the job is in run %(present)d)") % {"run": item.run_no, "present": story.job.run_no}),
        (_("Result code"), item.result_code or formats.UNKNOWN),
        (_("Last fetched"), formats.moment(item.fetched_at, now=now)),
        (_("Links from a seed"), formats.number(item.depth)),
        (_("Redirects on the path"), formats.number(item.redirects)),
        *((_("Hops of type “%(type)s”") % {"type": name}, _hops(story, name)) for name in story.hops),
        *(
            (_("Carry-down data “%(name)s”") % {"name": name}, ", ".join(values))
            for name, values in story.carried.items()
        ),
        (_("Host"), story.host.name),
        (_("Version"), item.version or formats.UNKNOWN),
        (_("Validators"), item.validators or formats.UNKNOWN),
        (_("Key"), item.hash.hex),
    ]
    return [(name, value) for name, value in facts if value != formats.UNKNOWN]


def _hops(story: DocumentStory, link_type: str) -> str:
    count, most = story.hops[link_type], formats.number(story.job.hop_limits[link_type])
    if count is None:
        return _("more than %(most)s") % {"most": most}
    return _("%(n)s of at most %(most)s") % {"n": formats.number(count), "most": most}


def _refused(held: HeldBy) -> str:
    """
    Return the reason why a stage of the pipeline does not pass the document on to the output; '' if none refuses it.
    """
    if not held.code:
        return ""
    if not held.stage:
        return f"{held.code}: {held.refused}"
    return _("Stage “%(stage)s”: %(reason)s (%(code)s)") % {
        "stage": held.stage,
        "reason": held.refused,
        "code": held.code,
    }


def _held_row(held: HeldBy, *, now: dt.datetime) -> Mapping[str, str]:
    keeps_nothing = held.connector == "null"
    return {
        "output": held.output,
        "says": _("stores nothing") if keeps_nothing else _("indexed") if held.version else _("not indexed"),
        "tone": "indexed" if held.version else "quiet",
        "since": formats.age(held.indexed_at, now=now) if held.indexed_at else "",
        "version": held.version,
        "refused": _refused(held),
    }


def _where_it_is(page: str, story: DocumentStory) -> str:
    """Return the address of the page about a document, on the pages of the partition that has the document."""
    if not story.partition:
        return reverse(page, args=[story.job.pk, story.item.hash])
    return address_in(story.partition, reverse(page, args=[story.job_there, story.item.hash]))


def _link_row(link: LinkLine, *, job_id: int) -> Mapping[str, str]:
    if link.stage is None or link.outcome is None:
        return {"identifier": "", "address": "", "state": _("unknown to the job"), "tone": "quiet", "code": ""}
    state, tone = document_state(
        stage=link.stage, outcome=link.outcome, code=link.code, is_of_this_run=link.is_of_this_run
    )
    return {
        "identifier": link.identifier,
        "address": reverse("document", args=[job_id, link.hash]),
        "state": state,
        "tone": tone,
        "code": link.code,
    }


# --- Search --------------------------------------------------------------------------------------


def hit_row(hit: Hit, *, now: dt.datetime) -> Mapping[str, object]:
    """
    Return the row of a found document. Title and snippet stay lists of segments, because the template escapes each
    segment and marks matches.
    """
    return {
        "title": hit.title,
        "partition": hit.partition,
        "snippet": hit.snippet,
        "url": hit.url,
        "link": hit.url if hit.url.startswith(("http://", "https://")) else "",
        "fetched": formats.age(hit.fetched_at, now=now),
        "kind": hit.content_type,
        "facts": [
            f"{name}: {', '.join(hit.metadata[name][:_MOST_SHOWN])}" for name in _SHOWN_OF_HITS if name in hit.metadata
        ],
        "documents_address": f"{reverse('documents')}?{urlencode({'address': hit.url})}",
    }


def found_in_words(page: SearchPage, *, is_part: bool) -> str:
    """
    Return the number of results, in words. If it `is_part`, a partition did not answer, so the words say "at least".
    """
    if page.has_more:
        return _("More than %(n)s documents") % {"n": formats.number(page.total)}
    says = ngettext("%(n)s document", "%(n)s documents", page.total) % {"n": formats.number(page.total)}
    return _("at least %(n)s") % {"n": says} if is_part else says
