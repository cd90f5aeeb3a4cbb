"""Search over what the outputs of kind `search` hold."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from jobs.queries.documents.search import BadQuery, Hit, SearchPage, search
from nodes.api.base import ContractView
from nodes.api.strict import PageQuery, read_query


class SegmentSerializer(serializers.Serializer[Any]):
    """Piece of text, with a flag for a match. It is text, not markup."""

    text = serializers.CharField()
    is_match = serializers.BooleanField()


class HitSerializer(serializers.Serializer[Hit]):
    """Matching document."""

    output = serializers.IntegerField(source="output_id")
    url = serializers.CharField()
    title = SegmentSerializer(many=True)
    snippet = SegmentSerializer(many=True)
    content_type = serializers.CharField()
    language = serializers.CharField()
    metadata = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()), help_text="Further values of the document by name."
    )
    fetched_at = serializers.DateTimeField()
    rank = serializers.FloatField()


class SearchPageSerializer(serializers.Serializer[SearchPage]):
    """Matching documents, best first. With `has_more`, more than `total` match, and the rest was not ranked."""

    results = HitSerializer(many=True, source="hits")
    total = serializers.IntegerField()
    has_more = serializers.BooleanField()
    next = serializers.URLField(allow_null=True, help_text="Address of the next page. Null on the last page.")


class SearchQuery(PageQuery):
    q = serializers.CharField(help_text='Search words: all must occur. Supported: "a phrase", or, -without.')
    limit = serializers.IntegerField(min_value=1, max_value=100, default=10, help_text="Documents per page.")


class SearchView(ContractView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"get": "jobs.view_searchdocument"}

    @extend_schema(
        operation_id="search",
        description="Search the documents, best match first.",
        parameters=[SearchQuery],
        responses=SearchPageSerializer,
    )
    def get(self, request: Request) -> Response:
        query = read_query(SearchQuery, request)
        try:
            page = search(query["q"], limit=query["limit"], after=query.get("cursor"))
        except BadQuery as error:
            raise serializers.ValidationError({"q": [str(error)]}) from None
        shown = SearchPageSerializer(page).data
        if page.next is not None:
            shown["next"] = replace_query_param(request.build_absolute_uri(), "cursor", page.next)
        return Response(shown)
