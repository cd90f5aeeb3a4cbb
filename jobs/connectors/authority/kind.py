"""
The contract of authorities and mappers. The application `authorities` stores connections to them.

An authority answers which access tokens a user has. A mapper turns the name of a user into the name in another system.
Both are opened once for each version of their connection. One event loop uses them, and may ask several questions at
the same time. A plugin names an `AuthorityKind` or a `MapperKind` as its entry point.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from django.utils.functional import Promise

from jobs.connectors.schema import Schema

# The deny token: the only token of an answer that grants nothing, as in ManifoldCF. Protected documents deny it.
DENY_TOKEN: Final = "DEAD_AUTHORITY"  # noqa: S105 (the name of a token, and no secret)
# Longest name of a user (characters).
MOST_OF_A_NAME: Final = 1_000


class Status(enum.StrEnum):
    """The kinds of answers of an authority."""

    AUTHORIZED = "authorized"
    USER_NOT_FOUND = "user not found"
    UNAUTHORIZED = "unauthorized"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Access:
    """
    The answer of an authority about one user.

    `tokens` are the access tokens of the user. An answer that is not AUTHORIZED has no tokens: the API and the service
    add the deny token. `why` is a sentence for administrators, or "".
    """

    status: Status
    tokens: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check. `said` is the reason why the connection does not work, or a remark, or ""."""

    works: bool
    said: str = ""


NOT_FOUND: Final = Access(Status.USER_NOT_FOUND)


class Unreachable(Exception):
    """The system behind a connection gave no usable answer. The message is a sentence without secrets."""


class Opened(Protocol):
    """The common part of authorities and mappers."""

    async def check(self) -> str | None:
        """
        Check that the system can be reached with the configured account. Return a remark for administrators, or nothing.

        Raises:
            Unreachable: the system did not answer.
        """

    async def close(self) -> None:
        """Close all connections. No question follows."""


class Authority(Opened, Protocol):
    """An opened authority, which answers which access tokens a user has."""

    async def access(self, user: str) -> Access:
        """
        Return the answer about a user. The caller cancels this call at the time limit of the connection.

        Raises:
            Unreachable: the system did not answer.
        """


class Mapper(Opened, Protocol):
    """An opened mapper, which turns the name of a user into the name in another system."""

    async def map(self, user: str) -> str | None:
        """
        Return the name of the user in another system; None if it has none.

        Raises:
            Unreachable: the system did not answer.
        """


_T_co = TypeVar("_T_co", bound=Opened, covariant=True)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a connection: the number of questions at the same time, and the time of each question (seconds)."""

    at_once: int = 4
    seconds: float = 5.0


def no_problems(_values: Mapping[str, Any]) -> Mapping[str, list[str]]:
    """Return no problems: the kind has nothing to judge beyond its schema."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[_T_co]):
    """
    A kind of authorities or mappers.

    `judge` returns the problems that only the kind can find in typed values, by field. `open` makes no network
    connection. The first question makes it.
    """

    name: str
    label: str | Promise
    configuration: Schema
    open: Callable[[Mapping[str, Any], Limits], _T_co]
    judge: Callable[[Mapping[str, Any]], Mapping[str, list[str]]] = no_problems

    def problems(self, configuration: object) -> dict[str, list[str]]:
        """
        Return the problems of a configuration, by field. Problems that concern no single field have the field "".
        """
        if not isinstance(configuration, Mapping):
            return {"": ["A configuration is an object."]}
        found = self.configuration.problems(configuration)
        return found or {
            name: said for name, said in self.judge(self.configuration.read(configuration)).items() if said
        }


class AuthorityKind(Kind[Authority]):
    """A kind of authorities, such as LDAP. Its `open` returns an `Authority`."""


class MapperKind(Kind[Mapper]):
    """A kind of mappers, such as a regular expression. Its `open` returns a `Mapper`."""
