"""Forms as Django names them. Moments are UTC, to the second, as on our other pages."""

from django.conf.locale.en.formats import *  # noqa: F403 (the forms of the other languages begin with these)

DATETIME_FORMAT = "Y-m-d H:i:s"
