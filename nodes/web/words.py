"""
Translations of words from tables that do not use Django, such as names of states.

Such a word is marked for translation by its table: `tools/catalogues.py` lists the tables.
"""

from django.utils.translation import gettext


def translated(word: str) -> str:
    return gettext(word) if word else ""


def as_label(word: str) -> str:
    """Return a translated word with a capital letter."""
    said = translated(word)
    return f"{said[:1].upper()}{said[1:]}"
