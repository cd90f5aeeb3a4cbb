"""Stored settings that have no effect in this release."""

import datetime as dt

from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.attention.lines import AttentionLine, Severity, with_rest
from jobs.settings.table import TABLE
from nodes.settings import versions


def ignored_settings(_now: dt.datetime) -> list[AttentionLine]:
    """
    Return a line for each stored setting whose default applies instead, and one line with the number of further
    settings.
    """
    sentence = _(
        "The stored setting %(path)s has no effect, and its default applies: %(why)s The next change of the settings removes it."
    )
    lines = [
        AttentionLine(
            kind="setting_ignored",
            key=path,
            subject=path,
            sentence=sentence % {"path": path, "why": " ".join(reasons)},
            since=None,
            link=reverse("settings"),
            severity=Severity.WARNING,
        )
        for path, reasons in versions.ignored(TABLE).items()
    ]
    return with_rest(lines, subject=_("settings"), link=reverse("settings"))
