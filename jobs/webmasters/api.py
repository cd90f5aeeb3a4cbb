"""The operations for webmasters in the API. They need no login, like the pages."""

from typing import Any, Final

from drf_spectacular.utils import extend_schema
from rest_framework import exceptions, serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.host_details import HourSerializer
from jobs.settings.webmasters import PAGES
from jobs.webmasters.figures import KEPT_FOR, Figures, Reason, are_public, read_figures
from jobs.webmasters.pages import host_meant
from jobs.webmasters.screens import crawler
from nodes.api.base import ContractView
from nodes.api.strict import Nothing, read_query
from nodes.errors import Invalid
from nodes.settings.running import current

_CACHED: Final = f"public, max-age={KEPT_FOR:.0f}"


class WebmasterLimitSerializer(serializers.Serializer[Any]):
    """The limits in force for the host, and the reason for them."""

    is_closed = serializers.BooleanField(help_text="True if no request is sent.")
    open_requests = serializers.IntegerField(source="limits.requests", help_text="Open requests at the same time.")
    gap = serializers.FloatField(source="limits.gap", help_text="Seconds between the starts of two requests.")
    bytes_per_second = serializers.FloatField(source="limits.bytes_per_second", allow_null=True)
    reason = serializers.ChoiceField([*Reason])
    back_off_until = serializers.DateTimeField(
        allow_null=True, help_text="End of the back-off after an answer 429 or 503."
    )


class WebmasterFiguresSerializer(serializers.Serializer[Figures]):
    """Requests to the host in the last day."""

    read_at = serializers.DateTimeField()
    counted_until = serializers.DateTimeField(help_text="Later requests are not counted yet.")
    requests = serializers.IntegerField()
    bytes_read = serializers.IntegerField()
    hours = HourSerializer(many=True, help_text="The last 24 hours, the oldest first. Empty without a request.")
    answers = serializers.DictField(
        source="answers.by_code", child=serializers.IntegerField(), help_text="The newest answers, by their codes."
    )
    answers_since = serializers.DateTimeField(source="answers.since", allow_null=True)
    limit = WebmasterLimitSerializer(source="in_force", allow_null=True)
    evidence_blocks = serializers.IntegerField(
        source="evidence.seq", default=0, help_text="Blocks of the record of requests. 0 if there is none."
    )
    evidence_hash = serializers.CharField(
        source="evidence.hash", default="", allow_blank=True, help_text="Hash of the last block of this record."
    )


class WebmasterSerializer(serializers.Serializer[Any]):
    """Crawler and its requests to one host."""

    host = serializers.CharField(help_text="Host in its normal form.")
    operator = serializers.CharField(allow_blank=True)
    contact = serializers.CharField(allow_blank=True)
    user_agent = serializers.CharField()
    robots_name = serializers.CharField(help_text="Name of the crawler in robots.txt.")
    figures = WebmasterFiguresSerializer(allow_null=True, help_text="Null if the figures of the host are not public.")


class WebmasterView(ContractView):
    """Answers webmasters without a login: the crawler, and the figures of their host."""

    authentication_classes = ()
    permission_classes = (AllowAny,)

    @extend_schema(
        operation_id="webmasters_retrieve",
        description="Return who crawls, and the figures of a host if they are public. Needs no login. 404 if CRAWLCTL_WEBMASTERS is off.",
        responses={200: WebmasterSerializer},
        auth=[],
    )
    def get(self, request: Request, host: str) -> Response:
        if not current()[PAGES]:
            raise exceptions.NotFound("The pages for webmasters are switched off.")
        read_query(Nothing, request)
        try:
            name = host_meant(host)
        except Invalid as invalid:
            raise exceptions.NotFound(str(invalid)) from None
        figures = read_figures(name) if are_public(name) else None
        shown = WebmasterSerializer({"host": name, **crawler(), "figures": figures}).data
        return Response(shown, headers={"Cache-Control": _CACHED})
