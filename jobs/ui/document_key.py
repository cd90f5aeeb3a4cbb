"""The key of a document in the address of a page."""

import uuid

from django.urls import register_converter


class DocumentKeyConverter:
    """The 128-bit key of a document as 32 hex digits."""

    regex = "[0-9a-f]{32}"

    def to_python(self, value: str) -> uuid.UUID:
        return uuid.UUID(hex=value)

    def to_url(self, value: uuid.UUID) -> str:
        return value.hex


register_converter(DocumentKeyConverter, "document_key")
