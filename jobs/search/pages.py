"""The search page."""

from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from jobs.queries.documents.search import BadQuery
from jobs.queries.documents.search_lag import longest_lag, read_search_lag
from jobs.search.all_partitions import FoundEverywhere
from jobs.search.reading import MAY_SEARCH_AS, search_as, search_for
from jobs.ui import document_rows
from jobs.ui.job_rows import search_lag
from jobs.ui.pages import page
from jobs.ui.partitions_views import silent_partitions
from nodes.database.clock import read_clock
from nodes.errors import Invalid, TooSlow
from nodes.web.pages import user_with_permission

_HITS_A_PAGE: Final = 20


@page
@require_safe
def search(request: HttpRequest) -> HttpResponse:
    """Show the matches that the user may see. An administrator can see the matches of another user instead."""
    query, other = request.GET.get("q", ""), request.GET.get("as_user", "").strip()
    found, problem = FoundEverywhere(), ""
    try:
        found = _search(request, query, other)
    except (BadQuery, TooSlow) as refused:
        problem = str(refused)
    except Invalid as invalid:
        problem = " ".join(sentence for sentences in invalid.problems.values() for sentence in sentences)
    user: Any = request.user
    now = read_clock()
    as_user = {"as_user": other} if other else {}
    context = {
        "query": query,
        "as_user": other,
        "may_search_as": user.has_perm(MAY_SEARCH_AS),
        "problem": problem,
        "hits": [document_rows.hit_row(hit, now=now) for hit in found.page.hits],
        "found": document_rows.found_in_words(found.page, is_part=bool(found.silent)),
        "silent": silent_partitions(found.silent, now=now),
        "lag": search_lag(longest_lag([found.behind_since, read_search_lag()]), now=now),
        "next_query": urlencode({"q": query, **as_user, "after": found.page.next}) if found.page.next else "",
    }
    return render(request, "ui/search.html", context)


def _search(request: HttpRequest, query: str, other: str) -> FoundEverywhere:
    after = request.GET.get("after") or None
    user: Any = request.user
    if other:
        made_by = user_with_permission(request, MAY_SEARCH_AS)
        return search_as(other, query, limit=_HITS_A_PAGE, after=after, made_by=made_by)
    return search_for(user.get_username(), query, limit=_HITS_A_PAGE, after=after)
