"""PDF, read by PDFium (decision 0113)."""

import datetime as dt
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pypdfium2
from pypdfium2 import raw as pdfium

from jobs.extraction.budget import Budget
from jobs.extraction.formats.raw import Raw, RawPart, in_lines
from jobs.extraction.result import AUTHOR, CREATED, KEYWORDS, MODIFIED, SUBJECT, ExtractionFailed, Reason

MEDIA_TYPE: Final = "application/pdf"
_NAMES: Final = {
    "Author": AUTHOR,
    "Subject": SUBJECT,
    "Keywords": KEYWORDS,
    "Creator": "creator",
    "Producer": "producer",
}
_DATES: Final = {"CreationDate": CREATED, "ModDate": MODIFIED}
_DATE: Final = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:Z|([+-])(\d\d)'?(\d\d)?)?")


def read_pdf(body: bytes, budget: Budget) -> Raw:
    """
    Return the text of all pages.

    Raises:
        ExtractionFailed: the file is encrypted with a password, or damaged.
    """
    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        if error.err_code in {pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY}:
            raise ExtractionFailed(Reason.ENCRYPTED) from error
        raise ExtractionFailed(Reason.DAMAGED, "PDF") from error
    found = Raw(MEDIA_TYPE)
    found.title = " ".join(_fact(document, "Title").split())
    for theirs, ours in _NAMES.items():
        found.note(ours, _fact(document, theirs))
    for theirs, ours in _DATES.items():
        found.note(ours, _date_of(_fact(document, theirs)))
    found.note("pages", str(len(document)))
    known = budget.unread_pages
    found.text = "\n".join(_pages_of(document, budget))
    if budget.unread_pages > known:
        found.note("unread_pages", str(budget.unread_pages - known))
    found.parts = _attachments_of(document, budget)
    return found


def _fact(document: Any, name: str) -> str:  # noqa: ANN401
    """Return a value of the metadata; "" if it is missing."""
    return _repaired(lambda: document.get_metadata_value(name))


def _repaired(read: Callable[[], str]) -> str:
    """
    Return a text without halves of surrogate pairs. A title that was cut within a character ends with such a half.
    """
    try:
        return read()
    except UnicodeDecodeError as error:
        return error.object.decode("utf-16-le", "replace")


def _pages_of(document: Any, budget: Budget) -> Iterator[str]:  # noqa: ANN401 (pypdfium2 has no types)
    characters = 0
    for number in range(len(document)):
        if characters > budget.limits.characters:
            return
        try:
            page = document[number]
            text_page = page.get_textpage()
            text = text_page.get_text_bounded()
            text_page.close()
            page.close()
        except pypdfium2.PdfiumError:
            # The other pages are read even if one page is broken.
            budget.unread_pages += 1
            continue
        characters += len(text)
        yield in_lines(text)


def _attachments_of(document: Any, budget: Budget) -> Iterator[RawPart]:  # noqa: ANN401
    count = document.count_attachments()
    budget.check_members(max(count, 0))
    for number in range(count):
        name = f"attachment-{number + 1}"
        try:
            attachment = document.get_attachment(number)
            name = _repaired(attachment.get_name) or name
            body = bytes(attachment.get_data())
        except pypdfium2.PdfiumError:
            yield RawPart(name, None, problem=Reason.DAMAGED)
            continue
        budget.unpack(len(body))
        yield RawPart(name, body)


def _date_of(text: str) -> str | None:
    """Return a date of a PDF in ISO 8601; None if the text is not a date."""
    found = _DATE.match(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) if part else None for part in found.groups()[:6])
    sign, hours, minutes = found[7], int(found[8] or 0), int(found[9] or 0)
    offset = dt.timedelta(hours=hours, minutes=minutes) * (-1 if sign == "-" else 1)
    try:
        zone = dt.timezone(offset)
        return dt.datetime(
            year or 0, month or 1, day or 1, hour or 0, minute or 0, second or 0, tzinfo=zone
        ).isoformat()
    except (ValueError, OverflowError):
        return None
