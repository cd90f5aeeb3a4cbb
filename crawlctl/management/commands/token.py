"""`manage.py token VERB`: API tokens of users, for an operator at a terminal of the machine."""

import argparse
import getpass
from collections.abc import Callable, Iterator
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from crawlctl.access.api_tokens import verbs
from crawlctl.access.api_tokens.scopes import SCOPES
from crawlctl.models import ApiToken
from nodes.errors import Invalid, NotDone
from nodes.management.database import check_database


class Command(BaseCommand):
    help = "Create, list and revoke long-lived API tokens of users (docs/api.md)."
    # Standard output carries only the answer, without the warnings of checks.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add = parser.add_subparsers(dest="verb", required=True).add_parser
        create = add("create", help="create a token of a user, and print it this once")
        create.add_argument("user", help="name of the user")
        create.add_argument("name", help="name of the token")
        create.add_argument("--scope", choices=list(SCOPES), default="viewer", help="role that the token has at most")
        create.add_argument("--days", type=int, help="days until the token expires (default: never)")
        listing = add("list", help="list the tokens of all users, or of one")
        listing.add_argument("user", nargs="?", help="name of the user")
        revoke = add("revoke", help="revoke a token of a user")
        revoke.add_argument("user", help="name of the user")
        revoke.add_argument("name", help="name of the token")

    def handle(self, *_args: Any, verb: str, **given: Any) -> None:
        check_database()
        perform: Callable[[dict[str, Any]], Iterator[str]] = getattr(self, f"_{verb}")
        try:
            for line in perform(given):
                self.stdout.write(line)
        except Invalid as invalid:
            raise CommandError(invalid.by_field, returncode=2) from invalid
        except NotDone as refused:
            raise CommandError(str(refused), returncode=1) from refused

    @staticmethod
    def _create(given: dict[str, Any]) -> Iterator[str]:
        facts = {name: given[name] for name in ("name", "scope", "days")}
        _token, text = verbs.create(owner=_user(given["user"]), **facts, made_by=getpass.getuser())
        yield text

    @staticmethod
    def _list(given: dict[str, Any]) -> Iterator[str]:
        tokens = ApiToken.objects.select_related("owner").order_by("owner__username", "name")
        if given["user"]:
            tokens = tokens.filter(owner_id=_user(given["user"]).pk)
        for token in tokens:
            moments = (
                f"{word} {f'{at:%Y-%m-%d %H:%M}Z' if at else 'never'}"
                for word, at in (("expires:", token.expires_at), ("last used:", token.last_used_at))
            )
            yield f"{token.owner.get_username()}: {token.name}, scope {token.scope}, {', '.join(moments)}"

    @staticmethod
    def _revoke(given: dict[str, Any]) -> Iterator[str]:
        tokens = ApiToken.objects.filter(owner_id=_user(given["user"]).pk)
        found = tokens.filter(name=given["name"]).first()
        if found is None:
            raise CommandError(f"{given['user']} has no API token with the name {given['name']!r}.", returncode=2)
        verbs.revoke(found.pk, among=tokens, made_by=getpass.getuser())
        yield f"The token {given['name']} of {given['user']} is revoked."


def _user(name: str) -> User:
    found = User.objects.filter(username=name).first()
    if found is None:
        raise CommandError(f"No user has the name {name!r}.", returncode=2)
    return found
