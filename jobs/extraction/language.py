"""The language of a text, found by CLD2 (decision 0114)."""

from typing import Final

import pycld2

# Largest number of characters that the detector reads, and least number that it needs.
_LOOKED_AT: Final = 20_000
_LEAST: Final = 20
_UNKNOWN: Final = "un"


def language_of(text: str) -> str:
    """Return the language of a text as a code of ISO 639, such as `de` or `zh-Hant`; "" if it is not clear."""
    sample = "".join(character for character in text[:_LOOKED_AT] if character.isprintable() or character.isspace())
    if len(sample.strip()) < _LEAST:
        return ""
    try:
        is_reliable, _bytes, found = pycld2.detect(sample.encode(errors="replace"), bestEffort=False)
    except pycld2.error:
        return ""
    code = str(found[0][1])
    return code if is_reliable and code != _UNKNOWN else ""
