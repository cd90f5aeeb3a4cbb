"""The operations of the API, read from its description."""

import functools
from collections.abc import Iterator
from typing import Any

from crawlctl.web.description import description


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the address, the method in lower case, and the description of each operation."""
    for address, methods in description()["paths"].items():
        for method, operation in methods.items():
            yield address, method, operation


@functools.cache
def requests() -> dict[str, tuple[str, str]]:
    """Return the method and the address of each operation by its id."""
    return {operation["operationId"]: (method, address) for address, method, operation in operations()}
