"""The page of settings: the effective values, the stored versions, and the form for administrators."""

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods
from rest_framework.exceptions import ParseError

from jobs.queries.settings_page import NodeSettings, SettingLine, SettingsPage, read_settings_page, read_version
from jobs.settings.table import TABLE
from jobs.ui import settings_fields
from jobs.ui.pages import page
from nodes.api.parsing import read_json
from nodes.database.clock import read_clock
from nodes.settings import versions
from nodes.settings.declaration import InvalidSettings, as_document, known_part
from nodes.settings.effective import Source
from nodes.settings.versions import Change, SettingsChanged
from nodes.web import formats
from nodes.web.translated_words import translated

# Longest settings JSON (characters), more than all settings at their longest.
_LONGEST_DOCUMENT = 64 * 1024
_SAID_BY_ITSELF = {Source.COMMAND_LINE, Source.ENVIRONMENT}


class SettingsForm(forms.Form):
    """A settings JSON, typed or as a file, based on the version that was shown."""

    use_required_attribute = False

    document = forms.CharField(
        required=False,
        max_length=_LONGEST_DOCUMENT,
        label=gettext_lazy("Settings JSON"),
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "false"}),
    )
    file = forms.FileField(required=False, label=gettext_lazy("Settings file, instead of the JSON"))
    based_on = forms.IntegerField(min_value=0, widget=forms.HiddenInput)

    def clean_file(self) -> str:
        """Return the text of the file, '' without one."""
        file = self.cleaned_data["file"]
        if file is None:
            return ""
        if file.size > _LONGEST_DOCUMENT:
            raise forms.ValidationError(_("The settings JSON is larger than 64 kB."))
        try:
            text: str = file.read().decode()
        except UnicodeDecodeError as error:
            raise forms.ValidationError(
                _("The file is not valid UTF-8 at byte %(at)d.") % {"at": error.start}
            ) from None
        return text

    @property
    def text(self) -> str:
        return self.cleaned_data["file"] or self.cleaned_data["document"] or "{}"


@page
@require_http_methods(["GET", "HEAD", "POST"])
def settings(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        return _change(request)
    found = read_settings_page()
    document = found.document
    wanted = request.GET.get("version", "")
    if wanted:
        version = read_version(int(wanted)) if wanted.isdecimal() and len(wanted) < 10 else None
        if version is None:
            raise Http404(_("Settings version %(version)s does not exist.") % {"version": wanted})
        document = version.document
    form = SettingsForm(initial={"document": _pretty(document), "based_on": found.version})
    return _show(request, found, form)


def _change(request: HttpRequest) -> HttpResponse:
    """Store the settings JSON, or show what it would change."""
    user: Any = request.user
    if not user.has_perm("nodes.add_settingsversion"):
        raise PermissionDenied(_("Your role does not permit this action. Ask an administrator."))
    form = SettingsForm(request.POST, request.FILES)
    if not form.is_valid():
        return _show(request, read_settings_page(), form)
    based_on = form.cleaned_data["based_on"]
    typed: Mapping[str, str] | None = None
    if "document" in request.POST or request.FILES:
        text = form.text
    else:
        typed = settings_fields.texts_sent(request.POST)
        read, problems_of_fields = settings_fields.read(typed)
        text = _pretty(read)
        if problems_of_fields:
            shown = SettingsForm(initial={"document": text, "based_on": based_on})
            return _show(request, read_settings_page(), shown, problems=problems_of_fields, typed=typed)
    problems: Mapping[str, Sequence[str]] = {}
    changed: Sequence[Change] = ()
    try:
        document = read_json(text.encode())
        if "store" in request.POST:
            changed = versions.store(TABLE, document, made_by=user.get_username(), based_on=based_on)
            messages.success(request, _stored_in_words(changed))
            return redirect("settings")
        changed = versions.preview(TABLE, document)
    except ParseError as error:
        problems = {"": [str(error.detail)]}
    except InvalidSettings as error:
        problems = error.problems
    except SettingsChanged as error:
        problems = {"": [str(error)]}
    # The next POST sends the text that was shown, and not the file again. So exactly this text is stored.
    shown = SettingsForm(initial={"document": text, "based_on": based_on})
    return _show(
        request, read_settings_page(), shown, problems=problems, changes=None if problems else changed, typed=typed
    )


def _show(
    request: HttpRequest,
    found: SettingsPage,
    form: SettingsForm,
    *,
    problems: Mapping[str, Sequence[str]] | None = None,
    changes: Sequence[Change] | None = None,
    typed: Mapping[str, str] | None = None,
) -> HttpResponse:
    """Show the page. `typed` has the texts of the fields. Without it, the fields show the settings JSON of the form."""
    now = read_clock()
    texts = _texts_of(form) if typed is None else typed
    context = {
        "form": form,
        "lead": _lead(found, now=now),
        "lines": [_line_row(line, texts=texts, problems=problems or {}) for line in found.lines],
        "nodes": [_node_row(node, newest=found.version) for node in found.nodes],
        "history": [
            {
                "version": line.version,
                "at": formats.moment(line.at, now=now),
                "who": line.made_by,
            }
            for line in found.history
        ],
        "ignored": _problem_rows(found.ignored),
        "problems": _problem_rows(problems or {}),
        # A problem with the JSON text is shown beside this text, so the text must be visible.
        "shows_json": bool(problems) and typed is None,
        "changes": None if changes is None else [_change_row(change) for change in changes],
    }
    return render(request, "ui/settings.html", context)


def _problem_rows(problems: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    return [{"path": path, "says": " ".join(reasons)} for path, reasons in problems.items()]


def _lead(found: SettingsPage, *, now: dt.datetime) -> str:
    if not found.history:
        return _("No stored settings. Defaults apply unless overridden on the command line or in the environment.")
    last = found.history[0]
    facts = {"version": last.version, "who": last.made_by, "at": formats.moment(last.at, now=now)}
    return _("Version %(version)d, stored by %(who)s, %(at)s.") % facts


def _texts_of(form: SettingsForm) -> dict[str, str]:
    """Return the texts of the fields for the settings JSON of a form. They are empty if the JSON is invalid."""
    try:
        document = read_json((form.initial.get("document") or "{}").encode())
    except ParseError:
        document = {}
    return settings_fields.texts_of(document if isinstance(document, Mapping) else {})


def _line_row(
    line: SettingLine, *, texts: Mapping[str, str], problems: Mapping[str, Sequence[str]]
) -> Mapping[str, object]:
    setting = line.setting
    return {
        "field": settings_fields.name_of(setting) if setting.can_be_stored else "",
        "text": texts.get(setting.path, ""),
        "default": settings_fields.as_text(setting.as_json(setting.default)) if setting.can_be_stored else "",
        "problem": " ".join(problems.get(setting.path, ())),
        "path": setting.path,
        "meaning": translated(setting.meaning),
        "environment": setting.environment,
        "allowed": setting.kind.describe(translated),
        "value": _value(line.value),
        "source": _("stored") if line.source == Source.STORED else _("default"),
        "tone": "working" if line.source == Source.STORED else "quiet",
        "applies": translated(setting.applies),
        "apart": [
            {
                "name": node.name,
                "value": _value(node.values[setting.path]),
                "source": node.sources.get(setting.path, ""),
            }
            for node in line.apart
        ],
    }


def _node_row(node: NodeSettings, *, newest: int) -> Mapping[str, object]:
    own = {path: source for path, source in node.sources.items() if source in _SAID_BY_ITSELF}
    return {
        "name": node.name,
        "kind": node.kind,
        "version": _("version %(n)d") % {"n": node.version} if node.version else _("defaults"),
        "tone": "indexed" if node.version == newest else "waiting",
        "own": [f"{path} = {_value(node.values[path])} ({source})" for path, source in own.items()],
        "waiting": [f"{path} = {_value(value)}" for path, value in node.waiting.items()],
    }


def _change_row(change: Change) -> Mapping[str, str]:
    def shown(value: object) -> str:
        return _("default") if value is None else _value(change.setting.as_json(value))

    return {
        "path": change.setting.path,
        "before": shown(change.before),
        "after": shown(change.after),
        "applies": translated(change.setting.applies),
    }


def _stored_in_words(changed: Sequence[Change]) -> str:
    if not changed:
        return _("No setting changed, so no version was stored.")
    return ngettext(
        "Settings stored. Changed settings: %(n)d.", "Settings stored. Changed settings: %(n)d.", len(changed)
    ) % {"n": len(changed)}


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _pretty(document: Mapping[str, Any]) -> str:
    """Return the text of the settings JSON in the order of the table, because the database does not keep an order."""
    return json.dumps(as_document(TABLE, known_part(TABLE, document)), indent=2, ensure_ascii=False)
