"""The app `authorities`: groups, connections to authorities and mappers, and tokens of services."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class AuthoritiesConfig(AppConfig):
    name = "jobs.authorities"
    label = "authorities"
    verbose_name = _("Authorities")
    default_auto_field = "django.db.models.BigAutoField"
    # A source of lines for the attention list. That package is in a lower layer, so it cannot import this one.
    attention = "jobs.authorities.attention:silent_authorities"
