"""
The figures of the cluster at the web server's `/metrics`, for Prometheus.

A reader must authenticate. Requests from this machine are not trusted, because a public proxy may run on it.
The separate port for metrics (`serve --metrics-port`) requires no authentication.
"""

from typing import Final

from django.conf import settings
from django.http import HttpResponse
from django.utils.crypto import constant_time_compare
from rest_framework.request import Request
from rest_framework.views import APIView

from jobs.api.cluster_metrics import refresh_cluster_metrics
from jobs.metrics import table
from nodes.api.permission import NamedPermission, View
from nodes.metrics.kinds import Process
from nodes.metrics.prometheus import registry_of, render

_REGISTRY: Final = registry_of(table.shown_by(Process.WEB), refresh=refresh_cluster_metrics)


class _MayRead(NamedPermission):
    """Admits users who may view nodes, and requests with the configured token, because the tokens of users expire."""

    def has_permission(self, request: Request, view: View) -> bool:
        scheme, _blank, given = request.headers.get("Authorization", "").partition(" ")
        token = settings.CRAWLCTL_METRICS_TOKEN
        if token and scheme == "Bearer" and constant_time_compare(given, token):
            return True
        return super().has_permission(request, view)


class MetricsView(APIView):
    """The figures as text, in the format that the reader accepts."""

    permission_classes = (_MayRead,)
    permissions_needed = {"get": "nodes.view_node"}
    schema = None

    def get(self, request: Request) -> HttpResponse:
        text, content_type = render(_REGISTRY, accept=request.headers.get("Accept", ""))
        return HttpResponse(text, content_type=content_type)
