"""Proves that the encoding of a page is found by its declarations and its bytes."""

import time

import pytest

from jobs.reading.text import decoded
from tests.support.charsets import LABELS, REPLACED, TEXTS
from tests.support.tables import each_row

CASES = [
    pytest.param(label, text, id=f"{language} in {label}")
    for language, (labels, text) in TEXTS.items()
    for label in labels.split()
]
in_every_encoding = each_row(("label", "text"), CASES)


def page(text, head=""):
    return f"<!DOCTYPE html><html><head>{head}<title>{text[:20]}</title></head><body><p>{text}</p></body></html>"


def coded(html, label):
    """
    Return the bytes of a page, and its text. A letter that the encoding lacks is written as a character reference.
    """
    body = html.encode(label, "xmlcharrefreplace")
    return body, body.decode(label)


@in_every_encoding
def test_the_encoding_of_an_undeclared_page_is_found(label, text):
    body, html = coded(page(text), label)

    assert decoded(body, "text/html") == html


@in_every_encoding
def test_the_encoding_of_a_long_undeclared_page_is_found(label, text):
    body, html = coded(page(f"{text}\n" * 1000), label)

    assert decoded(body, "text/html") == html


@in_every_encoding
def test_a_long_script_before_the_text_hides_nothing(label, text):
    script = f"<script>{'x' * 200_000}</script>"
    body, html = coded(page(text, script), label)

    assert decoded(body, "text/html") == html


@in_every_encoding
def test_the_encoding_of_an_undeclared_plain_text_is_found(label, text):
    body, plain = coded(text, label)

    assert decoded(body, "text/plain") == plain


@each_row("header", ["", "; charset=utf-8", "; charset=ISO-8859-1"])
@in_every_encoding
def test_a_right_meta_element_wins_over_a_wrong_header(label, text, header):
    body, html = coded(page(text, f"<meta charset={label}>"), label)

    assert decoded(body, f"text/html{header}") == html


@in_every_encoding
def test_a_right_header_wins_over_a_wrong_meta_element(label, text):
    body, html = coded(page(text, "<meta charset=utf-8>"), label)

    assert decoded(body, f"text/html; charset={label}") == html


@each_row("head", ["", "<meta charset=utf-8>"])
@in_every_encoding
def test_utf8_under_a_wrong_header_is_read_as_utf8(label, text, head):
    html = page(text, head)

    assert decoded(html.encode(), f"text/html; charset={label}") == html


@each_row(
    "head",
    [
        pytest.param(f"<style>{'x' * 70_000}</style><meta charset=koi8-r>", id="after 70 KB"),
        pytest.param("<!-- <meta charset=big5> --><meta charset=koi8-r>", id="after one in a comment"),
        pytest.param("<!-- > <meta charset=big5> --!><meta charset=koi8-r>", id="after one in an odd comment"),
        pytest.param("<script>'<meta charset=big5>'</script><meta charset=koi8-r>", id="after one in a script"),
        pytest.param("<a title='<meta charset=big5>'><meta charset=koi8-r>", id="after one in an attribute"),
        pytest.param("<meta charset=no-such-thing><meta charset=koi8-r>", id="after an unknown one"),
        pytest.param("<meta name=a content='text/html; charset=big5'><meta charset=koi8-r>", id="after a name"),
        pytest.param("<META CONTENT='text/html; CHARSET = \"koi8-r\"' HTTP-EQUIV=Content-Type>", id="a header in it"),
        pytest.param("<meta name=a\ncharset=' KOI8-R '/>", id="with blanks and a line break"),
    ],
)
def test_declarations_are_found_where_browsers_find_them(head):
    # Four letters are too few for a right guess, so only the declaration gives them.
    body, html = coded(page("ом", head), "koi8-r")

    assert decoded(body, "text/html") == html


@each_row(
    ("header", "declared", "in_fact"),
    [
        ("windows-1252", "windows-1251", "windows-1251"),
        ("windows-1251", "windows-1252", "windows-1251"),
        ("koi8-r", "windows-1251", "windows-1251"),
        ("koi8-r", "windows-1251", "koi8-r"),
        ("shift_jis", "windows-1251", "windows-1251"),
        ("utf-16", "windows-1251", "windows-1251"),
        ("koi8-u", "koi8-r", "koi8-u"),
        ("iso-8859-15", "windows-1251", "windows-1251"),
    ],
)
def test_the_bytes_decide_between_two_old_encodings(header, declared, in_fact):
    body, html = coded(page(TEXTS["russian"][1], f"<meta charset={declared}>"), in_fact)

    assert decoded(body, f"text/html; charset={header}") == html


def test_control_characters_show_that_a_header_is_wrong():
    body, html = coded(page("l\u2019été", "<meta charset=windows-1252>"), "windows-1252")

    assert decoded(body, "text/html; charset=iso-8859-15") == html


@each_row("content_type", ["text/html", "text/html; charset=utf-8", "text/plain"])
def test_a_page_in_utf8_with_a_few_wrong_bytes_is_still_utf8(content_type):
    body = page(TEXTS["russian"][1]).encode() + b"\xd0"

    assert decoded(body, content_type) == page(TEXTS["russian"][1]) + "\ufffd"


def test_a_page_that_is_not_utf8_is_guessed_whatever_its_header_says():
    body, html = coded(page(TEXTS["russian"][1]), "windows-1251")

    assert decoded(body, "text/html; charset=utf-8") == html


def test_a_meta_element_in_plain_text_is_ignored():
    text = "<meta charset=big5> means " + TEXTS["russian"][1]

    assert decoded(text.encode("koi8-r"), "text/plain") == text


@each_row(
    ("codec", "word", "label"),
    [pytest.param(codec, word, label, id=label) for codec, word, labels in LABELS.values() for label in labels.split()],
)
def test_every_label_of_the_standard_is_known(codec, word, label):
    assert decoded(word.encode(codec), f'text/html; charset="{label.upper()}"') == word


def test_labels_of_replacement_and_x_user_defined_are_known():
    for label in REPLACED.split():
        assert decoded(b"abc", f"text/html; charset={label}") == "\ufffd"
    assert decoded(b"a\x80\xff", "text/html; charset=x-user-defined") == "a\uf780\uf7ff"


def test_the_standard_has_228_labels():
    assert (
        len([label for _, _, labels in LABELS.values() for label in labels.split()]) + len(REPLACED.split()) + 1 == 228
    )


def test_a_guess_takes_no_longer_for_a_large_page():
    body = coded(TEXTS["russian"][1], "windows-1251")[0] * 50_000
    began = time.process_time()

    assert decoded(body, "text/html").startswith("Вчера")

    # A guess from all twelve megabytes would take more than a second.
    assert time.process_time() - began < 0.8
