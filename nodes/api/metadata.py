"""
The answer to OPTIONS.

The framework imports this module while it imports its views, so this module must not import those.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from rest_framework.metadata import BaseMetadata
from rest_framework.request import Request


class View(Protocol):
    """The part of a view that this module needs."""

    @property
    def allowed_methods(self) -> Sequence[str]: ...


class Metadata(BaseMetadata):
    """Names the methods of an address, and the address of the API description."""

    def determine_metadata(self, request: Request, view: View) -> dict[str, Any]:
        return {"methods": list(view.allowed_methods), "schema": request.build_absolute_uri("/api/v1/schema/")}
