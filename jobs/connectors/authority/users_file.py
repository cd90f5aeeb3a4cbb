"""
The authority that reads users and groups from a YAML file.

    users:
      alice: {groups: [staff], tokens: [alice]}
      bob: {disabled: true}
    groups:
      staff: {groups: [company]}

The tokens of a user are those in `tokens`, and the names of its groups and of the groups of these groups. The file is
read again when it has changed. It must be below CRAWLCTL_FILE_ROOTS.
"""

import asyncio
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml
from django.utils.translation import gettext_lazy as _

from jobs.connectors.authority.kind import NOT_FOUND, Access, AuthorityKind, Limits, Status, Unreachable
from jobs.connectors.roots import why_not_read
from jobs.connectors.schema import Field, FieldKind, Schema

_MOST_BYTES: Final = 16 * 1024 * 1024

SCHEMA: Final = Schema(
    (
        Field(
            name="path",
            kind=FieldKind.TEXT,
            label=_("File"),
            help=_("Absolute path of a YAML file with users and groups, below CRAWLCTL_FILE_ROOTS."),
            is_required=True,
        ),
        Field(
            name="ignores_case",
            kind=FieldKind.TRUTH,
            label=_("Ignore case"),
            help=_("Find users whose names differ in upper and lower case only."),
        ),
    )
)


@dataclass(frozen=True, slots=True)
class _Content:
    """The content of a file: the tokens of each user. A disabled user has None instead of tokens."""

    stamp: tuple[int, int, int]
    users: Mapping[str, tuple[str, ...] | None]


class UsersFile:
    """The opened file. Its content is kept until the file changes."""

    def __init__(self, path: str, *, ignores_case: bool) -> None:
        self._path, self._ignores_case = path, ignores_case
        self._content: _Content | None = None

    async def access(self, user: str) -> Access:
        users = (await asyncio.to_thread(self._read)).users
        name = user.casefold() if self._ignores_case else user
        if name not in users:
            return NOT_FOUND
        tokens = users[name]
        if tokens is None:
            return Access(Status.UNAUTHORIZED, why="The file disables this user.")
        return Access(Status.AUTHORIZED, tokens)

    async def check(self) -> None:
        await asyncio.to_thread(self._read)

    async def close(self) -> None:
        self._content = None

    def _read(self) -> _Content:
        # The path is checked again here, because this process may have other roots than the one that stored the
        # connection.
        if why := why_not_read([os.fsencode(self._path)]):
            raise Unreachable(why)
        try:
            # Without O_NONBLOCK, the open of a named pipe would wait for a writer.
            with os.fdopen(os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise Unreachable(f"{self._path} is not a file.")
                stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
                if self._content is not None and self._content.stamp == stamp:
                    return self._content
                if status.st_size > _MOST_BYTES:
                    raise Unreachable(f"{self._path} has more than {_MOST_BYTES} bytes.")
                text = file.read(_MOST_BYTES + 1)
        except OSError as error:
            raise Unreachable(f"{self._path} cannot be read: {os.strerror(error.errno or 0)}.") from None
        self._content = _Content(stamp, _users_of(text, path=self._path, ignores_case=self._ignores_case))
        return self._content


def _users_of(text: bytes, *, path: str, ignores_case: bool) -> Mapping[str, tuple[str, ...] | None]:
    try:
        read = yaml.load(text, Loader=_Loader)  # noqa: S506 (the C form of the safe loader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark is not None else ""
        raise Unreachable(f"{path} is not YAML{line}.") from None
    try:
        return _Reading(read, ignores_case=ignores_case).users()
    except ValueError as error:
        raise Unreachable(f"{path}: {error}.") from None


_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Reading:
    """Checks the parsed YAML, and computes the tokens of its users."""

    def __init__(self, read: object, *, ignores_case: bool) -> None:
        whole = _object("the file", read)
        _only(whole, {"users", "groups"}, of="the file")
        self._users = _object("users", whole.get("users"))
        self._groups = _object("groups", whole.get("groups"))
        self._ignores_case = ignores_case

    def users(self) -> dict[str, tuple[str, ...] | None]:
        parents = {name: self._texts(facts, "groups", of=f"group {name}") for name, facts in self._groups.items()}
        found: dict[str, tuple[str, ...] | None] = {}
        for name, facts in self._users.items():
            key = name.casefold() if self._ignores_case else name
            if key in found:
                # An ambiguous name is an error: two users must neither share their tokens nor replace each other.
                raise ValueError(f"two users have the name {key} without regard to case")
            found[key] = self._tokens(name, facts, parents)
        return found

    def _tokens(self, name: str, given: object, parents: Mapping[str, list[str]]) -> tuple[str, ...] | None:
        facts = _object(f"user {name}", given)
        _only(facts, {"groups", "tokens", "disabled"}, of=f"user {name}")
        if facts.get("disabled", False) is not False:
            # A value other than true or false also disables the user.
            return None
        groups: set[str] = set()
        waiting = self._texts(facts, "groups", of=f"user {name}")
        while waiting:
            group = waiting.pop()
            if group not in groups:
                groups.add(group)
                waiting += parents.get(group, [])
        return tuple(sorted(groups.union(self._texts(facts, "tokens", of=f"user {name}"))))

    @staticmethod
    def _texts(given: object, name: str, *, of: str) -> list[str]:
        value = _object(of, given).get(name) or []
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise ValueError(f"{name} of {of} must be a list of texts")
        return list(value)


def _object(name: str, value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{name} must be an object whose names are texts")
    return value


def _only(value: Mapping[str, Any], known: set[str], *, of: str) -> None:
    if unknown := sorted(set(value) - known):
        raise ValueError(f"{of} has the unknown names {', '.join(unknown)}; there are {', '.join(sorted(known))}")


def _judge(values: Mapping[str, Any]) -> Mapping[str, list[str]]:
    path = values["path"]
    if not path.startswith("/") or not path.isprintable():
        return {"path": ["Write an absolute path."]}
    why = why_not_read([os.fsencode(path)])
    return {"path": [why]} if why else {}


def _open(values: Mapping[str, Any], _limits: Limits) -> UsersFile:
    return UsersFile(values["path"], ignores_case=values.get("ignores_case", False))


FILE: Final = AuthorityKind(name="file", label=_("File of users"), configuration=SCHEMA, open=_open, judge=_judge)
