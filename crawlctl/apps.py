"""The composition root as a Django app: its checks and its commands."""

import logging

from django.apps import AppConfig, apps
from django.contrib.auth.signals import user_logged_in
from django.db.models.signals import post_migrate, pre_save

from crawlctl.access.roles import write_roles
from crawlctl.web.failures import log_outage_in_one_line


class CrawlctlConfig(AppConfig):
    name = "crawlctl"
    label = "crawlctl"
    verbose_name = "crawlctl"
    # Kinds use the tables, so they are imported when a kind is first needed.
    task_kinds = "crawlctl.backups.kinds:KINDS"

    def ready(self) -> None:
        logging.getLogger("django.request").addFilter(log_outage_in_one_line)
        # Django sends the signal for each app with models. At the last one, all permissions exist.
        *_, last = (app for app in apps.get_app_configs() if app.models_module is not None)
        post_migrate.connect(write_roles, sender=last, dispatch_uid="crawlctl.access.roles")
        # The receivers use the models, which can be imported only now.
        from crawlctl.access.accounts import end_tokens_with_password  # noqa: PLC0415
        from crawlctl.access.language import remember_language  # noqa: PLC0415

        user_logged_in.connect(remember_language, dispatch_uid="crawlctl.access.language")
        pre_save.connect(end_tokens_with_password, sender="auth.User", dispatch_uid="crawlctl.access.accounts")
