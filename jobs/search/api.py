"""Search over the documents that outputs of the kind `search` hold."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from jobs.connectors.authority.kind import MOST_OF_A_NAME
from jobs.queries.documents.search import BadQuery, Hit
from jobs.search.all_partitions import FoundEverywhere
from jobs.search.reading import MAY_SEARCH, MAY_SEARCH_AS, search_as, search_for
from nodes.api.base import ContractView
from nodes.api.strict import PageQuery, read_query


class SegmentSerializer(serializers.Serializer[Any]):
    """Piece of text, which is no markup. `is_match` is true if it is a word of the query."""

    text = serializers.CharField()
    is_match = serializers.BooleanField()


class HitSerializer(serializers.Serializer[Hit]):
    """Document that matches the search, with its title and the matching places of its text."""

    output = serializers.IntegerField(
        source="output_id",
        allow_null=True,
        help_text="Null if another partition has the document, and no output of this partition has its name.",
    )
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
    partition = serializers.CharField(
        help_text="Name of the partition that has it. Empty if it is the partition that answers."
    )


class SearchPageSerializer(serializers.Serializer[FoundEverywhere]):
    """
    Matching documents, best first. If `has_more` is true, more than `total` documents match, and the further ones were
    not ranked.
    """

    results = HitSerializer(many=True, source="page.hits")
    total = serializers.IntegerField(source="page.total")
    has_more = serializers.BooleanField(source="page.has_more")
    next = serializers.URLField(
        source="page.next", allow_null=True, help_text="Address of the next page. Null on the last page."
    )
    silent = serializers.SerializerMethodField(
        help_text="Partitions that did not answer. Their documents are missing, so `total` is at least that much."
    )

    def get_silent(self, found: FoundEverywhere) -> list[str]:
        return [one.name for one in found.silent]


class SearchQuery(PageQuery):
    q = serializers.CharField(help_text='Search words: all must occur. Supported: "a phrase", or, -without.')
    limit = serializers.IntegerField(min_value=1, max_value=100, default=10, help_text="Documents per page.")
    as_user = serializers.CharField(
        required=False,
        max_length=MOST_OF_A_NAME,
        help_text="Login of another user, whose documents are returned. For administrators. The journal gets a line.",
    )


class SearchView(ContractView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"get": MAY_SEARCH}

    @extend_schema(
        operation_id="search",
        description="Search the documents that the user may see, best match first.",
        parameters=[SearchQuery],
        responses=SearchPageSerializer,
    )
    def get(self, request: Request) -> Response:
        query = read_query(SearchQuery, request)
        try:
            found = self._search(request, query)
        except BadQuery as error:
            raise serializers.ValidationError({"q": [str(error)]}) from None
        shown = SearchPageSerializer(found).data
        if found.page.next is not None:
            shown["next"] = replace_query_param(request.build_absolute_uri(), "cursor", found.page.next)
        return Response(shown)

    def _search(self, request: Request, query: Mapping[str, Any]) -> FoundEverywhere:
        name = str(request.user.get_username())
        facts = {"limit": query["limit"], "after": query.get("cursor")}
        if "as_user" not in query:
            return search_for(name, query["q"], **facts)
        if not request.user.has_perm(MAY_SEARCH_AS):
            raise PermissionDenied
        return search_as(query["as_user"], query["q"], **facts, made_by=name)
