"""Proves that pages show numbers without powers of ten, and in the form of the page's language."""

from django.utils import translation

from nodes.web import formats
from tests.support.tables import each_row


@each_row(
    ("value", "digits", "text"),
    [
        (0, 4, "0"),
        (0.1, 4, "0.1"),
        (1.0, 4, "1"),
        (86_400, 4, "86,400"),
        (12.3456, 4, "12.35"),
        (0.000012, 2, "0.000012"),
        (1_234.5, 3, "1,234"),
        (123.4, 2, "123"),
    ],
)
def test_a_number_has_its_first_digits(value, digits, text):
    assert formats.decimal(value, digits=digits) == text


def test_a_slow_rate_has_no_exponent():
    assert formats.rate(0.00005) == "0.00005"
    assert formats.rate(0.5) == "0.5"


def test_a_german_number_has_a_comma():
    with translation.override("de"):
        assert formats.decimal(1_234.5, digits=5) == "1.234,5"
