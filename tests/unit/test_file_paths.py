"""Proves that paths become identifiers, and become the same paths again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.connectors.repository.filesystem.paths import canonical, identifier_of, is_within, path_of
from jobs.connectors.repository.kind import BadIdentifier
from tests.support.tables import each_row

# Possible names in a directory: any bytes except NUL and the slash, without `.` and `..`.
NAMES = st.binary(min_size=1, max_size=20).filter(
    lambda name: b"\x00" not in name and b"/" not in name and name not in {b".", b".."}
)


@given(st.lists(NAMES, max_size=5))
def test_every_path_survives_its_identifier_and_has_only_one(names):
    path = b"/" + b"/".join(names)

    identifier = identifier_of(path)

    assert path_of(identifier) == path
    assert canonical(identifier) == identifier
    assert identifier.isascii()


@each_row(
    ("typed", "identifier"),
    [
        ("file:///", "file:///"),
        ("FILE:///srv//data/./x/", "file:///srv/data/x"),
        ("file://localhost/srv", "file:///srv"),
        (" file:///srv/a b", "file:///srv/a%20b"),
        ("file:///srv/é", "file:///srv/%C3%A9"),
        ("file:///srv/%e9%7e", "file:///srv/%E9~"),
        ("file:///srv/50%", "file:///srv/50%25"),
    ],
)
def test_spellings_of_one_path_are_one_document(typed, identifier):
    assert canonical(typed) == identifier


@each_row(
    ("typed", "why"),
    [
        ("/srv/data", "not an address of a file"),
        ("http://a.example/", "not an address of a file"),
        ("file:srv", "not an address of a file"),
        ("file://server/share", "another machine, server"),
        ("file://", "not a path"),
        ("file:///srv/../etc", "has .. in its path"),
        ("file:///srv/%2e%2e/etc", "has .. in its path"),
        ("file:///srv/%2e%2e", "has .. in its path"),
        ("file:///srv/a%00b", "not an absolute path"),
        ("file:///srv/a?b", "%3F"),
        ("file:///srv/a#b", "%23"),
    ],
)
def test_an_invalid_file_path_is_refused_with_the_reason(typed, why):
    with pytest.raises(BadIdentifier, match=why):
        canonical(typed)


def test_a_directory_of_a_longer_name_is_another_directory():
    assert is_within(b"/srv/data/x", b"/srv/data")
    assert is_within(b"/srv/data", b"/srv/data")
    assert is_within(b"/srv", b"/")
    assert not is_within(b"/srv/database", b"/srv/data")
