"""The limits that webmasters asked for: their list, and their withdrawal by operators."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.models import WebmasterLimit
from jobs.queries.webmasters import LimitLine, read_webmasters_limits
from jobs.verbs import webmasters
from jobs.verbs.hosts import MAY_STOP
from nodes.api.base import ContractView
from nodes.api.strict import Nothing, StrictSerializer, read_body, read_query


class WebmastersLimitSerializer(serializers.Serializer[LimitLine]):
    """Limit of a host that its webmaster asked for, after a proof of control."""

    host = serializers.CharField(help_text="Host. Without a port, it means every port.")
    gap = serializers.FloatField(
        allow_null=True, help_text="Seconds between the starts of two requests. Null means no requests."
    )
    proof = serializers.ChoiceField(
        WebmasterLimit.Proof.values, help_text="Way in which control of the host was proved."
    )
    proved_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    is_in_force = serializers.BooleanField(help_text="False if the policy `Webmasters` was changed by hand.")


class WebmastersLimitsSerializer(serializers.Serializer[Any]):
    limits = WebmastersLimitSerializer(many=True)


class WithdrawnSerializer(StrictSerializer):
    """Request to withdraw the limit of a host."""

    host = serializers.CharField(max_length=300, help_text="Host, as the list shows it.")


class _OfLimits(ContractView):
    """The limits of webmasters as one resource, with one ETag for all of them."""

    tagged_fields = ("limits",)

    def lock_and_read_tag(self) -> str | None:
        list(WebmasterLimit.objects.select_for_update().order_by("pk"))
        return self.tag_of_shown(_limits().data)


class WebmastersLimitsView(_OfLimits):
    permissions_needed = {"get": "jobs.view_throttlepolicy"}

    @extend_schema(
        operation_id="webmasters_limits",
        description="List the limits that webmasters asked for.",
        responses=WebmastersLimitsSerializer,
    )
    def get(self, request: Request) -> Response:
        read_query(Nothing, request)
        return _limits()


class WithdrawView(_OfLimits):
    permissions_needed = {"post": MAY_STOP}

    @extend_schema(
        operation_id="webmasters_limits_withdraw",
        description="Withdraw the limit of a host, and return the other limits.",
        request=WithdrawnSerializer,
        responses=WebmastersLimitsSerializer,
    )
    def post(self, request: Request) -> Response:
        webmasters.withdraw(read_body(WithdrawnSerializer, request)["host"], made_by=str(request.user.get_username()))
        return _limits()


def _limits() -> Response:
    return Response(WebmastersLimitsSerializer({"limits": read_webmasters_limits()}).data)
