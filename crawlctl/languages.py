"""
The languages of the pages. English is the language of the sources, and costs no look-up.

Django looks up each text in the catalogue of the active language, which took half of the time of an English page. So
`install` replaces its functions: they return an English text as it is, and ask the catalogues only while `speaking`
another language. A process that never calls `speaking`, such as a manager or a command, uses English.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from django.utils import translation
from django.utils.translation import trans_null, trans_real

ENGLISH: Final = "en"
# Code of each language, with its own name for itself.
LANGUAGES: Final = ((ENGLISH, "English"), ("de", "Deutsch"), ("zh-hans", "中文（简体）"))  # noqa: RUF001 (Chinese brackets)
CODES: Final = frozenset(code for code, _name in LANGUAGES)

# The language of the running request, if it is not English.
_other: ContextVar[str] = ContextVar("other language", default="")


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Translate texts into one of `LANGUAGES` inside the block. Only texts that become a string there are translated."""
    with translation.override(language):
        yield


def install() -> None:
    """Replace Django's functions of translation, in this process."""
    functions: Any = vars(translation)["_trans"]
    for name in ("gettext", "ngettext", "pgettext", "npgettext"):
        setattr(functions, name, _only_beside_english(getattr(trans_null, name), getattr(trans_real, name)))
    functions.activate, functions.get_language = _activate, _get_language
    functions.deactivate = functions.deactivate_all = _deactivate


def _only_beside_english(english: Callable[..., str], translated: Callable[..., str]) -> Callable[..., str]:
    is_other = _other.get

    def translate(*text: Any) -> str:
        return translated(*text) if is_other() else english(*text)

    return translate


def _activate(language: str) -> None:
    if language in CODES - {ENGLISH}:
        trans_real.activate(language)
        _other.set(language)
    else:
        _deactivate()


def _deactivate() -> None:
    _other.set("")


def _get_language() -> str:
    return _other.get() or ENGLISH
