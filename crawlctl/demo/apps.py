"""The demo as a Django app: it provides the command `demo`."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "crawlctl.demo"
    label = "demo"
    verbose_name = "Demo"
