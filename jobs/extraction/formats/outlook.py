"""E-mail of Outlook (.msg): properties in streams of an OLE file, as MS-OXMSG describes them."""

import datetime as dt
import io
import struct
from collections.abc import Iterator
from typing import Any, Final

import olefile

from jobs.extraction.budget import Budget
from jobs.extraction.formats.container import DAMAGES
from jobs.extraction.formats.plain import read_html
from jobs.extraction.formats.raw import Raw, RawPart
from jobs.extraction.result import AUTHOR, CREATED, SUBJECT, ExtractionFailed, Reason

MEDIA_TYPE: Final = "application/vnd.ms-outlook"
_PROPERTIES: Final = "__properties_version1.0"
# Types of properties: text as UTF-16, text in a code page, bytes.
_UNICODE, _TEXT, _BINARY = "001F", "001E", "0102"
_NAMES: Final = {"0C1A": AUTHOR, "0C1F": "author_address", "0E04": "to", "0E03": "cc", "1035": "message_id"}
_SUBJECT, _BODY, _HTML = "0037", "1000", "1013"
_ATTACHED, _LONG_NAME, _SHORT_NAME, _MEDIA_TYPE = "3701", "3707", "3704", "370E"
_SENT: Final = 0x00390040
_EPOCH: Final = dt.datetime(1601, 1, 1, tzinfo=dt.UTC)
# Sizes of the header before the properties of a message, and of each property (bytes).
_HEADER, _ENTRY = 32, 16


def is_outlook(ole: Any) -> bool:  # noqa: ANN401 (olefile has no types)
    return bool(ole.exists(_PROPERTIES))


def open_ole(body: bytes) -> Any:  # noqa: ANN401
    """
    Return an OLE file.

    Raises:
        ExtractionFailed: the file is damaged.
    """
    try:
        return olefile.OleFileIO(io.BytesIO(body))
    except (*DAMAGES, struct.error, RecursionError) as error:
        raise ExtractionFailed(Reason.DAMAGED, "OLE") from error


def read_outlook(ole: Any, budget: Budget) -> Raw:  # noqa: ANN401
    """
    Return the text of an e-mail; its attachments are parts.

    Raises:
        ExtractionFailed: the file is damaged.
    """
    message = _Storage(ole, (), budget)
    found = Raw(MEDIA_TYPE, title=" ".join(message.text(_SUBJECT).split()))
    found.note(SUBJECT, found.title)
    for number, name in _NAMES.items():
        found.note(name, message.text(number))
    found.note(CREATED, _sent_at(message.stream((_PROPERTIES,))))
    found.text = message.text(_BODY).strip()
    if not found.text and (page := message.binary(_HTML)):
        found.text = read_html(page, "text/html").text
    found.parts = _attachments_of(ole, budget)
    return found


class _Storage:
    """Reads the properties of a message, or of an attachment, from their place in the OLE file."""

    def __init__(self, ole: Any, place: tuple[str, ...], budget: Budget) -> None:  # noqa: ANN401
        self._ole, self._place, self._budget = ole, place, budget

    def text(self, number: str) -> str:
        if (body := self._property(number, _UNICODE)) is not None:
            return body.decode("utf-16-le", "replace")
        return (self._property(number, _TEXT) or b"").decode("cp1252", "replace")

    def binary(self, number: str) -> bytes | None:
        return self._property(number, _BINARY)

    def _property(self, number: str, kind: str) -> bytes | None:
        return self.stream((f"__substg1.0_{number}{kind}",))

    def stream(self, name: tuple[str, ...]) -> bytes | None:
        place = [*self._place, *name]
        try:
            if self._ole.get_type(place) != olefile.STGTY_STREAM:
                return None
            self._budget.unpack(self._ole.get_size(place))
            return bytes(self._ole.openstream(place).read())
        except (*DAMAGES, struct.error) as error:
            raise ExtractionFailed(Reason.DAMAGED, "OLE") from error


def _sent_at(properties: bytes | None) -> str | None:
    for at in range(_HEADER, len(properties or b"") - _ENTRY + 1, _ENTRY):
        tag, _flags, value = struct.unpack_from("<IIQ", properties or b"", at)
        if tag == _SENT:
            try:
                return (_EPOCH + dt.timedelta(microseconds=value // 10)).isoformat()
            except OverflowError:
                return None
    return None


def _attachments_of(ole: Any, budget: Budget) -> Iterator[RawPart]:  # noqa: ANN401
    places = sorted({entry[0] for entry in ole.listdir(storages=True) if entry[0].startswith("__attach_version1.0_#")})
    budget.check_members(len(places))
    for number, place in enumerate(places, 1):
        attachment = _Storage(ole, (place,), budget)
        body = attachment.binary(_ATTACHED)
        name = attachment.text(_LONG_NAME) or attachment.text(_SHORT_NAME) or f"attachment-{number}"
        problem = Reason.UNKNOWN_TYPE if body is None else None
        yield RawPart(name, body, content_type=attachment.text(_MEDIA_TYPE), problem=problem)
