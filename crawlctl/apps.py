"""The composition root as a Django app: its checks and its commands."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from crawlctl.roles import write_roles


class CrawlctlConfig(AppConfig):
    name = "crawlctl"
    label = "crawlctl"
    verbose_name = "crawlctl"

    def ready(self) -> None:
        post_migrate.connect(write_roles, dispatch_uid="crawlctl.roles")
