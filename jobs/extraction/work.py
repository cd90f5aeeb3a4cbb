"""The work of a child: the contract between the pool and the code that a child executes."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from jobs.extraction.budget import Limits
from jobs.extraction.extract import Wanted, extract
from jobs.extraction.result import Extraction

# Values of JSON, by name.
Facts = Mapping[str, Any]

# An e-mail that is read once before the confinement, so that the standard library has imported everything that it
# needs.
_SAMPLE: Final = (
    b"From: =?utf-8?q?J=C3=B6rg?= <j@example.org>\r\nDate: Mon, 1 Jan 2024 10:00:00 +0100\r\nSubject: =?iso-8859-1?b?5A==?=\r\n"
    b'MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="b"\r\n\r\n'
    b"--b\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n<p>Sch=C3=B6n\r\n"
    b"--b\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: attachment;"
    b" filename*=utf-8''a%20b.txt\r\n\r\nYWJj\r\n"
    b"--b\r\nContent-Type: message/rfc822\r\n\r\nSubject: x\r\n\r\nabc\r\n--b--\r\n"
)


class Work(Protocol):
    """
    A kind of work for child processes. A module defines an object of this type.

    `prepare` imports everything that `do` needs, because a confined process opens no file. `do` gets the facts and the
    bytes of a request, and returns an answer of JSON values. `do` raises ExtractionFailed for a file without a text.
    """

    def prepare(self, arguments: Facts) -> None: ...

    def do(self, facts: Facts, body: bytes) -> Facts: ...


def warm_up() -> None:
    """Read one small file, so that all readers and their libraries are imported."""
    extract(_SAMPLE, content_type="message/rfc822", name="", limits=Limits())


class ExtractionWork:
    """
    The work of a child that extracts texts: it loads all readers at its start, and then reads one file after the other.
    """

    def prepare(self, arguments: Facts) -> None:
        warm_up()

    def do(self, facts: Facts, body: bytes) -> Facts:
        found = extract(
            body,
            content_type=facts["content_type"],
            name=facts["name"],
            limits=Limits(),
            wanted=Wanted(parts=facts["parts"], language=facts["language"]),
        )
        return found.to_json()


EXTRACTION: Final = ExtractionWork()


def extraction_of(answer: Facts) -> Extraction:
    """
    Return the extraction in an answer.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: the answer has no extraction.
    """
    return Extraction.from_json(answer)
