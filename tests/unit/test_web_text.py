"""Proves that kinds of content and encodings are recognized as browsers do."""

import time

from jobs.reading.text import Kind, decoded, kind_of
from tests.support.tables import each_row

PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj"
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


@each_row(
    ("content_type", "first", "kind"),
    [
        ("text/html", b"<p>", Kind.HTML),
        ("Text/HTML; charset=utf-8", b"anything", Kind.HTML),
        ("application/xhtml+xml", b"<?xml version='1.0'?><html/>", Kind.HTML),
        ("application/xml", b"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'>", Kind.HTML),
        ("text/xml", b"<?xml version='1.0'?><rss/>", Kind.OTHER),
        ("text/plain", b"<html>", Kind.PLAIN),
        ("text/markdown", b"# a", Kind.PLAIN),
        ("image/png", b"<html>", Kind.OTHER),
        ("application/pdf", PDF, Kind.OTHER),
        ("application/octet-stream", b"text", Kind.OTHER),
        ("text/css", b"p{}", Kind.OTHER),
        ("application/json", b"{}", Kind.OTHER),
        ("text/html", PNG, Kind.OTHER),
        ("text/html", PDF, Kind.OTHER),
        ("text/plain", b"PK\x03\x04...", Kind.OTHER),
        ("text/plain", bytes(range(256)), Kind.OTHER),
        ("text/html", b"<p>one stray \x00 byte in a page that is otherwise fine", Kind.HTML),
        ("text/html", "<p>x".encode("utf-16"), Kind.HTML),
        ("text/html", "<p>x".encode("utf-16-le"), Kind.HTML),
        ("text/html", b"", Kind.HTML),
        ("", b"<!DOCTYPE html><p>", Kind.HTML),
        ("", b"\n  <HTML>", Kind.HTML),
        ("", b"<!-- x --><p>", Kind.HTML),
        ("", b"<?xml version='1.0'?>\n<!-- x --> <!-- y --><p>", Kind.HTML),
        ("", b"plain words", Kind.PLAIN),
        ("", PNG, Kind.OTHER),
        ("nonsense", b"<html>", Kind.HTML),
        ("", b"", Kind.PLAIN),
    ],
)  # fmt: skip
def test_the_kind_of_content_of_a_body_is_found(content_type, first, kind):
    assert kind_of(content_type, first) is kind


@each_row("first", [b"<!---->" * 200, b"<!-- -->\n" * 200, b"<?xml " * 200, b" " * 2000, b"<!--" * 300])
def test_the_kind_of_a_hostile_body_is_found_quickly(first):
    began = time.process_time()

    assert kind_of("", first) is Kind.PLAIN

    assert time.process_time() - began < 1


@each_row(
    ("body", "content_type", "text"),
    [
        ("é".encode(), "text/html; charset=utf-8", "é"),
        ("é".encode(), "text/html", "é"),
        (b"\xe9\x80", "text/html", "é€"),
        (b"\xe9", "text/html; charset=ISO-8859-1", "é"),
        (b"\x80", "text/html; charset=latin1", "€"),
        (b"\xe9", 'text/html; charset="windows-1252"', "é"),
        ("привет".encode("cp1251"), "text/html; charset=windows-1251", "привет"),
        ("привет".encode("koi8-r"), "text/html;charset=KOI8-R", "привет"),
        ("日本".encode("shift_jis"), "text/html; charset=Shift_JIS", "日本"),
        ("日本".encode("euc_jp"), "text/html; charset=x-euc-jp", "日本"),
        ("中文".encode("gbk"), "text/html; charset=gb2312", "中文"),
        ("中文".encode("big5"), "text/html; charset=big5", "中文"),
        ("한국".encode("cp949"), "text/html; charset=ks_c_5601-1987", "한국"),
        (b"\xef\xbb\xbf\xc3\xa9", "text/html; charset=iso-8859-1", "é"),
        ("é".encode("utf-16"), "text/html", "é"),
        (b"\xfe\xff" + "é".encode("utf-16-be"), "text/html; charset=utf-8", "é"),
        ("<p>é".encode("utf-16-le"), "text/html", "<p>é"),
        ("<p>é".encode("utf-16-be"), "text/html", "<p>é"),
        ("<p>é".encode("utf-16-le"), "text/html; charset=utf-16", "<p>é"),
        (b'<meta charset="windows-1251">\xe9', "text/html", '<meta charset="windows-1251">й'),
        (b"<META http-equiv=Content-Type content='text/html; charset=koi8-r'>\xc9", "text/html",
         "<META http-equiv=Content-Type content='text/html; charset=koi8-r'>и"),
        (b"<META http-equiv=x content='text/html; charset=koi8-r'>\xc9", "text/html",
         "<META http-equiv=x content='text/html; charset=koi8-r'>É"),
        (b'<?xml version="1.0" encoding="iso-8859-2"?>\xb1', "application/xhtml+xml",
         '<?xml version="1.0" encoding="iso-8859-2"?>ą'),
        (b'<meta charset="utf-16">\xc3\xa9', "text/html", '<meta charset="utf-16">é'),
        (b"<meta charset=utf-7>+AGE-", "text/html", "<meta charset=utf-7>+AGE-"),
        (b" " * 1024 + b'<meta charset="windows-1251">\xe9', "text/html", " " * 1024 + '<meta charset="windows-1251">й'),
        (b"\xe9", "text/html; charset=no-such-thing", "é"),
        (b"\xe9", "text/html; charset=base64", "é"),
        (b"a\xffb", "text/html; charset=utf-8", "a\ufffdb"),
        (b"\xed\xa0\x80", "text/html; charset=utf-8", "\ufffd" * 3),
        (b"a\x00b", "text/plain", "ab"),
        (b"", "", ""),
    ],
)  # fmt: skip
def test_bodies_are_decoded_as_browsers_do(body, content_type, text):
    assert decoded(body, content_type) == text


@each_row("codec", ["utf-8", "utf-16", "cp1252", "gb18030", "shift_jis"])
def test_no_bytes_yield_text_that_a_database_refuses(codec):
    text = decoded(bytes(range(256)) * 9, f"text/html; charset={codec}")

    assert "\x00" not in text
    text.encode()
