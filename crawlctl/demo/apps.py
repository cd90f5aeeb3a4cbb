"""The demo as a Django app: it brings the command `demo`."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "crawlctl.demo"
    label = "demo"
    verbose_name = "Demo"
