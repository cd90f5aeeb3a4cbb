"""The settings of logins: passwords, and a provider of OpenID Connect (docs/single-sign-on.md)."""

import datetime as dt
from collections.abc import Callable
from typing import Any, Final

from nodes.settings.declaration import Rule, Setting
from nodes.settings.kinds import Flag, Seconds, Text, Words

_A_DAY: Final = 24 * 3600

PASSWORD_LOGIN: Final = Setting(
    path="web.password_login",
    environment="CRAWLCTL_PASSWORD_LOGIN",
    kind=Flag(),
    default=True,
    meaning="Switch for passwords. With `no`, pages and the API accept no password, and users log in at the provider.",
)
ISSUER: Final = Setting(
    path="oidc.issuer",
    environment="CRAWLCTL_OIDC_ISSUER",
    kind=Text(
        most=500,
        what="an https address without a query (http only for loopback)",
        matches=r"https://[^\s?#/]+(/[^\s?#]*)?|http://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?(/[^\s?#]*)?",
    ),
    default="",
    meaning="Issuer of the provider of OpenID Connect, exactly as the provider writes it. If empty, there is no single sign-on.",
)
CLIENT_ID: Final = Setting(
    path="oidc.client_id",
    environment="CRAWLCTL_OIDC_CLIENT_ID",
    kind=Text(),
    default="",
    meaning="Identifier of crawlctl at the provider.",
)
CLIENT_SECRET: Final = Setting(
    path="oidc.client_secret",
    environment="CRAWLCTL_OIDC_CLIENT_SECRET",
    kind=Text(),
    default="",
    meaning="Secret of crawlctl at the provider. If empty, crawlctl is a public client, which only PKCE protects.",
)
SCOPE: Final = Setting(
    path="oidc.scope",
    environment="CRAWLCTL_OIDC_SCOPE",
    kind=Words(apart_by=" "),
    default=("openid", "profile", "email"),
    meaning="Scopes that crawlctl requests. `openid` is always among them. Some providers need another one for groups.",
)
NAME_CLAIM: Final = Setting(
    path="oidc.name_claim",
    environment="CRAWLCTL_OIDC_NAME_CLAIM",
    kind=Text(),
    default="preferred_username",
    meaning="Claim with the name of a new user. Users must not be able to change it at the provider, because "
    "crawlctl asks authorities about this name.",
)
GROUPS_CLAIM: Final = Setting(
    path="oidc.groups_claim",
    environment="CRAWLCTL_OIDC_GROUPS_CLAIM",
    kind=Text(),
    default="groups",
    meaning="Claim with the groups of a user. A dot leads into an object: `realm_access.roles`.",
)
ROLES: Final = Setting(
    path="oidc.roles",
    environment="CRAWLCTL_OIDC_ROLES",
    kind=Words(
        what="GROUP=ROLE with the role viewer, operator or administrator",
        matches=r".+=(viewer|operator|administrator)",
    ),
    default=(),
    meaning="Role of each group, as GROUP=ROLE. A user without any of these groups may not log in.",
)
SESSION: Final = Setting(
    path="oidc.session",
    environment="CRAWLCTL_OIDC_SESSION",
    kind=Seconds(least=60, most=30 * _A_DAY),
    default=dt.timedelta(hours=8),
    meaning="Lifetime of a session that began at the provider or with a login link. Then the user logs in again, with the roles of that moment.",
)
TOKENS: Final = Setting(
    path="oidc.tokens",
    environment="CRAWLCTL_OIDC_TOKENS",
    kind=Seconds(least=60),
    default=dt.timedelta(days=30),
    meaning="Time after the last login at the provider in which the API tokens of that user are valid. A new login makes them valid again.",
)
SETTINGS: Final = (
    PASSWORD_LOGIN,
    ISSUER,
    CLIENT_ID,
    CLIENT_SECRET,
    SCOPE,
    NAME_CLAIM,
    GROUPS_CLAIM,
    ROLES,
    SESSION,
    TOKENS,
)


def _no_client(value: Callable[[Setting[Any]], Any]) -> str:
    return f"A provider needs {CLIENT_ID.environment}, too." if value(ISSUER) and not value(CLIENT_ID) else ""


def _no_roles(value: Callable[[Setting[Any]], Any]) -> str:
    return f"No user could log in. Set {ROLES.environment}." if value(ISSUER) and not value(ROLES) else ""


def _why_no_login_is_possible(value: Callable[[Setting[Any]], Any]) -> str:
    missing = not value(PASSWORD_LOGIN) and not value(ISSUER)
    return f"Without passwords, users need a provider. Set {ISSUER.environment}." if missing else ""


RULES: Final = (
    Rule(paths=(CLIENT_ID.path, ISSUER.path), breach=_no_client),
    Rule(paths=(ROLES.path, ISSUER.path), breach=_no_roles),
    Rule(paths=(PASSWORD_LOGIN.path, ISSUER.path), breach=_why_no_login_is_possible),
)
