"""Groups, connections and tokens of services in the REST API, and the operation that asks for the access of a user."""

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import QuerySet
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import mixins, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.settings import api_settings

from jobs.authorities import verbs
from jobs.authorities.callers import ServiceTokenAuthentication
from jobs.authorities.contract import read_question
from jobs.authorities.models import AuthorityConnection, AuthorityGroup, MappingConnection, ServiceToken
from jobs.authorities.serializers import (
    AccessSerializer,
    AuthorityGroupSerializer,
    AuthoritySerializer,
    CheckedSerializer,
    CreatedServiceTokenSerializer,
    MappingSerializer,
    NewServiceTokenSerializer,
    ServiceTokenSerializer,
    StateSerializer,
    access_shown,
    states,
)
from jobs.authorities.threaded_service import authority_service
from nodes.api.base import ContractView, created
from nodes.api.paging import ListingView
from nodes.api.strict import Nothing, PageQuery, read_body, read_query

_ID: Final = "[0-9]{1,18}"


class _SetUpView(mixins.RetrieveModelMixin, ListingView):
    """Rows that administrators create, change and delete."""

    query_class = PageQuery
    lookup_value_regex = _ID

    def create(self, request: Request) -> Response:
        wanted = self.get_serializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        made = self.store(None, _facts(wanted.validated_data), made_by=_name(request))
        at = reverse(f"api:{self.basename}-detail", args=[made.pk])
        return created(self.get_serializer(made).data, at=at, request=request)

    def partial_update(self, request: Request, pk: str) -> Response:
        stored = self.get_object()
        wanted = self.get_serializer(stored, data=request.data, partial=True)
        wanted.is_valid(raise_exception=True)
        changed = self.store(stored.pk, _facts(wanted.validated_data), made_by=_name(request))
        return Response(self.get_serializer(changed).data)

    def store(self, key: int | None, facts: dict[str, Any], *, made_by: str) -> Any:  # noqa: ANN401 (any of the models)
        raise NotImplementedError


def _permissions(noun: str, **more: str) -> Mapping[str, str]:
    return {
        "list": f"authorities.view_{noun}",
        "retrieve": f"authorities.view_{noun}",
        "create": f"authorities.add_{noun}",
        "partial_update": f"authorities.change_{noun}",
        "destroy": f"authorities.delete_{noun}",
        **more,
    }


@extend_schema_view(
    list=extend_schema(description="List the authority groups."),
    retrieve=extend_schema(description="Return one authority group."),
    create=extend_schema(description="Create an authority group."),
    partial_update=extend_schema(description="Rename an authority group."),
)
class GroupView(_SetUpView):
    http_method_names = ["get", "head", "options", "post", "patch", "delete"]
    permissions_needed = _permissions("authoritygroup")
    queryset = AuthorityGroup.objects.all()
    serializer_class = AuthorityGroupSerializer
    tagged_by = AuthorityGroupSerializer

    def store(self, key: int | None, facts: dict[str, Any], *, made_by: str) -> AuthorityGroup:
        if key is None:
            return verbs.create_group(**facts, made_by=made_by)
        return verbs.change_group(key, **facts, made_by=made_by) if facts else self.get_object()

    @extend_schema(description="Delete an authority group that nothing uses.")
    def destroy(self, request: Request, pk: str) -> Response:
        verbs.delete_group(int(pk), made_by=_name(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class _ConnectionView(_SetUpView):
    http_method_names = ["get", "head", "options", "post", "patch", "delete"]
    model: verbs.Kind

    def get_queryset(self) -> QuerySet[Any]:
        return self.model._default_manager.all()  # noqa: SLF001 (Django's own word)

    def store(self, key: int | None, facts: dict[str, Any], *, made_by: str) -> verbs.Connection:
        if key is None:
            return verbs.create(self.model, **facts, made_by=made_by)
        return verbs.change(self.model, key, **facts, made_by=made_by)

    def _delete(self, request: Request, pk: str) -> Response:
        verbs.delete(self.model, int(pk), made_by=_name(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _check(self, request: Request, pk: str) -> Response:
        read_body(Nothing, request)
        checked = verbs.check(self.model, int(pk), made_by=_name(request))
        return Response({"works": checked.works, "detail": checked.said})


@extend_schema_view(
    list=extend_schema(description="List the connections to authorities."),
    retrieve=extend_schema(description="Return one connection to an authority. Its secrets are masked."),
    create=extend_schema(description="Create a connection to an authority. Its secrets are masked."),
    partial_update=extend_schema(
        description="Change parts of a connection to an authority. A configuration replaces the whole one."
    ),
)
class AuthorityView(_ConnectionView):
    model = AuthorityConnection
    permissions_needed = _permissions("authorityconnection", test=verbs.MAY_ASK)
    serializer_class = AuthoritySerializer
    tagged_by = AuthoritySerializer

    @extend_schema(description="Delete a connection to an authority.")
    def destroy(self, request: Request, pk: str) -> Response:
        return self._delete(request, pk)

    @extend_schema(
        operation_id="authority_connections_test",
        description="Check whether the system of an authority can be reached with its account.",
        request=Nothing,
        responses=CheckedSerializer,
    )
    @action(detail=True, methods=["post"])
    def test(self, request: Request, pk: str) -> Response:
        return self._check(request, pk)


@extend_schema_view(
    list=extend_schema(description="List the connections to mappers."),
    retrieve=extend_schema(description="Return one connection to a mapper. Its secrets are masked."),
    create=extend_schema(description="Create a connection to a mapper. Its secrets are masked."),
    partial_update=extend_schema(
        description="Change parts of a connection to a mapper. A configuration replaces the whole one."
    ),
)
class MappingView(_ConnectionView):
    model = MappingConnection
    permissions_needed = _permissions("mappingconnection", test=verbs.MAY_ASK)
    serializer_class = MappingSerializer
    tagged_by = MappingSerializer

    @extend_schema(description="Delete a connection to a mapper that no other connection needs.")
    def destroy(self, request: Request, pk: str) -> Response:
        return self._delete(request, pk)

    @extend_schema(
        operation_id="mapping_connections_test",
        description="Check whether the system of a mapper can be reached with its account.",
        request=Nothing,
        responses=CheckedSerializer,
    )
    @action(detail=True, methods=["post"])
    def test(self, request: Request, pk: str) -> Response:
        return self._check(request, pk)


@extend_schema_view(
    list=extend_schema(description="List the tokens of services, without their texts."),
    retrieve=extend_schema(description="Return one token of a service, without its text."),
)
class ServiceTokenView(mixins.RetrieveModelMixin, ListingView):
    http_method_names = ["get", "head", "options", "post", "delete"]
    permissions_needed = {
        "list": "authorities.view_servicetoken",
        "retrieve": "authorities.view_servicetoken",
        "create": "authorities.add_servicetoken",
        "destroy": "authorities.delete_servicetoken",
    }
    keeps_answers = False
    queryset = ServiceToken.objects.all()
    serializer_class = ServiceTokenSerializer
    tagged_by = ServiceTokenSerializer
    tagged_fields = ("name", "expires_at")
    lookup_value_regex = _ID

    @extend_schema(
        description="Create a token of a service. Only this answer has its text.",
        request=NewServiceTokenSerializer,
        responses={201: CreatedServiceTokenSerializer},
    )
    def create(self, request: Request) -> Response:
        token, text = verbs.create_token(**read_body(NewServiceTokenSerializer, request), made_by=_name(request))
        at = reverse("api:service-token-detail", args=[token.pk])
        return created({**ServiceTokenSerializer(token).data, "token": text}, at=at, request=request)

    @extend_schema(description="Revoke a token of a service.")
    def destroy(self, request: Request, pk: str) -> Response:
        verbs.delete_token(int(pk), made_by=_name(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class AccessView(ContractView):
    """Answers the question which access tokens a user has. Services with a token and operators may ask."""

    http_method_names = ["get", "head", "options"]
    authentication_classes = [ServiceTokenAuthentication, *api_settings.DEFAULT_AUTHENTICATION_CLASSES]  # type: ignore[list-item]
    permissions_needed = {"get": verbs.MAY_ASK}

    @extend_schema(
        operation_id="authority_access",
        description="Return the access tokens of a user, or of a user in each of several domains, by authority.",
        parameters=[
            OpenApiParameter("username", OpenApiTypes.STR, required=True, description="Name of the user."),
            OpenApiParameter("domain", OpenApiTypes.STR, description="Domain of the user."),
            OpenApiParameter(
                "username_0",
                OpenApiTypes.STR,
                description="Name of another user. For more users, use `username_1`, `username_2` and so on.",
            ),
            OpenApiParameter("domain_0", OpenApiTypes.STR, description="Domain of the user with this number."),
        ],
        responses=AccessSerializer,
    )
    def get(self, request: Request) -> Response:
        question = read_question(request.query_params.dict().items(), is_strict=True)
        return Response({"users": question.users, "answers": access_shown(authority_service().ask(question.users))})


class StatesView(ContractView):
    """The states of connections, without their configurations."""

    http_method_names = ["get", "head", "options"]
    permissions_needed = {"get": "authorities.view_authoritygroup"}

    @extend_schema(
        operation_id="authority_states",
        description="Return the state of each connection to an authority or a mapper.",
        responses=StateSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        read_query(Nothing, request)
        return Response(StateSerializer(states(), many=True).data)


def _facts(validated: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removesuffix("_id"): value for name, value in validated.items()}


def _name(request: Request) -> str:
    return str(request.user.get_username())
