"""Confirmation pages of the set-up: a GET shows what would change, and a POST makes the change."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from django.contrib import messages
from django.contrib.admin import AdminSite, helpers
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from nodes.errors import NotDone
from nodes.web import formats

# Largest number of rows that a confirmation page names.
_EXAMPLES: Final = 20
# Field of the form that a user confirmed.
_CONFIRMED: Final = "sure"
_MOST_DIGITS: Final = 18


def row_number(object_id: str | None) -> int:
    """
    Return the number of a row, given as text in an address.

    Raises:
        Http404: the text is not a number.
    """
    if object_id is None or not object_id.isdecimal() or len(object_id) > _MOST_DIGITS:
        raise Http404(_("This does not exist."))
    return int(object_id)


def may_offer(
    request: HttpRequest,
    action: str,
    *,
    is_possible: bool,
    why: str,
    model: type[Model] | None = None,
    object_id: str | None = None,
    exists: bool = True,
) -> bool:
    """
    Return `is_possible`: True if a page may offer an action on a row now. `action` is the last part of the action's
    address. `why` is the reason if the action is impossible. The caller passes `exists`, or the model and the key of
    the row, unless the row certainly exists.

    Raises:
        Http404: the row does not exist, and the request is for the action itself.
        PermissionDenied: the action is impossible, and the request is for the action itself. Its confirmation page may
        have been open while the state changed.
    """
    if not is_possible and request.path.endswith(f"/{action}/"):
        if not exists or (
            model is not None and not model._default_manager.filter(pk=object_id).exists()  # noqa: SLF001 (public in Django)
        ):
            raise Http404(_("This does not exist."))
        raise PermissionDenied(why)
    return is_possible


def confirm_for_one(
    request: HttpRequest,
    site: AdminSite,
    *,
    title: str,
    question: str,
    back: str,
    act: Callable[[], str],
) -> HttpResponseBase:
    """Show a confirmation page about one row; on POST, make the change, and show the sentence that `act` returns."""
    if request.method != "POST":
        context = {**site.each_context(request), "title": title, "question": question, "back": back}
        return render(request, "admin/confirm_one.html", context)
    _make_change(request, act)
    return redirect(back)


def confirm_for_selected(
    request: HttpRequest,
    site: AdminSite,
    rows: Sequence[Any],
    *,
    title: str,
    question: str,
    act: Callable[[], str],
) -> HttpResponseBase:
    """Show a confirmation page about the selected rows of a list; when the user confirms, make the change."""
    if _CONFIRMED in request.POST:
        _make_change(request, act)
        return redirect(request.get_full_path())
    context = {
        **site.each_context(request),
        "title": title,
        "question": question,
        "names": [str(row) for row in rows[:_EXAMPLES]],
        "more": formats.more(len(rows) - _EXAMPLES),
        "action": request.POST["action"],
        "selected": request.POST.getlist(helpers.ACTION_CHECKBOX_NAME),
        "checkbox": helpers.ACTION_CHECKBOX_NAME,
        "back": request.get_full_path(),
    }
    return render(request, "admin/confirm_selected.html", context)


def _make_change(request: HttpRequest, act: Callable[[], str]) -> None:
    try:
        message = act()
    except NotDone as refused:
        messages.warning(request, str(refused) or _("Nothing was changed."))
    else:
        messages.success(request, message)
