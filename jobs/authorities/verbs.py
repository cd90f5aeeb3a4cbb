"""
All operations on groups, connections and tokens of services. Pages, the API, commands and the set-up pages call these
functions.

Administrators change the objects, and operators ask and check. Each change writes a line to the journal, and a new
mark, by which every process notices the change.
"""

import uuid
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

from django.db import transaction

from jobs.authorities.models import (
    AuthorityConnection,
    AuthorityGroup,
    Generation,
    MappingConnection,
    ServiceToken,
)
from jobs.authorities.service.plan import AuthorityFacts, MapperFacts, find_cycle
from jobs.authorities.threaded_service import authority_service
from jobs.connectors.authority import registry
from jobs.connectors.authority.kind import Checked
from jobs.connectors.stored_secrets import unmask
from jobs.verbs.connections import invalidate_versions
from nodes.api.bearer import OF_A_SERVICE, digest_of, new_token
from nodes.api.lifetimes import expiry, why_no_days
from nodes.errors import InUse, Invalid, NameTaken, Unknown
from nodes.membership.changes import as_secret, record_change, record_request

MAY_ASK: Final = "authorities.ask_authority"
_MOST_NAME: Final = 200
_MOST_SECONDS: Final = 120
_MOST_AT_ONCE: Final = 100

Connection = AuthorityConnection | MappingConnection
Kind = type[AuthorityConnection] | type[MappingConnection]
_T = TypeVar("_T", bound=AuthorityGroup | AuthorityConnection | MappingConnection | ServiceToken)
_NOUNS: Final[Mapping[type, str]] = {
    AuthorityGroup: "authority group",
    AuthorityConnection: "authority",
    MappingConnection: "mapping",
    ServiceToken: "service token",
}
_FIELDS: Final[Mapping[type, tuple[str, ...]]] = {
    AuthorityGroup: ("name",),
    AuthorityConnection: (
        *("name", "kind", "configuration", "group_id", "prerequisite_id", "domain", "time_limit", "at_once"),
    ),
    MappingConnection: ("name", "kind", "configuration", "prerequisite_id", "time_limit", "at_once"),
    ServiceToken: ("name", "digest", "expires_at"),
}


# --- Groups ------------------------------------------------------------------------------------------


@transaction.atomic
def create_group(*, name: object, made_by: str) -> AuthorityGroup:
    """
    Store a new group.

    Raises:
        Invalid: the name is invalid or taken.
    """
    group = AuthorityGroup(name=_checked_name(AuthorityGroup, name))
    group.save()
    _record(group, before={}, made_by=made_by)
    return group


@transaction.atomic
def change_group(group_id: int, *, name: object, made_by: str) -> AuthorityGroup:
    """
    Rename a group. Documents of its repositories are indexed again by the next runs of their jobs.

    Until then, the documents have tokens with the old name, which no user has.

    Raises:
        Invalid: the name is invalid or taken.
        Unknown: the group does not exist.
    """
    group = _lock(AuthorityGroup, group_id)
    before = _facts(group)
    group.name = _checked_name(AuthorityGroup, name, but=group.pk)
    group.save()
    if group.name != before["name"]:
        for repository in group.repositories.order_by("pk"):
            invalidate_versions(repository)
    _record(group, before=before, made_by=made_by)
    return group


@transaction.atomic
def delete_group(group_id: int, *, made_by: str) -> None:
    """
    Delete a group that no authority and no repository uses.

    Raises:
        InUse: an authority or a repository uses the group.
        Unknown: the group does not exist.
    """
    group = _lock(AuthorityGroup, group_id)
    users = [f"authority {one.name}" for one in group.authorities.order_by("name")]
    users += [f"repository {one.name}" for one in group.repositories.order_by("name")]
    _delete(group, users, made_by=made_by)


# --- Connections -------------------------------------------------------------------------------------


@transaction.atomic
def create(model: Kind, *, kind: object, made_by: str, **facts: object) -> Connection:
    """
    Store a new connection.

    Raises:
        Invalid: a part is invalid, or the name is taken.
    """
    if not isinstance(kind, str) or kind not in kinds_of(model):
        raise Invalid({"kind": [f"Write one of {', '.join(kinds_of(model))}."]})
    connection = model(kind=kind)
    _fill(connection, {"name": "", **({"group": None} if model is AuthorityConnection else {}), **facts})
    connection.save()
    connection.refresh_from_db()
    _record(connection, before={}, made_by=made_by)
    return connection


@transaction.atomic
def change(model: Kind, connection_id: int, *, made_by: str, **changes: object) -> Connection:
    """
    Change the named parts of a connection. Its kind never changes.

    Raises:
        Invalid: a part is invalid, or the name is taken.
        Unknown: the connection does not exist.
    """
    connection: Connection = _lock(model, connection_id)
    before = _facts(connection)
    if changes.pop("kind", connection.kind) != connection.kind:
        raise Invalid({"kind": ["The kind of a connection never changes. Create another connection."]})
    _fill(connection, changes)
    # With a changed configuration, the connection is no longer silent until new questions fail.
    connection.silent_since, connection.last_error = None, ""
    connection.save()
    _record(connection, before=before, made_by=made_by)
    return connection


@transaction.atomic
def delete(model: Kind, connection_id: int, *, made_by: str) -> None:
    """
    Delete a connection that no other connection needs.

    Raises:
        InUse: another connection needs this one.
        Unknown: the connection does not exist.
    """
    connection: Connection = _lock(model, connection_id)
    users: list[str] = []
    if isinstance(connection, MappingConnection):
        users = [f"authority {one.name}" for one in connection.authorities.order_by("name")]
        users += [f"mapping {one.name}" for one in connection.followers.order_by("name")]
    _delete(connection, users, made_by=made_by)


def kinds_of(model: type) -> Mapping[str, Any]:
    """Return the installed kinds of a model of connections, by name."""
    return registry.authorities() if model is AuthorityConnection else registry.mappers()


def check(model: Kind, connection_id: int, *, made_by: str) -> Checked:
    """
    Check the system of a connection. Return the result, with a reason or a remark.

    Raises:
        Unknown: the connection does not exist.
    """
    connection = model._default_manager.filter(pk=connection_id).first()  # noqa: SLF001 (Django's own word)
    if connection is None:
        raise Unknown(_NOUNS[model], connection_id)
    snapshot = authority_service().refresh()
    of_model: list[AuthorityFacts | MapperFacts] = (
        [*snapshot.authorities] if model is AuthorityConnection else [*snapshot.mappers.values()]
    )
    facts = next((one for one in of_model if one.id == connection_id), None)
    # The service does not know a connection that is not yet committed.
    changed = Checked(works=False, said="This connection was changed just now. Check it again.")
    checked = changed if facts is None else authority_service().check(facts)
    said = ", ".join(filter(None, ["it works" if checked.works else "", checked.said]))
    record_request(f"{made_by} checked the {_NOUNS[model]} {connection.name}: {said}", made_by=made_by)
    return checked


# --- Tokens of services ------------------------------------------------------------------------------


@transaction.atomic
def create_token(*, name: object, days: object = None, made_by: str) -> tuple[ServiceToken, str]:
    """
    Store a new token of a service, which expires after some days or never; return it with its text.

    The text is not stored, so no later call can return it.

    Raises:
        Invalid: the name is invalid or taken, or the number of days is invalid.
    """
    checked = _checked_name(ServiceToken, name)
    if sentence := why_no_days(days):
        raise Invalid({"days": [sentence]})
    text = new_token(OF_A_SERVICE)
    token = ServiceToken(name=checked, digest=digest_of(text), created_by=made_by, expires_at=expiry(days))
    token.save()
    token.refresh_from_db()
    _record(token, before={}, made_by=made_by)
    return token, text


@transaction.atomic
def delete_token(token_id: int, *, made_by: str) -> None:
    """
    Revoke a token of a service.

    Raises:
        Unknown: the token does not exist.
    """
    _delete(_lock(ServiceToken, token_id), [], made_by=made_by)


def noun_of(model: type) -> str:
    """Return the noun for objects of a model, for sentences."""
    return _NOUNS[model]


# --- Checks ------------------------------------------------------------------------------------------


def _fill(connection: Connection, facts: Mapping[str, Any]) -> None:
    """Set the given parts of a connection."""
    problems: dict[str, list[str]] = {}
    if "name" in facts:
        try:
            connection.name = _checked_name(type(connection), facts["name"], but=connection.pk)
        except NameTaken:
            raise
        except Invalid as invalid:
            problems |= invalid.problems
    if "configuration" in facts or connection.pk is None:
        problems |= _fill_configuration(connection, facts.get("configuration", {}))
    for name, most in (("time_limit", _MOST_SECONDS), ("at_once", _MOST_AT_ONCE)):
        if name in facts:
            if _is_whole(facts[name], least=1, most=most):
                setattr(connection, name, int(facts[name]))
            else:
                problems[name] = [f"Write a whole number from 1 to {most}."]
    if "prerequisite" in facts:
        problems |= _fill_prerequisite(connection, facts["prerequisite"])
    if isinstance(connection, AuthorityConnection):
        problems |= _fill_authority(connection, facts)
    if problems:
        raise Invalid(problems)


def _fill_configuration(connection: Connection, configuration: object) -> dict[str, list[str]]:
    kind = kinds_of(type(connection)).get(connection.kind)
    if kind is None:
        return {"kind": [f"The kind {connection.kind} is not installed."]}
    if isinstance(configuration, Mapping):
        try:
            configuration = unmask(configuration, stored=connection.configuration, schema=kind.configuration)
        except Invalid as invalid:
            return dict(invalid.problems)
    found = kind.problems(configuration)
    if not found:
        assert isinstance(configuration, Mapping)
        connection.configuration = kind.configuration.sealed(configuration)
    return {f"configuration.{name}" if name else "configuration": said for name, said in found.items()}


def _fill_prerequisite(connection: Connection, prerequisite: int | None) -> dict[str, list[str]]:
    if prerequisite is not None and not MappingConnection.objects.filter(pk=prerequisite).exists():
        return {"prerequisite": [f"Mapping {prerequisite} does not exist."]}
    connection.prerequisite_id = prerequisite
    if isinstance(connection, MappingConnection) and prerequisite is not None and connection.pk is not None:
        # The lock serializes changes of mappings, so that two concurrent changes never make a circle together.
        rows = MappingConnection.objects.select_for_update(of=("self",)).select_related("prerequisite")
        after = {row.name: row.prerequisite.name if row.prerequisite else None for row in rows.order_by("pk")}
        stored = MappingConnection.objects.values_list("name", flat=True).get(pk=connection.pk)
        after[stored] = MappingConnection.objects.values_list("name", flat=True).get(pk=prerequisite)
        if circle := find_cycle(after.items(), start=stored):
            return {"prerequisite": [f"These mappings would need each other: {' → '.join(circle)}."]}
    return {}


def _fill_authority(connection: AuthorityConnection, facts: Mapping[str, Any]) -> dict[str, list[str]]:
    problems: dict[str, list[str]] = {}
    if "group" in facts:
        group = facts["group"]
        if group is None or not AuthorityGroup.objects.filter(pk=group).exists():
            problems["group"] = ["Choose a group." if group is None else f"Group {group} does not exist."]
        else:
            connection.group_id = group
    if "domain" in facts:
        domain = facts["domain"]
        if not isinstance(domain, str) or len(domain) > _MOST_NAME or not domain.isprintable():
            problems["domain"] = [f"A domain has at most {_MOST_NAME} printable characters."]
        else:
            connection.domain = domain
    return problems


def _checked_name(model: type[_T], name: object, *, but: int | None = None) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > _MOST_NAME or not name.isprintable():
        raise Invalid({"name": [f"A name has 1 to {_MOST_NAME} printable characters, not only blanks."]})
    if model._default_manager.filter(name=name).exclude(pk=but or 0).exists():  # noqa: SLF001 (Django's own word)
        raise NameTaken(_NOUNS[model], name)
    return name


def _is_whole(value: object, *, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _lock(model: type[_T], key: int) -> _T:
    rows = model._default_manager.select_for_update(of=("self",))  # noqa: SLF001 (Django's own word)
    thing = cast("_T | None", rows.filter(pk=key).first())
    if thing is None:
        raise Unknown(_NOUNS[model], key)
    return thing


def _delete(thing: Any, users: list[str], *, made_by: str) -> None:  # noqa: ANN401 (any of the models)
    if users:
        raise InUse(f"{thing.name} cannot be deleted while these use it: {', '.join(users)}.")
    before = _facts(thing)
    name = f"{_NOUNS[type(thing)]} {thing.name}"
    thing.delete()
    record_change(name, before=before, after={}, made_by=made_by)
    _give_new_generation()


def _record(thing: Any, *, before: dict[str, Any], made_by: str) -> None:  # noqa: ANN401 (any of the models)
    record_change(f"{_NOUNS[type(thing)]} {thing.name}", before=before, after=_facts(thing), made_by=made_by)
    _give_new_generation()


def _give_new_generation() -> None:
    """
    Write a new mark in the transaction of this change. Other changes wait for its end, so the mark is that of the last
    committed change.
    """
    Generation.objects.bulk_create(
        [Generation(mark=uuid.uuid4())], update_conflicts=True, unique_fields=["id"], update_fields=["mark"]
    )


def _facts(thing: Any) -> dict[str, Any]:  # noqa: ANN401 (any of the models)
    facts = {name: getattr(thing, name) for name in _FIELDS[type(thing)]}
    return {name: as_secret(value) if name == "digest" else value for name, value in facts.items()}
