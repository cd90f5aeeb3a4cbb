"""The ASGI application: pages and the API over HTTP, live views over web sockets."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")

from django.core.asgi import get_asgi_application  # noqa: E402 (Django must know its settings first)

application = get_asgi_application()
