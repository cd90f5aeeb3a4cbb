"""LDAP directories and Active Directory as a kind of authorities, and as a kind of mappers."""

import ssl
from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext_lazy as _

from jobs.connectors.authority.kind import Access, AuthorityKind, Limits, MapperKind, Status, Unreachable
from jobs.connectors.authority.ldap.access import Directory, Layout, check_base, find_user
from jobs.connectors.authority.ldap.directory import Account, Address, Sessions, check_filter
from jobs.connectors.schema import Field, FieldKind, Schema

_PLAIN, _ACTIVE_DIRECTORY = "ldap", "active_directory"
_PLAIN_FILTER: Final = "(uid={user})"
_ACTIVE_FILTER: Final = "(&(objectClass=user)(sAMAccountName={user}))"
_LONGEST: Final = 1_000
_MOST_SERVERS: Final = 10

_ACCOUNT: Final = (
    Field(
        name="servers",
        is_destination=True,
        kind=FieldKind.LINES,
        label=_("Servers"),
        help=_("Addresses such as ldaps://dc1.example.org, one per line. The first one that answers is used."),
        is_required=True,
    ),
    Field(
        name="starts_tls",
        is_destination=True,
        kind=FieldKind.TRUTH,
        label=_("StartTLS"),
        help=_("Encrypt connections to ldap:// addresses. The certificate of the server must be valid."),
    ),
    Field(
        name="certificates",
        is_destination=True,
        kind=FieldKind.LINES,
        label=_("Certificates (PEM)"),
        help=_(
            "CA certificates that sign the certificates of the servers. If empty, the CA certificates of "
            "the machine are used."
        ),
    ),
    Field(name="bind_dn", kind=FieldKind.TEXT, label=_("Account (DN)"), help=_("If empty, searches are anonymous.")),
    Field(name="password", kind=FieldKind.SECRET, label=_("Password")),
    Field(name="base", kind=FieldKind.TEXT, label=_("Base of users (DN)"), is_required=True),
)
_USER_FILTER: Final = Field(
    name="user_filter",
    kind=FieldKind.TEXT,
    label=_("Filter of a user"),
    help=_("LDAP filter with {user}. If empty: (uid={user}), or by sAMAccountName in Active Directory."),
)
AUTHORITY_SCHEMA: Final = Schema(
    (
        *_ACCOUNT,
        Field(
            name="directory",
            kind=FieldKind.CHOICE,
            label=_("Kind of directory"),
            choices=(
                (_PLAIN, _("LDAP: tokens are groups")),
                (_ACTIVE_DIRECTORY, _("Active Directory: tokens are SIDs")),
            ),
        ),
        _USER_FILTER,
        Field(
            name="groups_base",
            kind=FieldKind.TEXT,
            label=_("Base of groups (DN)"),
            help=_("If empty, the base of users is used. Active Directory does not need this field."),
        ),
        Field(
            name="group_attribute",
            kind=FieldKind.TEXT,
            label=_("Token of a group"),
            help=_("Attribute such as cn. If empty, the token is the DN of the group."),
        ),
        Field(
            name="user_attribute",
            kind=FieldKind.TEXT,
            label=_("Token of a user"),
            help=_(
                "Attribute such as uid. It gives each user a token such as user:alice, in the form of the "
                "tokens of files. If empty, users have only the tokens of their groups."
            ),
        ),
    )
)
MAPPER_SCHEMA: Final = Schema(
    (
        *_ACCOUNT,
        _USER_FILTER,
        Field(
            name="attribute",
            kind=FieldKind.TEXT,
            label=_("Attribute"),
            help=_("Attribute of the user with the name in the other system."),
            is_required=True,
        ),
    )
)


class LdapMapper:
    """Maps a user to an attribute of its entry."""

    def __init__(self, values: Mapping[str, Any], limits: Limits) -> None:
        self._sessions = Sessions(_account_of(values), limits)
        self._base, self._attribute = values["base"], values["attribute"]
        self._filter = values.get("user_filter") or _PLAIN_FILTER

    async def map(self, user: str) -> str | None:
        found = await self._sessions.ask(
            lambda session: find_user(
                session, base=self._base, filter_=self._filter, user=user, attributes=(self._attribute,)
            )
        )
        if isinstance(found, Access):
            if found.status is Status.UNAUTHORIZED:
                raise Unreachable(found.why)
            return None
        names = found.texts(self._attribute)
        return names[0] if len(names) == 1 else None

    async def check(self) -> str:
        return await self._sessions.ask(lambda session: check_base(session, self._base))

    async def close(self) -> None:
        await self._sessions.close()


def _account_of(values: Mapping[str, Any]) -> Account:
    return Account(
        servers=tuple(map(Address.read, values["servers"])),
        starts_tls=values.get("starts_tls", False),
        certificates="\n".join(values.get("certificates", ())),
        dn=values.get("bind_dn", ""),
        password=values.get("password", ""),
    )


def _open_authority(values: Mapping[str, Any], limits: Limits) -> Directory:
    is_active = values.get("directory") == _ACTIVE_DIRECTORY
    layout = Layout(
        base=values["base"],
        user_filter=values.get("user_filter") or (_ACTIVE_FILTER if is_active else _PLAIN_FILTER),
        groups_base=values.get("groups_base") or values["base"],
        group_attribute=values.get("group_attribute", ""),
        is_active_directory=is_active,
        user_attribute=values.get("user_attribute", ""),
    )
    return Directory(_account_of(values), layout, limits)


def _judge(values: Mapping[str, Any]) -> Mapping[str, list[str]]:
    found = {"servers": _problems_of_servers(values["servers"])}
    for name in ("bind_dn", "base", "groups_base", "group_attribute", "user_attribute", "attribute", "user_filter"):
        text = values.get(name, "x")
        if len(text) > _LONGEST or not text.isprintable() or (name in {"base", "attribute"} and not text.strip()):
            found[name] = [f"Write one line of at most {_LONGEST} characters."]
    if values.get("password") and not values.get("bind_dn"):
        found["bind_dn"] = ["A password needs an account."]
    if values.get("bind_dn") and not values.get("password"):
        found["password"] = ["An account needs a password. Without one, servers take it for anonymous."]
    filter_ = values.get("user_filter")
    if filter_ and "user_filter" not in found:
        if "{user}" not in filter_:
            found["user_filter"] = ["Write a filter with {user} for the name of the user."]
        elif why := check_filter(filter_.replace("{user}", "x")):
            found["user_filter"] = [f"This filter is invalid: {why}."]
    if pem := "\n".join(values.get("certificates", ())):
        try:
            ssl.create_default_context(cadata=pem)
        except (ssl.SSLError, ValueError):
            found["certificates"] = ["Write certificates in PEM, with their BEGIN and END lines."]
    return found


def _problems_of_servers(servers: tuple[str, ...]) -> list[str]:
    if not 1 <= len(servers) <= _MOST_SERVERS:
        return [f"Write 1 to {_MOST_SERVERS} addresses."]
    found = []
    for server in servers:
        try:
            Address.read(server)
        except ValueError:
            found.append(f"{server!r} is not an address such as ldaps://dc1.example.org.")
    return found


AUTHORITY: Final = AuthorityKind(
    name="ldap",
    label=_("LDAP or Active Directory"),
    configuration=AUTHORITY_SCHEMA,
    open=_open_authority,
    judge=_judge,
)
MAPPER: Final = MapperKind(
    name="ldap", label=_("LDAP attribute"), configuration=MAPPER_SCHEMA, open=LdapMapper, judge=_judge
)
