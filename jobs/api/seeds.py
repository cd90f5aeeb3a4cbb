"""Seeds in the API: lists of seeds, and the addresses of one seed as text, because a seed may have very many."""

import json
from collections.abc import Mapping
from typing import Any, Final

from django.db.models import F, QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from jobs.api.serializers import (
    AddressesSavedSerializer,
    SeedInListSerializer,
    SeedOfJobSerializer,
    SeedQuery,
    SeedSerializer,
)
from jobs.models import Job, Seed
from jobs.verbs.seed_lists import change_addresses
from nodes.api.paging import ListingView
from nodes.api.parsing import TextParser
from nodes.database.clock import read_clock

# Largest number of addresses that the list of seeds shows of each seed. A seed may have very many.
_ADDRESSES_SHOWN: Final = 20


class TextRenderer(BaseRenderer):
    """Renders text as it is, and every other answer of the same address as JSON."""

    media_type = "text/plain"
    format = "txt"
    charset = "utf-8"

    def render(
        self, data: object, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        return data.encode() if isinstance(data, str) else json.dumps(data).encode()


@extend_schema_view(
    list=extend_schema(
        description="List the seeds of all jobs, each with its first address. To change a seed, change its job."
    ),
    retrieve=extend_schema(description="Return one seed with all its addresses."),
)
class SeedView(mixins.RetrieveModelMixin, ListingView):
    http_method_names = ["get", "head", "options", "put", "post"]
    permissions_needed = {
        "list": "jobs.view_seed",
        "retrieve": "jobs.view_seed",
        "urls": "jobs.view_seed",
        "replace_urls": "jobs.change_job",
        "append_urls": "jobs.change_job",
    }
    query_class = SeedQuery
    tagged_by = SeedSerializer
    lookup_value_regex = "[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[Seed]:
        seeds = Seed.objects.filter(removed_at=None)
        if self.action != "list":
            return seeds
        return seeds.defer("urls").annotate(first_urls=F(f"urls__0_{_ADDRESSES_SHOWN}"), urls_in_all=F("urls__len"))

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        return SeedInListSerializer if self.action == "list" else SeedOfJobSerializer

    def lock_and_read_tag(self) -> str | None:
        # The job is locked before its seeds, in the same order as in every change.
        get_object_or_404(Job.objects.select_for_update(no_key=True, of=("self",)), seeds=self.kwargs["pk"])
        return super().lock_and_read_tag()

    @extend_schema(
        operation_id="seeds_urls",
        description="Return all addresses of a seed, one per line.",
        responses={(200, "text/plain"): OpenApiTypes.STR},
    )
    @action(detail=True, renderer_classes=[TextRenderer, JSONRenderer], parser_classes=[TextParser])
    def urls(self, request: Request, pk: str) -> Response:
        seed = self.get_object()
        shown = self.get_serializer(seed).data
        text = "".join(f"{url}\n" for url in shown["urls"])
        return Response(text, headers={"ETag": self.tag_of_shown(shown) or ""}, content_type=_TEXT)

    @extend_schema(
        operation_id="seeds_replace_urls",
        description="Replace the addresses of a seed, one per line, at most 100,000. If one is invalid, nothing is changed.",
        request={"text/plain": OpenApiTypes.STR},
        responses={(200, "application/json"): AddressesSavedSerializer},
    )
    @urls.mapping.put
    def replace_urls(self, request: Request, pk: str) -> Response:
        return self._change(request, int(pk), append=False)

    @extend_schema(
        operation_id="seeds_append_urls",
        description="Add addresses to a seed, one per line.",
        request={"text/plain": OpenApiTypes.STR},
        responses={(200, "application/json"): AddressesSavedSerializer},
    )
    @urls.mapping.post
    def append_urls(self, request: Request, pk: str) -> Response:
        return self._change(request, int(pk), append=True)

    def _change(self, request: Request, seed_id: int, *, append: bool) -> Response:
        body: Any = request.data
        # Without a body, the framework returns an empty form.
        text = body if isinstance(body, str) else ""
        made_by = request.user.get_username()
        saved = change_addresses(seed_id, text=text, append=append, made_by=made_by, now=read_clock())
        seed = Seed.objects.get(pk=seed_id)
        shown = AddressesSavedSerializer(
            {"id": seed.pk, "job": seed.job_id, "urls_in_all": len(seed.urls), "warnings": saved.warnings}
        ).data
        tag = self.tag_of_shown(self.get_serializer(seed).data)
        return Response(shown, headers={"ETag": tag or ""}, content_type="application/json")


_TEXT: Final = "text/plain; charset=utf-8"
