"""The pages of versions: their list with times, authors and changes, one version, and its revert."""

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from jobs.definitions.importing import Result
from jobs.definitions.subjects import SUBJECTS
from jobs.definitions.texts import as_yaml
from jobs.definitions.versions import verbs
from jobs.models import DefinitionVersion
from nodes.database.clock import read_clock
from nodes.errors import Invalid, NotDone
from nodes.membership.changes import Differences
from nodes.permissions import May
from nodes.web import formats
from nodes.web.filters import FilterForm
from nodes.web.pages import page_for, user_with_permission

page: Final = page_for("jobs.view_job")
# Each object needs the permission of its kind, too.
MAY_REVERT: Final = "jobs.change_job"
_A_PAGE: Final = 50
# Largest number of changed fields that the list shows of a version.
_FIELDS: Final = 5
# Largest numbers of characters: of a value in a table, and of the text of a definition on its page.
_CHARACTERS: Final = 300
_TEXT: Final = 50_000
_ADDRESSES: Final[Mapping[str, str]] = {
    "job": "job",
    "policy": "admin:jobs_throttlepolicy_change",
    "repository": "admin:jobs_repositoryconnection_change",
    "output": "admin:jobs_outputconnection_change",
}


class VersionFilterForm(FilterForm):
    """The filters of the list of versions, as parameters of its address."""

    definition = forms.ChoiceField(
        choices=[("", gettext_lazy("everything")), *DefinitionVersion.Subject.choices],
        required=False,
        label=gettext_lazy("Versions of"),
    )
    object = forms.IntegerField(required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput)
    after = forms.IntegerField(required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput)

    def as_query(self) -> dict[str, str]:
        """Return the filters that are set, for the address of another page of the same list."""
        return {name: str(self.cleaned_data[name]) for name in ("definition", "object") if self.cleaned_data[name]}


@page
@require_safe
def versions(request: HttpRequest) -> HttpResponse:
    """Show the versions of all objects or of one, the newest first."""
    form = VersionFilterForm(request.GET)
    context: dict[str, Any] = {"form": form, "rows": []}
    if form.is_valid():
        wanted, now = form.cleaned_data, read_clock()
        rows = verbs.visible(_may(request)).order_by("-id")
        if wanted["definition"]:
            rows = rows.filter(definition=wanted["definition"])
        if wanted["object"] is not None:
            rows = rows.filter(object_id=wanted["object"])
        if wanted["after"] is not None:
            rows = rows.filter(id__lt=wanted["after"])
        found = list(rows[: _A_PAGE + 1])
        context["rows"] = [_row(version, now=now) for version in found[:_A_PAGE]]
        context["about"] = found[0] if found and wanted["object"] is not None and wanted["definition"] else None
        if len(found) > _A_PAGE:
            context["next_query"] = urlencode({**form.as_query(), "after": str(found[_A_PAGE - 1].pk)})
        context["first_query"] = urlencode(form.as_query()) or "all" if wanted["after"] is not None else ""
    return render(request, "definitions/versions.html", context)


@page
@require_safe
def version(request: HttpRequest, version_id: int) -> HttpResponse:
    """Show a version, and the effect of a revert to it."""
    return _show(request, version_id)


@page
@require_POST
def revert(request: HttpRequest, version_id: int) -> HttpResponse:
    """Save the definition of a version again, and return to the versions of its object."""
    name = user_with_permission(request, MAY_REVERT)
    newest = request.POST.get("newest", "")
    try:
        change = verbs.revert(
            version_id,
            newest=int(newest) if newest.isdecimal() and len(newest) < 10 else None,
            may=_may(request),
            made_by=name,
        )
    except Invalid as invalid:
        return _show(request, version_id, problems=invalid.problems)
    except NotDone as refused:
        messages.warning(request, str(refused))
        return redirect("version", version_id)
    if change.result == Result.UNCHANGED:
        messages.info(request, _("Nothing was saved: this is the present definition."))
    else:
        messages.success(request, _("%(name)s has its earlier definition again.") % {"name": change.name})
    for warning in change.warnings:
        messages.warning(request, warning)
    seen = verbs.visible(_may(request)).get(pk=version_id)
    return redirect(address_of_versions(seen.definition, seen.object_id))


def address_of_versions(definition: str, object_id: int) -> str:
    """Return the address of the versions of an object."""
    return f"{reverse('versions')}?{urlencode({'definition': definition, 'object': str(object_id)})}"


def _show(request: HttpRequest, version_id: int, *, problems: Mapping[str, list[str]] | None = None) -> HttpResponse:
    may = _may(request)
    seen = verbs.read_version(version_id, may=may)
    text = as_yaml(seen.version.document)
    context = {
        "row": _row(seen.version, now=read_clock()),
        "changes": _fields(seen.version.changes),
        "differences": _fields(seen.differences),
        "problems": problems or {},
        "text": text[:_TEXT],
        "is_cut": len(text) > _TEXT,
        "newest": seen.newest,
        "is_newest": seen.newest == seen.version.number,
        "exists": seen.exists,
        "may_revert": may(SUBJECTS[seen.version.definition].permission("change")),
    }
    return render(request, "definitions/version.html", context, status=400 if problems else 200)


def _row(version: DefinitionVersion, *, now: dt.datetime) -> Mapping[str, object]:
    hidden = len(version.changes) - _FIELDS
    return {
        "id": version.pk,
        "number": version.number,
        "address": reverse("version", args=[version.pk]),
        "definition": version.get_definition_display(),
        "name": version.name,
        "object_address": reverse(_ADDRESSES[version.definition], args=[version.object_id]),
        "versions_address": address_of_versions(version.definition, version.object_id),
        "at": formats.moment(version.at, now=now),
        "who": version.made_by,
        "restores": version.restores,
        "fields": _fields(dict(list(version.changes.items())[:_FIELDS])),
        "more": ngettext("and %(n)d more field", "and %(n)d more fields", hidden) % {"n": hidden} if hidden > 0 else "",
        "says": "" if version.changes else _sentence_without_fields(version),
    }


def _sentence_without_fields(version: DefinitionVersion) -> str:
    """Return the sentence about a version without a changed field."""
    if version.number > 1:
        return _("Only secrets changed.")
    return _("Created.") if version.made_by else _("The state before the first kept change.")


def _fields(differences: Differences) -> list[Mapping[str, str]]:
    """Return the fields in words. A field is left out if the only difference is between missing and empty."""
    said = [(name, _in_words(pair["before"]), _in_words(pair["after"])) for name, pair in differences.items()]
    return [
        {"field": name, "before": before, "after": after}
        for name, before, after in said
        if before != after or before != _("nothing")
    ]


def _in_words(value: object) -> str:
    match value:
        case None | "" | [] | {}:
            said = _("nothing")
        case bool():
            said = _("yes") if value else _("no")
        case str():
            said = value
        case list() if all(isinstance(item, str | int | float) for item in value):
            said = ", ".join(map(str, value))
        case _:
            said = json.dumps(value, ensure_ascii=False)
    return said if len(said) <= _CHARACTERS else f"{said[:_CHARACTERS]}…"


def _may(request: HttpRequest) -> May:
    user: Any = request.user
    return user.has_perm  # type: ignore[no-any-return]
