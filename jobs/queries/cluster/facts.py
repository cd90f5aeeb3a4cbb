"""
The facts of the cluster that are kept for each minute, and their differences. Pure functions of JSON.

Facts have sections, and each section has entries by key:

- `main` (key ''): the term of the main manager, and its node's id,
- `nodes` (node id): name, kind, status, machine, tags,
- `owners` (node id, '' for no owner): the number and the weight of its groups,
- `groups` (group id): name, weight and owner of the heaviest groups,
- `jobs` (job id): name, status and run of each job that has a run,
- `progress` (job id, '0' for all jobs): documents, bytes and requests of the minute before, then the documents of the
  run by state: waiting, active, indexed, unchanged, failed, excluded (null without a sample).

A difference has the same form. In a difference, null means that the entry no longer exists.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

Facts = Mapping[str, Mapping[str, Any]]

NOTHING: Final[Facts] = {}


def as_text(facts: Facts) -> str:
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":"))


def from_text(text: str) -> Facts:
    facts: Facts = json.loads(text)
    return facts


def difference(before: Facts, after: Facts) -> Facts:
    """Return the entries that changed, with their new values."""
    changed: dict[str, dict[str, Any]] = {}
    for section in sorted({*before, *after}):
        old, new = before.get(section, {}), after.get(section, {})
        entries: dict[str, Any] = {key: value for key, value in new.items() if old.get(key) != value}
        entries.update((key, None) for key in old if key not in new)
        if entries:
            changed[section] = entries
    return changed


def add_up(changes: Iterable[Facts]) -> Facts:
    """Return the facts after these differences. The first difference starts from empty facts."""
    facts: dict[str, dict[str, Any]] = {}
    for change in changes:
        for section, entries in change.items():
            facts.setdefault(section, {}).update(entries)
    found = {
        section: {key: value for key, value in entries.items() if value is not None}
        for section, entries in facts.items()
    }
    return {section: entries for section, entries in found.items() if entries}
