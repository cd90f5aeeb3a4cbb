"""The web server follows the stored settings, as nodes do."""

import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from nodes.database.outage import OUTAGES
from nodes.settings.node_settings import HEARTBEAT_INTERVAL
from nodes.settings.running import current, follow_newest


class FollowStoredSettings:
    """Middleware: reads newer stored settings before a request, as often as a node beats."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response
        self._read_at = float("-inf")

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if time.monotonic() - self._read_at > current()[HEARTBEAT_INTERVAL].total_seconds():
            self._read_at = time.monotonic()
            try:
                follow_newest()
            except OUTAGES:
                # The view decides whether it can answer without the database.
                self._read_at = float("-inf")
        return self._get_response(request)
