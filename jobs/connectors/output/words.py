"""
How the search index cuts texts into words: one rule for what is indexed and for what is asked.

PostgreSQL's parser makes one token of what looks like a host, a path, a tag or a signed number, so
`and/or`, `end.Next` or `<select>` could be found by none of their words. The characters that join
such tokens are therefore blanks to the index, and what they join in a query is asked as a phrase.

Words are indexed as they are (the configuration `simple`: no stems, no stop words), so every page is
found by a word of it, whatever its language. Where PostgreSQL knows the language, its stems are
indexed as well. Scripts that write no blanks (Chinese, Japanese, Thai) are found by whole runs only.
"""

from collections.abc import Mapping
from typing import Final, LiteralString

# One regular expression, read alike by Python and by PostgreSQL.
JOINERS: Final[LiteralString] = r"[-/.@:_+~?&=%#<>\\]"

# PostgreSQL's configuration of each language, by its primary subtag. One that the server does not
# have is passed over.
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
