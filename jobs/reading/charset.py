"""
Finds the encoding of a body as browsers do, and returns the text.

The order is WHATWG's: a byte order mark, Content-Type, the document's own declaration, then a guess from the bytes. A
document declares its encoding by a `meta` element, or by an XML declaration. Both count even after byte 1,024, but not
inside comments or scripts. Names and tables are those of the Encoding Standard, from turbohtml. The detector is that of
Firefox.

Declarations may be wrong, and valid UTF-8 is hardly ever a coincidence. So the bytes decide in these cases:

- Content-Type names an older encoding, the document does not, and the bytes are UTF-8: it is UTF-8.
- UTF-8 is declared and the bytes are clearly not UTF-8: another declaration counts, or else the guess.
- Content-Type and document name two older encodings: the one in which all bytes are valid counts.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from turbohtml import parse
from turbohtml.detect import Detection, detect

_UTF8: Final = "UTF-8"
_WESTERN: Final = "windows-1252"
# An encoding that uses only ASCII bytes. Only its escape sequences distinguish it from UTF-8.
_JAPANESE: Final = "ISO-2022-JP"
_JAPANESE_ESCAPE: Final = b"\x1b$"
_MARKS: Final = ((b"\xef\xbb\xbf", _UTF8), (b"\xff\xfe", "UTF-16LE"), (b"\xfe\xff", "UTF-16BE"))

# Number of bytes that are searched for a declaration. In 15 of 90 real pages, it is after byte 1,024; the last one is
# at 69,383.
_DECLARED_WITHIN: Final = 256 * 1024
# Number of bytes that a guess reads; it takes about 7 ms.
_GUESSED_FROM: Final = 64 * 1024
# Blanks for the detector's first 1,024 bytes, so that it reads no declaration there.
_NO_DECLARATION: Final = b" " * 1024
# Number of wrong sequences from which the encoding of a body is guessed although UTF-8 is declared.
_MANY_WRONG: Final = 4

_TYPE_CHARSET: Final = re.compile(r";\s*charset\s*=\s*(?:\"([^\"]*)|'([^']*)|([^\s;]+))", re.IGNORECASE)
_META_CHARSET: Final = re.compile(r"charset\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s;\"']+))", re.IGNORECASE)
_XML_ENCODING: Final = re.compile(rb"\s*<\?xml[^>]{0,200}?\sencoding\s*=\s*[\"']([^\"'>]{1,40})[\"']", re.IGNORECASE)
# U+FFFD, which replaces wrong bytes, and control characters that no text has.
_NO_CHARACTER: Final = re.compile("[\ufffd\x80-\x9f]")
_NOT_ASCII: Final = re.compile(rb"[\x80-\xff]")
_OF_SEVERAL_BYTES: Final = frozenset({"GBK", "gb18030", "Big5", "EUC-JP", "EUC-KR", "Shift_JIS", _JAPANESE})
_GUESSED_AS: Final = {"KOI8-R": "KOI8-U", "gb18030": "GBK", "ISO-8859-8-I": "ISO-8859-8", "ISO-8859-15": _WESTERN}
_HIGH: Final = bytes(range(0x80, 0x100))
_META: Final = frozenset({"meta"})


def text_of(body: bytes, content_type: str) -> str:
    """Return the text of a body, without its byte order mark. Bytes without a meaning become U+FFFD."""
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return _decoded(body[len(mark) :], encoding)
    from_header = _encoding_in_header(content_type)
    if from_header == _UTF8 and _JAPANESE_ESCAPE not in body:
        try:
            return body.decode()
        except UnicodeDecodeError:
            pass
    return _decoded(body, _encoding_of(body, content_type, from_header))


def _encoding_of(body: bytes, content_type: str, from_header: str | None) -> str:
    if from_header is not None and from_header.startswith("UTF-16"):
        # Markup in UTF-16 contains zero bytes, and text in other encodings does not.
        if b"\0" in body:
            return _utf16_of(body) or from_header
        from_header = None
    in_document = _encoding_in_document(body, content_type)
    declared = from_header or in_document
    if declared is None:
        return _UTF8 if _is_mostly_utf8(body) else _guess(body) or _WESTERN
    if declared == _UTF8:
        return _UTF8 if _is_mostly_utf8(body) else _encoding_instead_of_utf8(body, in_document)
    if from_header is None:
        return declared
    if in_document is None or in_document == _UTF8:
        return _UTF8 if _is_utf8_for_sure(body, in_place_of=declared) else declared
    return _likelier(body, declared, in_document)


def _encoding_instead_of_utf8(body: bytes, in_document: str | None) -> str:
    """Return the encoding of a body that is declared as UTF-8 but is not."""
    if in_document is not None and in_document != _UTF8:
        return in_document
    guess = _guess(body) if _wrong_and_right(body)[0] >= _MANY_WRONG else None
    return guess or _UTF8


def _likelier(body: bytes, from_header: str, in_document: str) -> str:
    """
    Return the declared encoding in which the bytes are valid. If the bytes are valid in both encodings, return the
    encoding of the header.
    """
    if from_header == in_document:
        return from_header
    wrong = [len(_NO_CHARACTER.findall(_decoded(body, encoding))) for encoding in (from_header, in_document)]
    if wrong[0] != wrong[1]:
        return from_header if wrong[0] < wrong[1] else in_document
    names = _as_guessed(from_header), _as_guessed(in_document)
    guess = _guess(body, among=frozenset(names))
    return in_document if guess == names[1] != names[0] else from_header


def _is_mostly_utf8(body: bytes) -> bool:
    """True if the bytes are UTF-8 with few exceptions: a page that was cut within a character is still UTF-8."""
    if _JAPANESE_ESCAPE in body:
        return False
    try:
        body.decode()
    except UnicodeDecodeError:
        wrong, right = _wrong_and_right(body)
        return right >= 4 * wrong
    return True


def _is_utf8_for_sure(body: bytes, *, in_place_of: str) -> bool:
    """True if the bytes are UTF-8 and more than ASCII. A few characters of two bytes each could be UTF-8 by chance."""
    if body.isascii() or not _is_mostly_utf8(body):
        return False
    return in_place_of not in _OF_SEVERAL_BYTES or "\ufffd" in _decoded(body, in_place_of)


def _wrong_and_right(body: bytes) -> tuple[int, int]:
    """Return the number of sequences that are not UTF-8, and of characters beyond ASCII."""
    text = body.decode("utf-8", "replace")
    beyond_ascii = len(text) - len(body.translate(None, _HIGH))
    wrong = text.count("\ufffd") - body.count("\ufffd".encode())
    return wrong, beyond_ascii - wrong


def _guess(body: bytes, *, among: frozenset[str] | None = None) -> str | None:
    if _JAPANESE_ESCAPE in body and "\ufffd" not in _decoded(body, _JAPANESE):
        return _JAPANESE
    return detect(_NO_DECLARATION + _sample_of(body), Detection(allowed=among)).encoding


def _sample_of(body: bytes) -> bytes:
    """
    Return the bytes around and after the first byte beyond ASCII. Scripts before the text may be long, and have only
    ASCII bytes, from which the detector learns nothing.
    """
    found = _NOT_ASCII.search(body)
    start = 0 if found is None else max(found.start() - 32, 0)
    sample = body[start : start + _GUESSED_FROM]
    if start + len(sample) == len(body):
        return sample
    # None of these bytes can be part of a longer character, so a cut there cuts no character.
    end = max(sample.rfind(b"<"), sample.rfind(b" "), sample.rfind(b"\n"))
    return sample[:end] if end > 0 else sample


def _as_guessed(encoding: str) -> str:
    """Return the encoding that the detector reports for this one: it does not distinguish some similar encodings."""
    return _GUESSED_AS.get(encoding, encoding)


def _encoding_in_header(content_type: str) -> str | None:
    found = _TYPE_CHARSET.search(content_type)
    return None if found is None else _encoding_named(found[1] or found[2] or found[3] or "")


def _encoding_in_document(body: bytes, content_type: str) -> str | None:
    if (encoding := _utf16_of(body)) is not None:
        return encoding
    name = content_type.partition(";")[0].strip().lower()
    if name.startswith("text/") and name not in {"text/html", "text/xml"}:
        return None
    beginning = body[:_DECLARED_WITHIN]
    xml = _XML_ENCODING.match(beginning)
    declared = [] if xml is None else [xml[1].decode("ascii", "replace")]
    if b"charset" in beginning.lower():
        in_html = list(_metas_of(beginning))
        declared = declared + in_html if "xml" in name else in_html + declared
    encoding = next(filter(None, map(_encoding_named, declared)), None)
    if encoding is not None and encoding.startswith("UTF-16"):
        # If a declaration of UTF-16 can be read as ASCII, it is wrong.
        return _UTF8
    return _WESTERN if encoding == "x-user-defined" else encoding


def _utf16_of(body: bytes) -> str | None:
    """
    Return the name of the UTF-16 encoding that the places of zero bytes show, for markup without a byte order mark;
    None if the markup is not UTF-16.
    """
    zeros = [body[at : at + 1] == b"\0" for at in range(4)]
    if zeros == [False, True, False, True]:
        return "UTF-16LE"
    return "UTF-16BE" if zeros == [True, False, True, False] else None


def _metas_of(beginning: bytes) -> Iterator[str]:
    """Yield the encoding names of `meta` elements, in their order."""
    for meta in parse(beginning.decode("latin-1"), positions=False).iter_elements(_META):
        if (charset := meta.attr("charset")) is not None:
            yield charset
        elif (meta.attr("http-equiv") or "").strip().lower() == "content-type":
            found = _META_CHARSET.search(meta.attr("content") or "")
            if found is not None:
                yield found[1] or found[2] or found[3] or ""


@lru_cache(maxsize=512)
def _encoding_named(label: str) -> str | None:
    """Return the encoding that has this label in the Encoding Standard; None if there is none."""
    try:
        return parse(b"", encoding=label.strip("\t\n\f\r ")).encoding
    except (LookupError, ValueError):
        return None


def _decoded(body: bytes, encoding: str) -> str:
    return body.decode("utf-8" if encoding == _UTF8 else f"whatwg-{encoding}", "replace")
