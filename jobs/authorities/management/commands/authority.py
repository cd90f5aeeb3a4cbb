"""`manage.py authority VERB`: states and checks of authorities, what a user may see, and tokens of services."""

import argparse
import getpass
from collections.abc import Callable, Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from jobs.authorities import verbs
from jobs.authorities.contract import read_question, text_of
from jobs.authorities.models import AuthorityConnection, MappingConnection, ServiceToken
from jobs.authorities.threaded_service import authority_service
from nodes.errors import Invalid, NotDone
from nodes.management.database import check_database


class Command(BaseCommand):
    # Standard output carries only the answer, without the warnings of checks.
    requires_system_checks: list[str] = []
    help = "Show and check authorities, ask what a user may see, and make tokens of services (docs/authorities.md)."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add = parser.add_subparsers(dest="verb", required=True).add_parser
        add("list", help="list the authorities and mappings with their states")
        for verb, noun in (("check", "an authority"), ("check-mapping", "a mapping")):
            add(verb, help=f"check whether the system of {noun} can be reached").add_argument(
                "name", help=f"name of {noun}"
            )
        ask = add("ask", help="print what a user may see, in ManifoldCF's lines")
        ask.add_argument("username", help="name of the user")
        ask.add_argument("--domain", default="", help="domain of the user")
        add("tokens", help="list the tokens of services")
        create = add("create-token", help="create a token of a service, and print it this once")
        create.add_argument("name", help="name of the service")
        create.add_argument("--days", type=int, help="days until the token expires (default: never)")
        add("delete-token", help="revoke a token of a service").add_argument("name", help="name of the service")

    def handle(self, *_args: Any, verb: str, **given: Any) -> None:
        check_database()
        perform: Callable[[dict[str, Any]], Iterator[str]] = getattr(self, "_" + verb.replace("-", "_"))
        try:
            for line in perform(given):
                self.stdout.write(line)
        except Invalid as invalid:
            raise CommandError(invalid.by_field, returncode=2) from invalid
        except NotDone as refused:
            raise CommandError(str(refused), returncode=1) from refused

    @staticmethod
    def _list(_given: dict[str, Any]) -> Iterator[str]:
        for one in AuthorityConnection.objects.select_related("group", "prerequisite"):
            domain = f", domain {one.domain}" if one.domain else ""
            yield f"{one.name}: {one.kind}, group {one.group.name}{domain}{_after(one)}{_state(one)}"
        for mapping in MappingConnection.objects.select_related("prerequisite"):
            yield f"{mapping.name}: mapping {mapping.kind}{_after(mapping)}{_state(mapping)}"

    @staticmethod
    def _check(given: dict[str, Any]) -> Iterator[str]:
        yield _check(AuthorityConnection, given["name"])

    @staticmethod
    def _check_mapping(given: dict[str, Any]) -> Iterator[str]:
        yield _check(MappingConnection, given["name"])

    @staticmethod
    def _ask(given: dict[str, Any]) -> Iterator[str]:
        question = read_question({"username": given["username"], "domain": given["domain"]}.items())
        yield text_of(question, authority_service().ask(question.users)).removesuffix("\n")

    @staticmethod
    def _tokens(_given: dict[str, Any]) -> Iterator[str]:
        for token in ServiceToken.objects.all():
            expires = f"{token.expires_at:%Y-%m-%d %H:%M}Z" if token.expires_at else "never"
            yield f"{token.name}: created by {token.created_by}, expires: {expires}"

    @staticmethod
    def _create_token(given: dict[str, Any]) -> Iterator[str]:
        _token, text = verbs.create_token(name=given["name"], days=given["days"], made_by=getpass.getuser())
        yield text

    @staticmethod
    def _delete_token(given: dict[str, Any]) -> Iterator[str]:
        verbs.delete_token(_find(ServiceToken, given["name"]), made_by=getpass.getuser())
        yield f"The token {given['name']} is revoked."


def _check(model: verbs.Kind, name: str) -> str:
    checked = verbs.check(model, _find(model, name), made_by=getpass.getuser())
    if not checked.works:
        raise CommandError(f"{name}: {checked.said}", returncode=1)
    return " ".join(filter(None, [f"{name} works.", checked.said]))


def _find(model: Any, name: str) -> int:  # noqa: ANN401 (any of the models)
    found: int | None = model._default_manager.filter(name=name).values_list("pk", flat=True).first()  # noqa: SLF001
    if found is None:
        raise CommandError(f"No {verbs.noun_of(model)} has the name {name!r}.", returncode=2)
    return found


def _after(connection: verbs.Connection) -> str:
    return f", after {connection.prerequisite.name}" if connection.prerequisite else ""


def _state(connection: verbs.Connection) -> str:
    if connection.silent_since is None:
        return ""
    return f", does not answer since {connection.silent_since:%Y-%m-%d %H:%M}Z: {connection.last_error}"
