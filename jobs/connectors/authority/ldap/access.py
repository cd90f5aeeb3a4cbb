"""
The authority that asks an LDAP directory about a user. It finds the groups of the user, and the groups of these groups.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from jobs.connectors.authority.kind import NOT_FOUND, Access, Limits, Status, Unreachable
from jobs.connectors.authority.ldap.directory import (
    Account,
    Entry,
    Session,
    Sessions,
    escaped,
    users_elsewhere_in_words,
)

# Largest number of groups of one user.
_MOST_GROUPS: Final = 5_000
# Number of groups whose parents one search finds.
_AT_ONCE: Final = 50
# SIDs of the groups "everyone" and "authenticated users". Each user of Active Directory is in both, but no entry says
# so.
_OF_ALL: Final = ("S-1-1-0", "S-1-5-11")
_DISABLED: Final = 0x2


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """
    The places of users and groups in a directory, and the attributes that become tokens.

    `user_filter` has `{user}` for the name of the user. The token of a group is its `group_attribute`, or the DN of its
    entry if this is empty. Each value of the `user_attribute` gives a token `user:VALUE`, the form that a file system
    connection uses.
    """

    base: str
    user_filter: str
    groups_base: str
    group_attribute: str
    is_active_directory: bool
    user_attribute: str = ""


class Directory:
    """The authority that asks one directory."""

    def __init__(self, account: Account, layout: Layout, limits: Limits) -> None:
        self._layout, self._sessions = layout, Sessions(account, limits)

    async def access(self, user: str) -> Access:
        return await self._sessions.ask(lambda session: self._access(session, user))

    async def check(self) -> str:
        return await self._sessions.ask(lambda session: check_base(session, self._layout.base))

    async def close(self) -> None:
        await self._sessions.close()

    def _access(self, session: Session, user: str) -> Access:
        own = self._layout.user_attribute
        wanted = ("uid", "gidNumber", "memberOf", "objectSid", "userAccountControl", *filter(None, [own]))
        found = find_user(
            session, base=self._layout.base, filter_=self._layout.user_filter, user=user, attributes=wanted
        )
        if isinstance(found, Access):
            return found
        if self._layout.is_active_directory:
            return _access_by_sids(session, found)
        names = {f"user:{name}" for name in found.texts(own)} if own else set()
        return Access(Status.AUTHORIZED, tuple(sorted(self._tokens(session, found) | names)))

    def _tokens(self, session: Session, user: Entry) -> set[str]:
        """Return the tokens of all groups, nested ones included. Each group is read once, so cycles end."""
        groups: dict[str, Entry] = {}
        waiting = list(self._groups_of(session, _memberships_of(user)))
        waiting += self._read(session, user.texts("memberOf"), known={entry.dn.lower() for entry in waiting})
        while waiting:
            new = [entry for entry in waiting if entry.dn.lower() not in groups]
            groups |= {entry.dn.lower(): entry for entry in new}
            if len(groups) > _MOST_GROUPS:
                raise Unreachable(f"{user.dn} has more than {_MOST_GROUPS} groups.")
            waiting = list(self._parents_of(session, {entry.dn.lower(): entry for entry in new}.values(), known=groups))
        return {token for entry in groups.values() for token in self._tokens_of(entry)}

    def _parents_of(self, session: Session, entries: Iterable[Entry], *, known: dict[str, Entry]) -> Iterator[Entry]:
        children = list(entries)
        for start in range(0, len(children), _AT_ONCE):
            some = children[start : start + _AT_ONCE]
            yield from self._groups_of(session, "".join(_member(entry.dn) for entry in some))
            named = [name for entry in some for name in entry.texts("memberOf")]
            yield from self._read(session, named, known=known)

    def _groups_of(self, session: Session, choices: str) -> Iterator[Entry]:
        # The list must be complete: if a group were missing, the user would see documents that deny this group.
        return session.search(self._layout.groups_base, f"(|{choices})", self._attributes, is_whole=True)

    def _read(self, session: Session, names: Sequence[str], *, known: Iterable[str]) -> Iterator[Entry]:
        seen = set(known)
        for name in names:
            if name.lower() not in seen:
                seen.add(name.lower())
                entry = session.entry(name, self._attributes)
                if entry is not None:
                    yield entry

    def _tokens_of(self, group: Entry) -> Sequence[str]:
        return group.texts(self._layout.group_attribute) if self._layout.group_attribute else [group.dn]

    @property
    def _attributes(self) -> tuple[str, ...]:
        return tuple(filter(None, ("memberOf", self._layout.group_attribute)))


def check_base(session: Session, base: str) -> str:
    """
    Return a sentence about the parts of a base of users that are on other servers; "" if there are none.

    Raises:
        LDAPException, Unreachable: the base cannot be read.
    """
    if session.entry(base, ("objectClass",)) is None:
        raise Unreachable(f"The directory has no entry {base}, or the account may not read it.")
    return session.users_elsewhere(base)


def find_user(session: Session, *, base: str, filter_: str, user: str, attributes: Sequence[str]) -> Entry | Access:
    """Return the entry of a user. If there is no entry or more than one, return the answer of the authority."""
    elsewhere: list[str] = []
    found = session.search(base, filter_.replace("{user}", escaped(user)), attributes, elsewhere=elsewhere)
    first, second = next(found, None), next(found, None)
    if first is None:
        return replace(NOT_FOUND, why=users_elsewhere_in_words(base, elsewhere))
    if second is not None:
        # The name is ambiguous, and one user must not get the tokens of another.
        return Access(Status.UNAUTHORIZED, why="Several entries of the directory have this name.")
    return first


def _memberships_of(user: Entry) -> str:
    """
    Return the parts of a filter. The filter finds the groups that list the user by entry or by uid, and the user's
    primary group.
    """
    by_uid = "".join(f"(&(objectClass=posixGroup)(memberUid={escaped(uid)}))" for uid in user.texts("uid"))
    primary = "".join(f"(&(objectClass=posixGroup)(gidNumber={escaped(gid)}))" for gid in user.texts("gidNumber"))
    return f"{_member(user.dn)}{by_uid}{primary}"


def _member(dn: str) -> str:
    return f"(member={escaped(dn)})(uniqueMember={escaped(dn)})"


def _access_by_sids(session: Session, user: Entry) -> Access:
    """Return the answer of Active Directory: the SIDs of the user and of all its groups, which the server computes."""
    control = user.texts("userAccountControl")
    if control and control[0].isdecimal() and int(control[0]) & _DISABLED:
        return Access(Status.UNAUTHORIZED, why="The account is disabled.")
    # A directory returns this attribute only in a search with the entry itself as its base.
    groups = session.entry(user.dn, ("tokenGroups",))
    if groups is None:
        return NOT_FOUND
    raw = [*user.attributes.get("objectsid", ()), *groups.attributes.get("tokengroups", ())]
    try:
        sids = {sid_in_words(value) for value in raw}
    except ValueError:
        raise Unreachable(f"{user.dn} has a SID that cannot be read.") from None
    return Access(Status.AUTHORIZED, tuple(sorted(sids.union(_OF_ALL))))


def sid_in_words(raw: bytes) -> str:
    """
    Return a security identifier of Windows in its usual form, such as `S-1-5-21-1-2-3-500`.

    Raises: ValueError: the bytes are not a security identifier.
    """
    if len(raw) < 8 or len(raw) != 8 + 4 * raw[1]:
        raise ValueError(raw)
    authority = int.from_bytes(raw[2:8], "big")
    parts = struct.unpack(f"<{raw[1]}I", raw[8:])
    return "-".join(map(str, ("S", raw[0], authority, *parts)))
