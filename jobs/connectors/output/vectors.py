"""
The search vectors of most texts. The results equal those of PostgreSQL.

Most of the time that a text costs in the search index is spent in PostgreSQL's parser, which reads the text once for
its words and once for their stems. In a text without joining characters (see `words`), the parser finds only runs of
letters and digits. This module finds them in a fifth of the time. The database decides which characters beyond ASCII
are letters, so this module asks the server. The result equals that of `to_tsvector`, `setweight` and `||` on the same
text, with every position, so searches find the same. PostgreSQL parses the other texts, such as those with combining
marks.

Vectors are written in PostgreSQL's binary format. The server reads it in a tenth of the time of a vector's text.
"""

import re
import string
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

# Highest position, which words and stems share.
_POSITIONS: Final = 16_383
# Largest number of positions of one word in a part, and in a vector.
_OF_A_PART: Final = 255
_OF_A_VECTOR: Final = 256
# Length of the longest word (bytes). PostgreSQL skips words of 2,048 bytes and more, before it converts words to lower
# case.
_LONGEST_WORD: Final = 1_000
# Largest number of different characters to replace. Each one costs a pass over the text.
_MOST_REPLACED: Final = 200

_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")
# A translation of ASCII to lower case, with blanks for everything but letters and digits.
_FOLDED: Final = bytes(
    byte
    if chr(byte) in string.ascii_lowercase + string.digits
    else ord(chr(byte).lower())
    if chr(byte).isupper()
    else 32
    for byte in range(128)
) + bytes(range(128, 256))
# A number with an exponent, such as 1e5, ends a word even if letters follow.
_NUMBER_AND_MORE: Final = re.compile(rb"(?<![^ ])([0-9]+e[0-9]+)(?=[^ 0-9])")
_WITH_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")

# The bytes of a vector for each position with each weight, and for each number of positions of a word.
_PLACES: Final = {
    weight: tuple((bits << 14 | position).to_bytes(2) for position in range(_POSITIONS + 1))
    for weight, bits in {"A": 3, "B": 2, "D": 0}.items()
}
_COUNTS: Final = tuple(b"\0" + count.to_bytes(2) for count in range(_OF_A_VECTOR + 1))


@dataclass(frozen=True, slots=True)
class Part:
    """
    The words of a part of a document, in order, and their weight. An empty word takes a position and is not stored.
    """

    words: Sequence[bytes]
    weight: str


@dataclass(frozen=True, slots=True)
class Cut:
    """The parts of a document, and the set of their words."""

    parts: Sequence[Part]
    words: frozenset[bytes]


def characters_of(texts: Iterable[str]) -> set[str]:
    """Return the different characters of these texts that are not ASCII."""
    return {character for text in texts if not text.isascii() for character in _NOT_ASCII.findall(text)}


def cut(parts: Iterable[tuple[str, str]], *, characters: Mapping[str, str | None]) -> Cut | None:
    """
    Return the words of texts, each with its weight; None if only PostgreSQL can compute them.

    `characters` has a value for each character of the texts that is not ASCII: the lower-case form of a letter, a blank
    for a character between words, None for a character that only PostgreSQL understands.
    """
    replaced = [
        (character, small) for character, small in characters.items() if small is not None and small != character
    ]
    if None in characters.values() or len(replaced) > _MOST_REPLACED:
        return None
    found: list[Part] = []
    for text, weight in parts:
        folded = _replace(text, replaced).encode().translate(_FOLDED)
        # Most texts have no number with an exponent. This cheap test avoids the search for one.
        if b"0e" in folded.translate(_WITH_ZEROS):
            folded = _NUMBER_AND_MORE.sub(rb"\1 ", folded)
        found.append(Part(folded.split(), weight))
    if 2 * sum(len(part.words) for part in found) > _POSITIONS:
        return None
    words = frozenset[bytes]().union(*(part.words for part in found))
    return Cut(found, words) if max(map(len, words), default=0) <= _LONGEST_WORD else None


def _replace(text: str, replaced: Iterable[tuple[str, str]]) -> str:
    if not text.isascii():
        for character, small in replaced:
            text = text.replace(character, small)
    return text


def vector_of(document: Cut, *, stems: Mapping[bytes, bytes] | None) -> bytes:
    """
    Return the vector of a document in PostgreSQL's binary format: its words, then, if `stems` is given, their stems
    (empty for none).
    """
    parts = document.parts
    if stems is not None:
        parts = [*parts, *(Part([stems[word] for word in part.words], part.weight) for part in parts)]
    places = _places_of(parts)
    if any(len(found) > _OF_A_PART for found in places.values()):
        places = _places_of(_within_limits(parts))
    pieces = [len(places).to_bytes(4)]
    for word, found in places.items():
        pieces += (word, _COUNTS[len(found)], *found)
    return b"".join(pieces)


def _places_of(parts: Iterable[Part]) -> dict[bytes, list[bytes]]:
    """Return the positions of each word. The positions of a part follow the last word of the earlier parts."""
    places: defaultdict[bytes, list[bytes]] = defaultdict(list)
    behind = 0
    for part in parts:
        length = len(part.words)
        for word, place in zip(part.words, _PLACES[part.weight][behind + 1 : behind + 1 + length], strict=True):
            places[word].append(place)
        while length and not part.words[length - 1]:
            length -= 1
        behind += length
    places.pop(b"", None)
    return places


def _within_limits(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield the parts with only those positions of a frequent word that PostgreSQL keeps."""
    before: Counter[bytes] = Counter()
    for part in parts:
        most = {word: min(_OF_A_PART, _OF_A_VECTOR - before[word]) for word in part.words}
        found: Counter[bytes] = Counter()
        words: list[bytes] = []
        for word in part.words:
            is_kept = bool(word) and found[word] < most[word]
            found[word] += is_kept
            words.append(word if is_kept else b"")
        before += found
        yield Part(words, part.weight)
