"""Users in the claims of a provider: the subject, the name, the roles."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from crawlctl.access.roles import ROLES

_LONGEST_SUBJECT: Final = 255
# Pattern of the names that Django accepts for a user.
_NAME: Final = re.compile(r"[\w.@+-]{1,150}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A user of a provider. `name` is "" if the provider gave no valid name for a user."""

    issuer: str
    subject: str
    name: str
    roles: tuple[str, ...]


def identity_of(
    claims: Mapping[str, Any], *, issuer: str, name_claim: str, groups_claim: str, mapping: Iterable[str]
) -> Identity | None:
    """Return the user of these claims, or None if the subject is invalid."""
    subject = claims.get("sub")
    if not is_subject(subject):
        return None
    roles = roles_of(groups_in(claims, groups_claim), mapping)
    return Identity(issuer=issuer, subject=subject, name=_name_in(claims, name_claim), roles=roles)


def is_subject(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_SUBJECT and value.isprintable()


def groups_in(claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    """Return the groups of a claim: a list of texts, or a single text."""
    value = _find(claims, claim)
    if isinstance(value, str):
        return frozenset({value})
    return frozenset(group for group in value if isinstance(group, str)) if isinstance(value, list) else frozenset()


def roles_of(groups: Iterable[str], mapping: Iterable[str]) -> tuple[str, ...]:
    """Return the roles that a mapping of `GROUP=ROLE` gives to these groups, the narrowest first."""
    known = set(groups)
    pairs = [entry.rpartition("=") for entry in mapping]
    given = {role for group, _equals, role in pairs if group in known}
    return tuple(role for role in ROLES if role in given)


def _name_in(claims: Mapping[str, Any], claim: str) -> str:
    value = _find(claims, claim)
    # Django stores the names of users in this form, so two names that become equal by it are one name.
    name = unicodedata.normalize("NFKC", value) if isinstance(value, str) else ""
    return name if _NAME.fullmatch(name) else ""


def _find(claims: Mapping[str, Any], claim: str) -> object:
    """
    Return the value of a claim. If no claim has the whole name, its dots separate the steps of a path into objects.
    """
    if claim in claims:
        return claims[claim]
    value: object = claims
    for name in claim.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
