"""
Update the catalogues of all languages except English: `locale/<language>/LC_MESSAGES/django.po`.

    python -m tools.catalogues update    add the texts of the sources to the catalogues, and remove those without a source

An updated catalogue has the new texts without a translation. Write it into the file, in the words of docs/languages.md.
`tools/compile_catalogues.py` writes the files that the program reads.
"""

import ast
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import django
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

from tools.compile_catalogues import CATALOGUES, ROOT

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
django.setup()

from crawlctl.access.adminsite import SHOWN_NAMES  # noqa: E402
from jobs.bulk.verbs import EFFECTS  # noqa: E402
from jobs.duties.retention_subjects import SUBJECTS  # noqa: E402
from jobs.lifecycle.arrows import STAGES  # noqa: E402
from jobs.lifecycle.job import SITUATIONS, TRANSITIONS, Guard, plain_name, states_by_name  # noqa: E402
from jobs.lifecycle.table import Owner  # noqa: E402
from jobs.settings.table import TABLE  # noqa: E402
from jobs.verbs.control import VERBS  # noqa: E402
from nodes.lifecycle import NodeStatus  # noqa: E402
from nodes.settings.declaration import Applies  # noqa: E402
from nodes.settings.kinds import Kind  # noqa: E402
from nodes.tasks import kinds  # noqa: E402
from tools.templates import messages_of, templates  # noqa: E402

_PROGRAM: Final = ("crawlctl", "jobs", "nodes")
_MARKS: Final = "django.utils.translation"
_ONE: Final = frozenset({"gettext", "gettext_lazy", "gettext_noop"})
_WITH_PLURAL: Final = frozenset({"ngettext", "ngettext_lazy"})

# Texts of unfold that its own catalogues lack in one of the languages.
_OF_UNFOLD: Final = (
    "Click to cancel",
    "No results found",
    "Reset filters",
    "Select action",
    "Select action to run",
    "Select all rows",
    "Select record",
    "Select value",
    "This item will be deleted.",
    "This page yielded into no results. Create a new item or reset your filters.",
    "Type to search",
    "undo",
)

# A text with its plural, if it has one.
Message = str | tuple[str, str]


def messages_of_modules() -> Iterator[tuple[str, Message]]:
    """Yield each marked text of the program's modules, with the path of its file."""
    for package in _PROGRAM:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if _MARKS in text:
                for message in _marked(ast.parse(text)):
                    yield str(path.relative_to(ROOT)), message


# Babel's own reader of modules does not see the texts inside f-strings.
def _marked(module: ast.Module) -> Iterator[Message]:
    nodes = list(ast.walk(module))
    imports = (node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == _MARKS)
    marks = {alias.asname or alias.name: alias.name for node in imports for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in marks:
            texts = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            if marks[node.func.id] in _ONE and len(texts) == 1:
                yield texts[0]
            elif marks[node.func.id] in _WITH_PLURAL and len(texts) == 2:
                yield texts[0], texts[1]


def messages_of_tables() -> Iterator[tuple[str, Message]]:
    """Yield the words of tables that do not use Django, with the path of the table."""
    rows = TRANSITIONS.values()
    statuses = {plain_name(replace(state, guard=guard)) for state in states_by_name().values() for guard in Guard}
    yield from (("jobs/lifecycle/arrows.py", stage) for stage in STAGES)
    yield from (("jobs/lifecycle/job.py", name) for name in (*SITUATIONS, *sorted(statuses)))
    yield from (("jobs/lifecycle/job.py", word) for row in rows for word in (row.label, row.message) if word)
    yield from (
        ("jobs/lifecycle/job.py", word) for row in rows if row.owner != Owner.OPERATOR for word in (row.name, row.guard)
    )
    yield from (("jobs/verbs/control.py", verb.effect) for verb in VERBS.values())
    yield from (("jobs/bulk/verbs.py", effect) for effect in EFFECTS.values())
    yield from (("nodes/tasks/kinds", kind.title) for kind in kinds.installed().values())
    yield from (("nodes/lifecycle.py", str(status)) for status in NodeStatus)
    yield from (("nodes/settings/declaration.py", str(applies)) for applies in Applies)
    yield from (("jobs/settings/table.py", setting.meaning) for setting in TABLE.settings)
    yield from (("nodes/settings/kinds.py", text) for setting in TABLE.settings for text in _texts_of(setting.kind))
    yield from (("jobs/duties/cleaning.py", subject.title) for subject in SUBJECTS.values())
    yield from (("crawlctl/access/adminsite.py", name) for name in SHOWN_NAMES)
    yield from (("unfold", text) for text in _OF_UNFOLD)


def _texts_of(kind: Kind[Any]) -> list[str]:
    """Return the texts that describe the values of a setting, before values are inserted."""
    texts: list[str] = []

    def note(text: str) -> str:
        texts.append(text)
        return text

    kind.describe(note)
    return texts


def messages_of_templates() -> Iterator[tuple[str, Message]]:
    """Yield each marked text of the templates, with the path of its file, as Django looks it up."""
    for path, template in templates():
        for message in messages_of(template):
            yield path, message


def messages() -> Iterator[tuple[str, Message]]:
    yield from messages_of_modules()
    yield from messages_of_templates()
    yield from messages_of_tables()


def sources() -> Catalog:
    """Return the catalogue of all marked texts, without translations."""
    catalog = Catalog(fuzzy=False)
    for path, message in messages():
        catalog.add(message, locations=[(path, 0)])
    return catalog


def read(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, locale=path.parents[1].name, abort_invalid=True)


def write(path: Path, catalog: Catalog) -> None:
    with path.open("wb") as file:
        write_po(
            file, catalog, width=120, omit_header=False, sort_by_file=True, include_lineno=False, ignore_obsolete=True
        )


def update() -> None:
    """Write the texts of the sources into each catalogue. Texts without a translation stay untranslated."""
    texts = sources()
    for path in CATALOGUES:
        catalog = read(path)
        created = catalog.creation_date
        catalog.update(texts, no_fuzzy_matching=True)
        catalog.creation_date = created
        write(path, catalog)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["update"]:
            update()
        case _:
            sys.exit(__doc__)
