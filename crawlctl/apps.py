"""The composition root as a Django app: its checks and its commands."""

from django.apps import AppConfig


class CrawlctlConfig(AppConfig):
    name = "crawlctl"
    label = "crawlctl"
    verbose_name = "crawlctl"
