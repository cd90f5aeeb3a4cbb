"""
Formats, under Django's names, also for the other languages. Moments are UTC, to the second, as on our other pages.
"""

from django.conf.locale.en.formats import *  # type: ignore[import-untyped]  # noqa: F403

DATETIME_FORMAT = "Y-m-d H:i:s"
