"""The page of authorities: their states, a check of all, tokens of services, and the access of a user."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from jobs.authorities import verbs
from jobs.authorities.contract import read_question
from jobs.authorities.models import AuthorityConnection, MappingConnection, ServiceToken
from jobs.authorities.serializers import access_shown
from jobs.authorities.service.plan import AuthorityFacts, MapperFacts
from jobs.authorities.threaded_service import authority_service
from jobs.connectors.authority.kind import Checked, Status
from nodes.database.clock import read_clock
from nodes.errors import Invalid
from nodes.web import formats
from nodes.web.pages import page_for, user_with_permission

_page: Final = page_for("authorities.view_authoritygroup")
_TONES: Final = {
    str(Status.AUTHORIZED): "indexed",
    str(Status.USER_NOT_FOUND): "waiting",
    str(Status.UNAUTHORIZED): "waiting",
    str(Status.UNREACHABLE): "failed",
}


@_page
@require_safe
def authorities(request: HttpRequest) -> HttpResponse:
    return render(request, "authorities/authorities.html", _context(request))


@_page
@require_POST
def check(request: HttpRequest) -> HttpResponse:
    """Check all connections now, and show the results on the page."""
    user_with_permission(request, verbs.MAY_ASK)
    return render(request, "authorities/authorities.html", _context(request, checked=authority_service().check_all()))


@_page
@require_safe
def ask(request: HttpRequest) -> HttpResponse:
    """Show the access tokens of a user: the answer of each authority, with the reason."""
    user_with_permission(request, verbs.MAY_ASK)
    user, domain = request.GET.get("username", ""), request.GET.get("domain", "")
    context: dict[str, Any] = {"username": user, "domain": domain, "problems": [], "answers": None}
    if "username" in request.GET:
        try:
            question = read_question({"username": user, "domain": domain}.items())
        except Invalid as invalid:
            context["problems"] = [sentence for each in invalid.problems.values() for sentence in each]
        else:
            context["answers"] = [
                {**row, "tone": _TONES[row["status"]], "milliseconds": formats.number(round(row["seconds"] * 1000))}
                for row in access_shown(authority_service().ask(question.users))
            ]
    return render(request, "authorities/ask.html", context)


@_page
@require_POST
def new_token(request: HttpRequest) -> HttpResponse:
    """Create a token of a service, and show its text, which no later page shows."""
    made_by = user_with_permission(request, "authorities.add_servicetoken")
    days = request.POST.get("days", "").strip()
    try:
        given = int(days) if days.isascii() and days.isdecimal() and len(days) < 9 else days or None
        _token, text = verbs.create_token(name=request.POST.get("name", ""), days=given, made_by=made_by)
    except Invalid as invalid:
        return render(request, "authorities/authorities.html", _context(request, problems=invalid.problems))
    return render(request, "authorities/authorities.html", _context(request, token=text))


@_page
@require_POST
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    made_by = user_with_permission(request, "authorities.delete_servicetoken")
    verbs.delete_token(token_id, made_by=made_by)
    messages.success(request, _("The token was revoked."))
    return redirect("authorities")


def _context(request: HttpRequest, *, checked: Any = None, **more: Any) -> dict[str, Any]:  # noqa: ANN401 (a template's)
    now = read_clock()
    user: Any = request.user
    tokens = ServiceToken.objects.all() if user.has_perm("authorities.view_servicetoken") else ()
    return {
        "authorities": [
            {
                **_row(row, AuthorityFacts, checked, now=now),
                "group": row.group.name,
                "domain": row.domain,
            }
            for row in AuthorityConnection.objects.select_related("group", "prerequisite")
        ],
        "mappings": [
            _row(row, MapperFacts, checked, now=now) for row in MappingConnection.objects.select_related("prerequisite")
        ],
        "tokens": [
            {
                "id": token.pk,
                "name": token.name,
                "created": formats.moment(token.created_at, now=now),
                "by": token.created_by,
                "expires": formats.moment(token.expires_at, now=now) if token.expires_at else _("never"),
            }
            for token in tokens
        ],
        **more,
    }


def _row(row: verbs.Connection, facts: type, checked: Any, *, now: Any) -> dict[str, Any]:  # noqa: ANN401 (a template's)
    kind = verbs.kinds_of(type(row)).get(row.kind)
    changed = Checked(works=False, said=_("This connection was changed just now. Check it again."))
    found = None if checked is None else checked.get((facts, row.pk), changed)
    return {
        "id": row.pk,
        "name": row.name,
        "kind": kind.label if kind else row.kind,
        "prerequisite": row.prerequisite.name if row.prerequisite else "",
        "silent": formats.moment(row.silent_since, now=now) if row.silent_since else "",
        "error": row.last_error,
        "checked": found,
    }
