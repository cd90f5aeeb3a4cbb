"""Readers of plain text and HTML. They find the charset as for web pages."""

from typing import Final

from jobs.extraction.formats.raw import Raw
from jobs.reading.page import read_page
from jobs.reading.text import decoded

HTML: Final = "text/html"
PLAIN: Final = "text/plain"


def read_plain(body: bytes, content_type: str, media_type: str) -> Raw:
    """Return a text. `content_type` is the type that the source gave, perhaps with a charset."""
    return Raw(media_type, text=decoded(body, content_type).strip())


def read_html(body: bytes, content_type: str) -> Raw:
    """Return the text of an HTML page."""
    page = read_page(decoded(body, content_type), robots_name="")
    found = Raw(HTML, text=page.text, title=page.title, language=page.language)
    found.note("description", page.description)
    return found
