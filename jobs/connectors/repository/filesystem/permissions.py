"""
Turns the permissions of files and folders into access tokens: owner, group, others, and POSIX access control lists.

The token of a user is `user:NAME`. The token of a group is its name, which never has a colon. The tokens never let more
users see a file than its permissions do. If all users may read, the level is open, or has the token that stands for all
users. Some unusual permissions cannot be expressed by tokens, such as a file that others may read and its group may
not. Fewer users see such a file than may read it.
"""

import errno
import functools
import grp
import os
import pwd
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from jobs.connectors.repository.access import NO_TOKENS, Access, Level

_READ: Final = 0o4
_SEARCH: Final = 0o1
_ACL: Final = "system.posix_acl_access"
# Binary form of an access control list in an extended attribute: its version, then entries of (tag, permissions, id).
_VERSION: Final = 2
_HEAD: Final = struct.Struct("<I")
_ENTRY: Final = struct.Struct("<HHI")
_OWNER, _USER, _OWNING_GROUP, _GROUP, _MASK, _OTHERS = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
# Errors that show that a file, or its file system, has no access control list.
_WITHOUT_LIST: Final = frozenset({errno.ENODATA, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
# Time for which the name of a user or group is cached (seconds), and the largest number of cached names.
_NAMES_ARE_KEPT: Final = 60
_MOST_NAMES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Grants:
    """
    The permissions of one file, as bits: of its owner, of further users and groups by id, and of others.

    The mask of an access control list has been applied.
    """

    owner: int
    owner_bits: int
    others_bits: int
    users: dict[int, int] = field(default_factory=dict)
    groups: dict[int, int] = field(default_factory=dict)


class UnreadableList(ValueError):
    """An access control list has an unknown form."""


def read_grants(*, owner: int, group: int, mode: int, acl: bytes | None) -> Grants:
    """
    Return the permissions of a file with this mode, and this access control list if it has one.

    Raises:
        UnreadableList: the access control list has an unknown form.
    """
    if acl is None:
        return Grants(owner, mode >> 6 & 0o7, mode & 0o7, groups={group: mode >> 3 & 0o7})
    if len(acl) < _HEAD.size or _HEAD.unpack_from(acl)[0] != _VERSION or (len(acl) - _HEAD.size) % _ENTRY.size:
        raise UnreadableList(acl[:100])
    entries = list(_ENTRY.iter_unpack(acl[_HEAD.size :]))
    by_tag = {tag: bits for tag, bits, _ in entries}
    mask = by_tag.get(_MASK, 0o7)
    users: dict[int, int] = {}
    groups = {group: by_tag.get(_OWNING_GROUP, 0) & mask}
    for tag, bits, id_ in entries:
        if tag == _USER and id_ != owner:
            users[id_] = bits & mask
        elif tag == _GROUP:
            groups[id_] = groups.get(id_, 0) | bits & mask
    return Grants(owner, by_tag.get(_OWNER, 0), by_tag.get(_OTHERS, 0), users, groups)


def level_of(
    grants: Grants,
    *,
    bit: int,
    everyone: str,
    user_token: Callable[[int], str],
    group_token: Callable[[int], str],
) -> Level:
    """Return the tokens of the users who have this permission. `everyone` is the token of all users, or ""."""
    users = {grants.owner: grants.owner_bits, **grants.users}
    allow = [user_token(id_) for id_, bits in users.items() if bits & bit]
    deny = [user_token(id_) for id_, bits in users.items() if not bits & bit]
    allow += [group_token(id_) for id_, bits in grants.groups.items() if bits & bit]
    without = [group_token(id_) for id_, bits in grants.groups.items() if not bits & bit]
    if not grants.others_bits & bit:
        return Level(tuple(allow), tuple(deny))
    if everyone:
        return Level((*allow, everyone), (*deny, *without))
    # Without a token that stands for all users, only an open level can admit all users.
    return NO_TOKENS if not deny and not without else Level(tuple(allow), tuple(deny))


@dataclass(frozen=True, slots=True)
class Permissions:
    """Reads the access of files. If it is `with_folders`, the folders above a file are its parents."""

    with_folders: bool = False
    everyone: str = ""
    share: Level = NO_TOKENS

    def of_folder(self, opened: int) -> Level:
        """
        Return the level of the folder behind a descriptor: the tokens of the users who may open files in the folder.
        """
        return self._level(opened, os.fstat(opened), _SEARCH)

    def of_file(self, opened: int, facts: os.stat_result, folders: Sequence[Level]) -> Access:
        """Return the access of the file behind a descriptor, below these folders."""
        return Access(self._level(opened, facts, _READ), tuple(folders), self.share)

    def _level(self, opened: int, facts: os.stat_result, bit: int) -> Level:
        try:
            grants = read_grants(owner=facts.st_uid, group=facts.st_gid, mode=facts.st_mode, acl=_list_of(opened))
        except UnreadableList as error:
            raise OSError(errno.EIO, "its access control list has an unknown form") from error
        minute = int(time.monotonic() // _NAMES_ARE_KEPT)
        return level_of(
            grants,
            bit=bit,
            everyone=self.everyone,
            user_token=lambda id_: f"user:{_user_name(id_, minute)}",
            group_token=lambda id_: _group_name(id_, minute),
        )


def _list_of(opened: int) -> bytes | None:
    try:
        return os.getxattr(opened, _ACL)
    except OSError as error:
        if error.errno in _WITHOUT_LIST:
            return None
        raise


@functools.lru_cache(_MOST_NAMES)
def _user_name(id_: int, _minute: int) -> str:
    """Return the name of a user of this machine, or the number if it has none."""
    try:
        return pwd.getpwuid(id_).pw_name
    except KeyError:
        return str(id_)


@functools.lru_cache(_MOST_NAMES)
def _group_name(id_: int, _minute: int) -> str:
    try:
        return grp.getgrgid(id_).gr_name
    except KeyError:
        return str(id_)
