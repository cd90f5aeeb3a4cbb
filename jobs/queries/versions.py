"""Versions that were stored in an interval: of definitions, and of the settings of all nodes."""

import datetime as dt
from typing import NamedTuple

from django.db.models import Q

from jobs.models import DefinitionVersion
from nodes.models import SettingsVersion


class StoredVersion(NamedTuple):
    """A version of a definition, or of the settings of all nodes: `definition` is '' then."""

    id: int
    definition: str
    number: int
    name: str
    at: dt.datetime
    made_by: str


def read_versions(
    *, begin: dt.datetime, end: dt.datetime, most: int, definitions: Q | None = None
) -> list[StoredVersion]:
    """Return the newest versions from `begin` on and before `end`, the newest first; all, or only of `definitions`."""
    within = Q(at__gte=begin, at__lt=end)
    stored = DefinitionVersion.objects.filter(within, definitions or Q()).order_by("-at", "-id")
    settings = SettingsVersion.objects.filter(within).order_by("-at")
    found = [
        *(
            StoredVersion(*row)
            for row in stored.values_list("pk", "definition", "number", "name", "at", "made_by")[:most]
        ),
        *(
            StoredVersion(number, "", number, "", at, made_by)
            for number, at, made_by in settings.values_list("version", "at", "made_by")[:most]
        ),
    ]
    return sorted(found, key=lambda one: one.at, reverse=True)[:most]
