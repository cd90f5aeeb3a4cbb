"""
The answer to OPTIONS.

The framework loads this module while it loads its views, so it must not import those.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from rest_framework.metadata import BaseMetadata
from rest_framework.request import Request


class View(Protocol):
    """The part of any view that this module needs."""

    @property
    def allowed_methods(self) -> Sequence[str]: ...


class Metadata(BaseMetadata):
    """Names the methods of an address, and the description of all addresses."""

    def determine_metadata(self, request: Request, view: View) -> dict[str, Any]:
        return {"methods": list(view.allowed_methods), "schema": request.build_absolute_uri("/api/v1/schema/")}
