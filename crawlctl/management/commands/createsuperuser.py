"""Django's `createsuperuser`, which leaves a line in the journal."""

import getpass
from typing import Any

from django.contrib.auth.management.commands import createsuperuser

from crawlctl.access.accounts import users_journaled


class Command(createsuperuser.Command):
    def handle(self, *args: Any, **options: Any) -> str | None:
        with users_journaled(made_by=getpass.getuser()):
            output: str | None = super().handle(*args, **options)
        return output
