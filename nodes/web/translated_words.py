"""
Translations of words from tables that do not use Django, such as names of states.

Such a word is marked for translation by its table: `tools/catalogues.py` lists the tables.
"""

from django.utils.translation import gettext

from nodes.errors import Unknown


def translated(word: str) -> str:
    return gettext(word) if word else ""


def as_label(word: str) -> str:
    """Return a translated word with a capital letter."""
    text = translated(word)
    return f"{text[:1].upper()}{text[1:]}"


def missing(unknown: Unknown) -> str:
    """Return the sentence about a missing object in the language of the page, unless the error has its own sentence."""
    if unknown.sentence:
        return unknown.sentence
    return gettext("%(noun)s %(id)s does not exist.") % {"noun": as_label(unknown.kind), "id": unknown.id}
