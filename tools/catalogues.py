"""
Keep the catalogues of the languages beside English: `locale/<language>/LC_MESSAGES/django.po`.

    python -m tools.catalogues update    add the texts of the sources to the catalogues, and remove those without a source

An updated catalogue has the new texts without a translation. Write it into the file, in the words of docs/languages.md.
`tools/compile_catalogues.py` writes the files that the program reads.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import django
from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po

from tools.compile_catalogues import CATALOGUES, ROOT

_PROGRAM: Final = ("crawlctl", "jobs", "nodes")
_KEYWORDS: Final = {
    "_": None,
    "_lazy": None,
    "gettext": None,
    "gettext_lazy": None,
    "gettext_noop": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
}
_MARKS: Final = "django.utils.translation"

# A text with its plural, if it has one.
Message = str | tuple[str, str]


def messages_of_modules() -> Iterator[tuple[str, Message]]:
    """Yield each marked text of the program's modules, with the path of its file."""
    for package in _PROGRAM:
        for path in sorted((ROOT / package).rglob("*.py")):
            if _MARKS in path.read_text(encoding="utf-8"):
                with path.open("rb") as source:
                    for _line, message, _comments, _context in extract("python", source, keywords=_KEYWORDS):
                        yield str(path.relative_to(ROOT)), message


def messages_of_templates() -> Iterator[tuple[str, Message]]:
    """Yield each marked text of the templates, with the path of its file, as Django looks it up."""
    from tools.templates import messages_of, templates  # noqa: PLC0415 (needs Django's settings)

    for path, template in templates():
        for message in messages_of(template):
            yield path, message


def messages() -> Iterator[tuple[str, Message]]:
    yield from messages_of_modules()
    yield from messages_of_templates()


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
    """Give each catalogue the texts of the sources, without guesses at translations."""
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
            os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
            django.setup()
            update()
        case _:
            sys.exit(__doc__)
