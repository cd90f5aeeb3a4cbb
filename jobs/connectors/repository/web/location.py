"""The target of a redirect, as its server sent it."""

from jobs.connectors.repository.web.fetch import Response
from jobs.connectors.repository.web.urls import BadUrl


def location_of(response: Response) -> str:
    """
    Return the Location as it was sent.

    Bytes that are not UTF-8 arrive as lone surrogates. This function escapes them one by one, like a browser.

    Raises:
        BadUrl: there is no Location.
    """
    location = response.headers.get("Location")
    if not location:
        raise BadUrl("", "no Location")
    return "".join(f"%{ord(c) - 0xDC00:02X}" if "\udc80" <= c <= "\udcff" else c for c in location)
