"""The settings as fields of a form. Each row of the table of settings has a field. An empty field stores nothing."""

from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext as _

from jobs.settings.table import TABLE
from nodes.settings.declaration import Setting
from nodes.settings.kinds import NotOfThisKind
from nodes.web.translated_words import translated

_PREFIX: Final = "set-"


def name_of(setting: Setting[Any]) -> str:
    """Return the name of a setting's field."""
    return f"{_PREFIX}{setting.path}"


def texts_of(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of the fields for a settings JSON, by the path of the setting."""
    texts = {}
    for setting in TABLE.stored:
        section = document.get(setting.section)
        value = section.get(setting.name) if isinstance(section, Mapping) else None
        texts[setting.path] = "" if value is None else as_text(value)
    return texts


def texts_sent(sent: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts that a form sent, by the path of the setting."""
    return {setting.path: str(sent.get(name_of(setting), "")).strip() for setting in TABLE.stored}


def read(texts: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return the settings JSON that these texts mean, and the problems by the path of the setting."""
    document: dict[str, Any] = {}
    problems: dict[str, list[str]] = {}
    for setting in TABLE.stored:
        text = texts.get(setting.path, "")
        if not text:
            continue
        try:
            value = setting.kind.from_text(text)
        except NotOfThisKind:
            allowed = setting.kind.describe(translated)
            problems[setting.path] = [
                _("“%(text)s” is invalid. It must be %(allowed)s.") % {"text": text, "allowed": allowed}
            ]
        else:
            document.setdefault(setting.section, {})[setting.name] = setting.as_json(value)
    return document, problems


def as_text(value: object) -> str:
    """Return a value of parsed JSON as the text of a field."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)
