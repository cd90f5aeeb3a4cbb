"""The page of a user's account: its roles, its password, its API tokens."""

from collections.abc import Iterable
from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from crawlctl.access.api_tokens import verbs
from crawlctl.access.api_tokens.scopes import scopes_of
from crawlctl.access.logins import login_methods
from crawlctl.models import ApiToken
from nodes.database.clock import read_clock
from nodes.errors import Invalid, NotDone
from nodes.web import formats
from nodes.web.pages import page_for, user_with_permission

_page: Final = page_for("crawlctl.view_apitoken")
# Lifetime of a token that the form suggests (days).
_DAYS: Final = "90"
# Largest number of tokens of other users that the page shows. The API has all.
_MOST_OF_OTHERS: Final = 200


@_page
@require_safe
def account(request: HttpRequest) -> HttpResponse:
    return render(request, "account/account.html", _context(request))


@_page
@require_POST
def new_token(request: HttpRequest) -> HttpResponse:
    """Create an API token, and show its text, which no other page shows."""
    made_by = user_with_permission(request, "crawlctl.add_apitoken")
    given = {name: request.POST.get(name, "").strip() for name in ("name", "scope", "days")}
    days = given["days"]
    user: Any = request.user
    try:
        token, text = verbs.create(
            owner=user,
            name=given["name"],
            scope=given["scope"],
            days=int(days) if days.isascii() and days.isdecimal() and len(days) < 9 else days or None,
            made_by=made_by,
        )
    except Invalid as invalid:
        problems = dict(invalid.problems)
        at_fields = {name: problems.pop(name) for name in given if name in problems}
        refusals = [sentence for sentences in problems.values() for sentence in sentences]
        return render(
            request, "account/account.html", _context(request, given=given, problems=at_fields, refusals=refusals)
        )
    except NotDone as refused:
        return render(
            request, "account/account.html", _context(request, given=given, refusals=[str(refused)]), status=409
        )
    return render(request, "account/account.html", _context(request, text=text, created=token.name))


@_page
@require_POST
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    made_by = user_with_permission(request, "crawlctl.delete_apitoken")
    verbs.revoke(token_id, among=verbs.visible_to(request.user), made_by=made_by)
    messages.success(request, _("The token was revoked."))
    return redirect("account")


def _context(request: HttpRequest, *, given: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    user: Any = request.user
    now = read_clock()
    tokens = verbs.visible_to(user)
    own = tokens.filter(owner_id=user.pk).order_by("-pk")
    others = tokens.exclude(owner_id=user.pk).order_by("-pk") if user.has_perm(verbs.MANAGES) else ()
    shown = list(others[: _MOST_OF_OTHERS + 1])
    roles = sorted(user.groups.values_list("name", flat=True))
    return {
        "has_password": user.has_usable_password() and login_methods()["passwords"],
        "roles": [*roles, *([_("superuser")] if user.is_superuser else [])],
        "scopes": scopes_of(user),
        "given": given or {"name": "", "scope": "", "days": _DAYS},
        "own": _rows(own, now=now),
        "others": _rows(shown[:_MOST_OF_OTHERS], now=now),
        "more_of_others": len(shown) > _MOST_OF_OTHERS,
        **more,
    }


def _rows(tokens: Iterable[ApiToken], *, now: Any) -> list[dict[str, Any]]:  # noqa: ANN401 (a moment)
    return [
        {
            "id": token.pk,
            "owner": token.owner.get_username(),
            "name": token.name,
            "scope": token.scope,
            "created": formats.moment(token.created_at, now=now),
            "used": formats.age(token.last_used_at, now=now) if token.last_used_at else _("never"),
            "expires": formats.moment(token.expires_at, now=now) if token.expires_at else _("never"),
            "is_expired": token.expires_at is not None and token.expires_at <= now,
        }
        for token in tokens
    ]
