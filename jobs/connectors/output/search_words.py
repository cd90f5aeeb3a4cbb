"""
The words of the search index: one rule for indexed texts and for queries.

PostgreSQL's parser makes one token of text that resembles a host, a path, a tag or a signed number. So a search for
`or` would not find `and/or`, and the same is true of `end.Next` and `<select>`. Therefore the index replaces the
joining characters by blanks. In a query, words that such characters join form a phrase.

Words are indexed as they are (the configuration `simple`: no stems, no stop words). So every page can be found by each
of its words, whatever its language. If PostgreSQL knows the language, its stems are indexed as well. In scripts without
blanks (Chinese, Japanese, Thai), only a whole run of characters can be found.
"""

from collections.abc import Mapping
from typing import Final, LiteralString

# This regular expression has the same meaning in Python and in PostgreSQL.
JOINERS: Final[LiteralString] = r"[-/.@:_+~?&=%#<>\\]"

# PostgreSQL's text search configuration by language (primary subtag). Configurations that the server lacks are skipped.
CONFIGURATIONS: Final[Mapping[str, str]] = {
    "ar": "arabic",
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nb": "norwegian",
    "ne": "nepali",
    "nl": "dutch",
    "nn": "norwegian",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}
