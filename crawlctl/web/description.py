"""
The OpenAPI description of the REST API.

It depends only on the code, the language and the format, so each process computes each description once.
"""

import functools
import hashlib
from collections.abc import Mapping
from typing import Any, Final

from django.http import HttpResponse
from django.utils.cache import get_conditional_response
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import (
    OpenApiJsonRenderer,
    OpenApiJsonRenderer2,
    OpenApiYamlRenderer,
    OpenApiYamlRenderer2,
)
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from crawlctl.languages import ENGLISH, LANGUAGES, speaking
from nodes.api.base import ContractView
from nodes.api.strict import StrictSerializer, read_query

# Renderer of each value of `format`.
_RENDERERS: Final[Mapping[str, type[BaseRenderer]]] = {"json": OpenApiJsonRenderer2, "yaml": OpenApiYamlRenderer2}


class DescriptionQuery(StrictSerializer):
    format = serializers.ChoiceField(
        list(_RENDERERS), required=False, help_text="Without it, the header `Accept` chooses. The default is `yaml`."
    )
    lang = serializers.ChoiceField(
        [code for code, _name in LANGUAGES], default=ENGLISH, help_text="Language of titles and names."
    )


class DescriptionView(ContractView):
    http_method_names = ["get", "head", "options"]
    permission_classes = (IsAuthenticated,)
    renderer_classes = (OpenApiYamlRenderer, OpenApiYamlRenderer2, OpenApiJsonRenderer, OpenApiJsonRenderer2)

    @extend_schema(
        operation_id="schema_retrieve",
        description="Return the OpenAPI description of the API. A request with its ETag in `If-None-Match` gets 304.",
        parameters=[DescriptionQuery],
        responses={200: OpenApiTypes.OBJECT},
    )
    def get(self, request: Request) -> HttpResponse:
        query = read_query(DescriptionQuery, request)
        accepted = request.accepted_renderer
        form = query.get("format", accepted.format)
        media_type = accepted.media_type if accepted.format == form else _RENDERERS[form].media_type
        text, tag = _rendered(form, query["lang"])
        answer = HttpResponse(text, content_type=media_type)
        answer.headers["Content-Disposition"] = f'inline; filename="crawlctl.{form}"'
        # The description is the same for every reader: a browser may store it and check whether it changed.
        answer.headers["Cache-Control"] = "private, no-cache"
        answer.headers["ETag"] = tag
        return get_conditional_response(request, etag=tag, response=answer) or answer

    def handle_exception(self, exc: Exception) -> Response:
        # A problem is JSON, as its media type says.
        self.request.accepted_renderer, self.request.accepted_media_type = JSONRenderer(), JSONRenderer.media_type
        return super().handle_exception(exc)


@functools.cache
def description(language: str = ENGLISH) -> dict[str, Any]:
    """Return the description, which callers must not change."""
    with speaking(language):
        described: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return described


@functools.cache
def _rendered(form: str, language: str) -> tuple[bytes, str]:
    """Return the description in this format, and its ETag."""
    renderer = _RENDERERS[form]
    text = renderer().render(description(language), renderer.media_type, {})
    written = text if isinstance(text, bytes) else text.encode()
    return written, f'"{hashlib.sha256(written).hexdigest()[:32]}"'
