"""Validators of a response (ETag, Last-Modified), stored as JSON for the conditional request of a later run."""

import json
from typing import Final

from jobs.connectors.repository.web.fetch import Response

_MOST_VALIDATOR: Final = 1024


def validators_of(response: Response) -> str:
    """Return the validators for a later request, as JSON; '' if the server sent no validators."""
    given = {
        name: value
        for name in ("ETag", "Last-Modified")
        if (value := response.headers.get(name)) and value.isascii() and len(value) <= _MOST_VALIDATOR
    }
    return json.dumps(given) if given else ""


def conditions_of(validators: str) -> dict[str, str]:
    """Return the headers that request the document only if it changed since a response with these validators."""
    given = json.loads(validators)
    asked = {"If-None-Match": given.get("ETag"), "If-Modified-Since": given.get("Last-Modified")}
    return {name: value for name, value in asked.items() if value}
