"""Proves that large sealed (encrypted) files give back their content, and that every change of a file is detected."""

import os

import pytest

from crawlctl.backups import sealing
from crawlctl.backups.errors import Damaged, Unusable
from crawlctl.backups.sealed_files import open_sealed, open_to_seal

MEBIBYTE = 1024 * 1024
# Bytes of the header with the salt, and of a sealed chunk.
HEADER = 39
CHUNK = MEBIBYTE + 16
CONTENT = os.urandom(2 * MEBIBYTE + 5)


@pytest.fixture(scope="module", autouse=True)
def cheap_keys():
    """
    Derive keys in a millisecond. Normally a key takes a quarter of a second, so that guessing passphrases is slow. No
    test here is about this cost.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealing, "_N", 2**10)
        yield


@pytest.fixture(scope="module")
def sealed(cheap_keys, tmp_path_factory):
    path = tmp_path_factory.mktemp("sealed") / "file"
    with open_to_seal(path, passphrase="secret", name="backup") as file:
        for start in range(0, len(CONTENT), 100_000):
            file.write(CONTENT[start : start + 100_000])
    return path


def content_of(path, *, passphrase="secret", name="backup", at_once=-1):
    parts = []
    with open_sealed(path, passphrase=passphrase, name=name) as file:
        while part := file.read(at_once):
            parts.append(part)
    return b"".join(parts)


def test_a_sealed_file_returns_content_of_any_size(tmp_path):
    for size in (0, 1, MEBIBYTE - 1, MEBIBYTE, MEBIBYTE + 1, 2 * MEBIBYTE):
        with open_to_seal(tmp_path / str(size), passphrase="secret", name="backup") as file:
            file.write(CONTENT[:size])
        assert content_of(tmp_path / str(size)) == CONTENT[:size]


def test_sealed_files_hide_content_and_can_be_read_in_any_pieces(sealed):
    assert content_of(sealed, at_once=77_777) == CONTENT
    assert CONTENT[:64] not in sealed.read_bytes()


def test_another_passphrase_or_name_does_not_open_a_sealed_file(sealed):
    for other in ({"passphrase": "wrong"}, {"name": "other"}):
        with pytest.raises(Unusable, match="does not open"):
            content_of(sealed, **other)
    with pytest.raises(Unusable, match="is sealed"):
        content_of(sealed, passphrase="")


def flipped(content):
    at = HEADER + CHUNK + 10
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def exchanged(content):
    first, second = content[HEADER : HEADER + CHUNK], content[HEADER + CHUNK : HEADER + 2 * CHUNK]
    return content[:HEADER] + first + content[HEADER + 2 * CHUNK :] + second


def cut(content):
    return content[:-7]


def cut_between_chunks(content):
    return content[: HEADER + 2 * CHUNK]


def longer(content):
    return content + b"more"


@pytest.mark.parametrize("change", [flipped, exchanged, cut, cut_between_chunks, longer])
def test_a_change_of_a_sealed_file_is_found(sealed, tmp_path, change):
    (tmp_path / "changed").write_bytes(change(sealed.read_bytes()))

    with pytest.raises(Damaged, match="was changed or cut after"):
        content_of(tmp_path / "changed")


def test_a_reader_of_a_sealed_file_that_stops_early_still_checks_the_rest(sealed, tmp_path):
    (tmp_path / "cut").write_bytes(cut_between_chunks(sealed.read_bytes()))

    with pytest.raises(Damaged), open_sealed(tmp_path / "cut", passphrase="secret", name="backup") as file:
        file.read(10)


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "other").write_bytes(b"something else")

    with pytest.raises(Damaged, match="does not start with its header"):
        content_of(tmp_path / "other")
