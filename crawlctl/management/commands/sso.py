"""`manage.py sso VERB`: single sign-on, for an operator at a terminal of the machine."""

import argparse
import getpass
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse

from crawlctl.access.single_sign_on import links, users
from jobs.settings.logins import ISSUER
from jobs.settings.table import PORT, TRUSTED_ORIGINS
from nodes.errors import Invalid, NotDone
from nodes.management.database import check_database
from nodes.settings.running import current


class Command(BaseCommand):
    help = "Make login links, and connect users with subjects of the provider (docs/single-sign-on.md)."
    # Standard output carries only the answer, without the warnings of checks.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add = parser.add_subparsers(dest="verb", required=True).add_parser
        login_link = add("login-link", help="print a link with which a user logs in once, within ten minutes")
        login_link.add_argument("user", help="name of the user")
        link = add("link", help="let an existing user log in at the provider, and disable the user's password")
        link.add_argument("user", help="name of the user")
        link.add_argument("subject", help="subject of the user at the provider (claim sub)")
        unlink = add("unlink", help="end the logins of a user at the provider")
        unlink.add_argument("user", help="name of the user")

    def handle(self, *_args: Any, verb: str, user: str, **given: Any) -> None:
        check_database()
        found = User.objects.filter(username=user).first()
        if found is None:
            raise CommandError(f"No user has the name {user!r}.", returncode=2)
        perform: Callable[..., str] = {"login-link": _login_link, "link": _link, "unlink": _unlink}[verb]
        try:
            self.stdout.write(perform(found, given))
        except Invalid as invalid:
            raise CommandError(invalid.by_field, returncode=2) from invalid
        except NotDone as refused:
            raise CommandError(str(refused), returncode=1) from refused


def _login_link(user: User, _given: dict[str, Any]) -> str:
    text = links.new_link(user, made_by=getpass.getuser())
    origins = current()[TRUSTED_ORIGINS]
    origin = origins[0].rstrip("/") if origins else f"http://127.0.0.1:{current()[PORT]}"
    return f"{origin}{reverse('login-link')}?{urlencode({'link': text})}"


def _link(user: User, given: dict[str, Any]) -> str:
    issuer = current()[ISSUER]
    if not issuer:
        raise CommandError(f"There is no provider. Set {ISSUER.environment}.", returncode=2)
    users.link(user, issuer=issuer, subject=given["subject"], made_by=getpass.getuser())
    return f"{user.get_username()} logs in at the provider from now on. The password of this user is disabled."


def _unlink(user: User, _given: dict[str, Any]) -> str:
    users.unlink(user, made_by=getpass.getuser())
    return f"{user.get_username()} does not log in at the provider any more, and has no API tokens."
