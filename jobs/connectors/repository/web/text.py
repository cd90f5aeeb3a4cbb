"""
From the bytes of a response to text: what kind of content it is, and in which encoding.

The server's word counts, except where the first bytes show that it is wrong about being text at all.
The encoding is that of a byte order mark, else of Content-Type, else what the document declares in its
first 1,024 bytes, else UTF-8 if the bytes are that, else windows-1252: what a browser does for a page of
no particular language. Labels mean what WHATWG says (latin-1 is windows-1252). Bad bytes become U+FFFD.
"""

import enum
import re
from collections.abc import Mapping
from typing import Final


class Kind(enum.Enum):
    HTML = "html"
    PLAIN = "plain"
    OTHER = "other"


_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_XML_TYPES: Final = frozenset({"text/xml", "application/xml"})
_PLAIN_TYPES: Final = frozenset({"text/plain", "text/markdown"})

_DECLARED_WITHIN: Final = 1024
_SIGNATURES: Final = (
    b"%PDF-", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"PK\x03\x04", b"\x1f\x8b", b"RIFF", b"\x7fELF",
    b"OggS", b"wOFF", b"wOF2", b"\x00\x00\x01\x00", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"%!PS-Adobe-",
    b"\x00asm", b"\xca\xfe\xba\xbe", b"ID3", b"fLaC", b"\x28\xb5\x2f\xfd", b"Rar!",
)  # fmt: skip
_CONTROLS: Final = bytes(code for code in range(0x20) if code not in b"\t\n\x0c\r\x1b")
_MARKS: Final = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))

_META_CHARSET: Final = re.compile(rb"<meta[^>]{0,500}?charset\s*=\s*[\"']?\s*([\w.:+-]+)", re.IGNORECASE)
_XML_ENCODING: Final = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:+-]+)", re.IGNORECASE)
_TYPE_CHARSET: Final = re.compile(r";\s*charset\s*=\s*[\"']?\s*([\w.:+-]+)", re.IGNORECASE)
_HTML_START: Final = re.compile(
    rb"^\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body|title|meta|script|h1|div|p|a|table|br)[\s>/]",
    re.IGNORECASE | re.DOTALL,
)


def kind_of(content_type: str, first: bytes) -> Kind:
    """What a body is, by its Content-Type (may be '') and its first bytes."""
    name = media_type(content_type)
    if name in _HTML_TYPES:
        kind = Kind.HTML
    elif name in _PLAIN_TYPES:
        kind = Kind.PLAIN
    elif name in _XML_TYPES:
        kind = Kind.HTML if b"<html" in first[:_DECLARED_WITHIN].lower() else Kind.OTHER
    elif not name or "/" not in name:
        kind = Kind.HTML if _HTML_START.match(first[:_DECLARED_WITHIN]) else Kind.PLAIN
    else:
        return Kind.OTHER
    return Kind.OTHER if _is_binary(first, content_type) else kind


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def decoded(body: bytes, content_type: str) -> str:
    """The text of a body, without byte order mark, NUL and lone surrogates."""
    text = _decode(body, content_type)
    return text.replace("\x00", "") if "\x00" in text else text


def _decode(body: bytes, content_type: str) -> str:
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    declared = _declared(body, content_type)
    if declared is not None:
        return body.decode(declared, "replace")
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body.decode("cp1252", "replace")


def _declared(body: bytes, content_type: str) -> str | None:
    label = _TYPE_CHARSET.search(content_type)
    if label is not None and (codec := _CODECS.get(label[1].lower())) is not None:
        return codec
    beginning = body[:_DECLARED_WITHIN]
    if beginning[1:2] == b"\x00" and beginning[3:4] == b"\x00":
        return "utf-16-le"
    if beginning[:1] == b"\x00" and beginning[2:3] == b"\x00":
        return "utf-16-be"
    found = _META_CHARSET.search(beginning) or _XML_ENCODING.search(beginning)
    if found is None:
        return None
    codec = _CODECS.get(found[1].decode("ascii", "replace").lower())
    # A declaration that could be read as ASCII cannot be in UTF-16.
    return "utf-8" if codec is not None and codec.startswith("utf-16") else codec


def _is_binary(first: bytes, content_type: str) -> bool:
    """Whether the bytes are of no text: a known signature, or more control characters than a stray one."""
    if first.startswith(_SIGNATURES) or first[4:8] == b"ftyp":
        return True
    if first[:2] in {b"\xff\xfe", b"\xfe\xff"} or "utf-16" in content_type.lower():
        return False
    sample = first[:512]
    if sample[1:2] == b"\x00" == sample[3:4] or sample[:1] == b"\x00" == sample[2:3]:
        return b"\x00\x00" in sample
    return len(sample) - len(sample.translate(None, _CONTROLS)) > len(sample) // 10


def _codecs(groups: Mapping[str, str]) -> dict[str, str]:
    return {label: codec for codec, labels in groups.items() for label in labels.split()}


# The labels of WHATWG's Encoding Standard that are seen in the wild, and the codecs that read them.
_CODECS: Final = _codecs(
    {
        "utf-8": "utf-8 utf8 unicode-1-1-utf-8 x-unicode20utf8",
        "utf-16-le": "utf-16 utf-16le unicode ucs-2 iso-10646-ucs-2 csunicode",
        "utf-16-be": "utf-16be unicodefffe",
        "cp1252": "windows-1252 cp1252 x-cp1252 iso-8859-1 iso8859-1 iso_8859-1 latin1 latin-1 l1 ascii us-ascii cp819 ibm819"
        " ansi_x3.4-1968 iso-ir-100 iso88591",
        "cp1250": "windows-1250 cp1250 x-cp1250",
        "cp1251": "windows-1251 cp1251 x-cp1251",
        "cp1253": "windows-1253 cp1253 x-cp1253",
        "cp1254": "windows-1254 cp1254 x-cp1254 iso-8859-9 iso8859-9 iso_8859-9 latin5 l5",
        "cp1255": "windows-1255 cp1255 x-cp1255",
        "cp1256": "windows-1256 cp1256 x-cp1256",
        "cp1257": "windows-1257 cp1257 x-cp1257",
        "cp1258": "windows-1258 cp1258 x-cp1258",
        "cp866": "ibm866 cp866 866",
        "cp874": "windows-874 dos-874 iso-8859-11 iso8859-11 tis-620",
        "iso8859-2": "iso-8859-2 iso8859-2 iso_8859-2 latin2 l2",
        "iso8859-3": "iso-8859-3 iso8859-3 latin3 l3",
        "iso8859-4": "iso-8859-4 iso8859-4 latin4 l4",
        "iso8859-5": "iso-8859-5 iso8859-5 cyrillic",
        "iso8859-6": "iso-8859-6 iso8859-6 arabic",
        "iso8859-7": "iso-8859-7 iso8859-7 greek greek8",
        "iso8859-8": "iso-8859-8 iso8859-8 iso-8859-8-i hebrew visual logical",
        "iso8859-10": "iso-8859-10 iso8859-10 latin6 l6",
        "iso8859-13": "iso-8859-13 iso8859-13",
        "iso8859-14": "iso-8859-14 iso8859-14",
        "iso8859-15": "iso-8859-15 iso8859-15 l9",
        "iso8859-16": "iso-8859-16",
        "koi8-r": "koi8-r koi8 koi koi8_r",
        "koi8-u": "koi8-u koi8-ru",
        "mac-roman": "macintosh mac x-mac-roman",
        "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
        "gb18030": "gbk gb2312 gb18030 gb_2312 gb_2312-80 x-gbk chinese",
        "big5hkscs": "big5 big5-hkscs x-x-big5 cn-big5",
        "euc_jp": "euc-jp x-euc-jp",
        "iso2022_jp": "iso-2022-jp",
        "cp932": "shift_jis shift-jis sjis x-sjis windows-31j ms_kanji ms932",
        "cp949": "euc-kr euc_kr korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 windows-949",
    }
)
