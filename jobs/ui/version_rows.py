"""The rows of a list of stored versions."""

import datetime as dt
from collections.abc import Iterable

from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.models import DefinitionVersion
from jobs.queries.versions import StoredVersion
from nodes.web import formats
from nodes.web.screens import Record


def version_rows(versions: Iterable[StoredVersion], *, now: dt.datetime) -> list[Record]:
    return [
        {
            "at": formats.moment(version.at, now=now),
            "what": _what(version),
            "address": reverse("version", args=[version.id]) if version.definition else reverse("settings"),
            "made_by": version.made_by,
        }
        for version in versions
    ]


def _what(version: StoredVersion) -> str:
    facts = {"number": version.number, "name": version.name}
    if not version.definition:
        return _("settings, version %(number)d") % facts
    facts["kind"] = str(DefinitionVersion.Subject(version.definition).label)
    return _("%(kind)s %(name)s, version %(number)d") % facts
