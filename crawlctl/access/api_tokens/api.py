"""API tokens in the API: a user lists, creates and revokes its own tokens. Administrators see and revoke all tokens."""

from typing import Any, Final

from django.db.models import QuerySet
from django.urls import reverse
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins, serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from crawlctl.access.api_tokens import verbs
from crawlctl.access.api_tokens.scopes import SCOPES
from crawlctl.models import ApiToken
from nodes.api.base import created
from nodes.api.lifetimes import DaysField
from nodes.api.paging import ListingView
from nodes.api.strict import NewestQuery, StrictSerializer, read_body

_PLACE: Final = "api:api-token-detail"


class ApiTokenSerializer(serializers.ModelSerializer[ApiToken]):
    """API token of a user, without its text."""

    owner = serializers.CharField(source="owner.username", help_text="Name of the user.")

    class Meta:
        model = ApiToken
        fields = ("id", "owner", "name", "scope", "created_at", "created_by", "expires_at", "last_used_at")
        read_only_fields = fields


class NewApiTokenSerializer(StrictSerializer):
    """API token to create."""

    name = serializers.CharField(max_length=verbs.LONGEST_NAME, help_text="Name, unique for the user.")
    scope = serializers.ChoiceField(list(SCOPES), help_text="Role whose permissions the token has at most.")
    days = DaysField()


class CreatedApiTokenSerializer(ApiTokenSerializer):
    """A new API token, with its text, which no other answer shows."""

    token = serializers.CharField(help_text="Text of the token, shown only in this answer.")

    class Meta(ApiTokenSerializer.Meta):
        fields = (*ApiTokenSerializer.Meta.fields, "token")  # type: ignore[assignment]
        read_only_fields = fields  # type: ignore[assignment]


class ApiTokenQuery(NewestQuery):
    owner = serializers.CharField(max_length=150, required=False, help_text="Name of a user.")


@extend_schema_view(
    list=extend_schema(description="List API tokens, newest first: your own ones, and all for administrators."),
    retrieve=extend_schema(description="Return one API token, without its text."),
)
class ApiTokenView(mixins.RetrieveModelMixin, ListingView):
    http_method_names = ["get", "head", "options", "post", "delete"]
    permissions_needed = {
        "list": "crawlctl.view_apitoken",
        "retrieve": "crawlctl.view_apitoken",
        "create": "crawlctl.add_apitoken",
        "destroy": "crawlctl.delete_apitoken",
    }
    keeps_answers = False
    queryset = ApiToken.objects.none()
    serializer_class = ApiTokenSerializer
    query_class = ApiTokenQuery
    keyset = ("-id",)
    tagged_by = ApiTokenSerializer
    tagged_fields = ("name", "scope", "expires_at")
    lookup_value_regex = "[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[ApiToken]:
        return verbs.visible_to(self.request.user)

    def narrowed(self, queryset: QuerySet[Any], query: dict[str, Any]) -> QuerySet[Any]:
        return queryset.filter(owner__username=query["owner"]) if "owner" in query else queryset

    @extend_schema(
        description="Create an API token for yourself. Only this answer has its text.",
        request=NewApiTokenSerializer,
        responses={201: CreatedApiTokenSerializer},
    )
    def create(self, request: Request) -> Response:
        given = read_body(NewApiTokenSerializer, request)
        user: Any = request.user
        token, text = verbs.create(owner=user, **given, made_by=user.get_username())
        shown = {**ApiTokenSerializer(token).data, "token": text}
        return created(shown, at=reverse(_PLACE, args=[token.pk]), request=request)

    @extend_schema(description="Revoke an API token.", responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        verbs.revoke(int(pk), among=verbs.visible_to(request.user), made_by=request.user.get_username())
        return Response(status=status.HTTP_204_NO_CONTENT)
