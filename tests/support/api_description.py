"""The description of the API. Making it takes some seconds of processor time, so each process makes it once."""

import functools
from collections.abc import Iterator
from typing import Any

from drf_spectacular.generators import SchemaGenerator


@functools.cache
def description() -> dict[str, Any]:
    """Return the description of the API, which tests must not change."""
    described: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return described


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the address, the method in lower case, and the description of each operation."""
    for address, methods in description()["paths"].items():
        for method, operation in methods.items():
            yield address, method, operation


@functools.cache
def requests() -> dict[str, tuple[str, str]]:
    """Return the method and the address of each operation by its id."""
    return {operation["operationId"]: (method, address) for address, method, operation in operations()}
