"""The nouns that `nodes.web.translated_words.missing` puts into its sentence about an object that does not exist."""

from typing import Final

from django.utils.translation import gettext_noop

NOUNS: Final = (
    gettext_noop("archive record"),
    gettext_noop("chain"),
    gettext_noop("connection"),
    gettext_noop("document"),
    gettext_noop("host"),
    gettext_noop("job"),
    gettext_noop("node"),
    gettext_noop("operation"),
    gettext_noop("output"),
    gettext_noop("partition"),
    gettext_noop("policy"),
    gettext_noop("run"),
    gettext_noop("seed"),
    gettext_noop("suspect"),
    gettext_noop("version"),
)
