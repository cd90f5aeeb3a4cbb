"""The page of a job's removals: what waits for approval, and why."""

from typing import Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from jobs import words
from jobs.queries.clock import read_clock
from jobs.queries.removals import Question, read_removals
from jobs.ui.pages import page

_STATES: Final = {
    "gone": gettext_lazy("is gone"),
    "empty": gettext_lazy("came without links"),
    "redirects": gettext_lazy("redirects elsewhere"),
    "changed": gettext_lazy("names other documents now"),
}


@page
@require_safe
def removals(request: HttpRequest, job_id: int) -> HttpResponse:
    found = read_removals(job_id)
    if found is None:
        raise Http404(_("There is no job %(id)d.") % {"id": job_id})
    context = {
        "job": found.job,
        "question": found.question,
        "asked": _asked(found.question) if found.question else {},
        "next": reverse("job", args=[job_id]),
    }
    return render(request, "ui/removals.html", context)


def _asked(question: Question) -> dict[str, object]:
    """The question in words."""
    now = read_clock()
    return {
        "at": words.moment(question.asked_at, now=now),
        "leaving": words.number(question.leaving),
        "every": words.number(question.leaving + question.staying),
        "share": words.share(question.leaving, question.leaving + question.staying),
        "parents": [
            {**parent, "became": _STATES.get(parent["state"], parent["state"])}
            for parent in (question.parents or question.seeds)
        ],
    }
