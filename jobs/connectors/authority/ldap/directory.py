"""
Connections to LDAP directories: the only module that imports ldap3 (docs/decisions/0091).

ldap3 waits in threads. A connection has one thread for each question that it may ask at the same time. A cancelled
question ends its thread by closing the socket. `escaped` escapes a value for a filter.
"""

import asyncio
import contextlib
import math
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

import ldap3
from ldap3.core.exceptions import LDAPException, LDAPInvalidCredentialsResult, LDAPNoSuchObjectResult
from ldap3.utils.conv import escape_filter_chars

from jobs.connectors.authority.kind import Limits, Unreachable

_T = TypeVar("_T")
_PORTS: Final = {"ldap": 389, "ldaps": 636}
# Number of entries on one page of an answer.
_PAGE: Final = 500
# Longest text of an error in an answer (characters).
_SHOWN: Final = 200
# A filter that selects no entry.
_NO_ENTRY: Final = "(!(objectClass=*))"
# Parts without users, to which the root of each domain of Active Directory refers.
_WITHOUT_USERS: Final = re.compile(r"/(DC=ForestDnsZones|DC=DomainDnsZones|CN=Configuration),", re.IGNORECASE)

Attributes = Mapping[str, Sequence[bytes]]


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server of the directory: its host name, its port, and True for TLS from the start."""

    host: str
    port: int
    is_tls: bool

    @classmethod
    def read(cls, text: str) -> "Address":
        """
        Return the address of a text such as `ldaps://dc1.example.org`.

        Raises: ValueError: the text is not such an address.
        """
        parts = urlsplit(text)
        if parts.scheme not in _PORTS or not parts.hostname or parts.path.strip("/") or parts.query or parts.username:
            raise ValueError(text)
        return cls(parts.hostname, parts.port or _PORTS[parts.scheme], parts.scheme == "ldaps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """
    The servers of a directory, tried in this order, and the account that asks them.

    `certificates` is the PEM text of the certificate authorities that sign the certificates of the servers. If it is
    "", the certificate authorities of this machine are used. Without a `dn`, the account is anonymous.
    """

    servers: tuple[Address, ...]
    starts_tls: bool
    certificates: str
    dn: str
    password: str


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a directory. The names of `attributes` are in lower case."""

    dn: str
    attributes: Attributes

    def texts(self, name: str) -> list[str]:
        """Return the values of an attribute as texts."""
        return [value.decode(errors="replace") for value in self.attributes.get(name.lower(), ())]


class _CheckedTls(ldap3.Tls):  # type: ignore[misc]
    """TLS with Python's default context, which checks the certificate and the name of the server."""

    def __init__(self, host: str, *, certificates: str) -> None:
        super().__init__(validate=ssl.CERT_REQUIRED)
        self._host, self._certificates = host, certificates

    def wrap_socket(self, connection: ldap3.Connection, do_handshake: bool = False) -> None:  # noqa: FBT001, FBT002 (ldap3's)
        context = ssl.create_default_context(cadata=self._certificates or None)
        connection.socket = context.wrap_socket(
            connection.socket, server_hostname=self._host, do_handshake_on_connect=do_handshake
        )


class Session:
    """One bound connection of ldap3, used by one thread at a time."""

    def __init__(self, account: Account, limits: Limits) -> None:
        self._account, self._limits = account, limits
        self._connection: ldap3.Connection | None = None

    def open(self) -> None:
        """
        Connect and bind to the first server that answers.

        Raises:
            Unreachable: no server answers.
        """
        if self._connection is not None:
            return
        said = ""
        for address in self._account.servers:
            try:
                self._connection = self._bound(address)
            except LDAPInvalidCredentialsResult:
                raise Unreachable(f"{address.host} refuses the account: wrong name or password.") from None
            except (LDAPException, OSError, ValueError) as error:
                said = f"{address.host}:{address.port} cannot be used: {in_words(error)}."
            else:
                return
        raise Unreachable(said)

    def search(
        self,
        base: str,
        filter_: str,
        attributes: Sequence[str],
        *,
        scope: str = "SUBTREE",
        is_whole: bool = False,
        elsewhere: list[str] | None = None,
    ) -> Iterator[Entry]:
        """
        Yield the entries below a base that match a filter. They are requested page by page.

        Referrals to other servers are not followed: the account's password is for the configured servers. If the result
        must be whole (`is_whole`), a referral is an error. The addresses of referrals are added to `elsewhere`.

        Raises:
            LDAPException: a server refused the search, or the connection failed.
            Unreachable: no server answers, or the result is not whole although it must be.
        """
        self.open()
        assert self._connection is not None
        cookie = None
        while True:
            self._connection.search(
                base,
                filter_,
                search_scope=scope,
                attributes=list(attributes),
                paged_size=None if scope == "BASE" else _PAGE,
                paged_cookie=cookie,
                time_limit=math.ceil(self._limits.seconds),
            )
            for found in self._connection.response or ():
                if found["type"] == "searchResEntry":
                    attributes_found = {name.lower(): values for name, values in found["raw_attributes"].items()}
                    yield Entry(found["dn"], attributes_found)
                elif found["type"] == "searchResRef":
                    if is_whole:
                        raise Unreachable(f"{_reference_in_words(base, found['uri'])} Choose a base without it.")
                    if elsewhere is not None:
                        elsewhere += found["uri"]
            controls = self._connection.result.get("controls") or {}
            cookie = controls.get("1.2.840.113556.1.4.319", {}).get("value", {}).get("cookie")
            if not cookie:
                return

    def users_elsewhere(self, base: str) -> str:
        """Return a sentence about the parts of a base of users that are on other servers; "" if there are none."""
        elsewhere: list[str] = []
        # A referral does not depend on the filter.
        list(self.search(base, _NO_ENTRY, ("1.1",), elsewhere=elsewhere))
        return users_elsewhere_in_words(base, elsewhere)

    def entry(self, dn: str, attributes: Sequence[str]) -> Entry | None:
        """Return the entry of this name; None if it does not exist."""
        try:
            return next(self.search(dn, "(objectClass=*)", attributes, scope="BASE"), None)
        except LDAPNoSuchObjectResult:
            return None

    def abort(self) -> None:
        """End the waiting thread of this session, from another thread."""
        connection = self._connection
        if connection is not None and connection.socket is not None:
            with contextlib.suppress(OSError):
                connection.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._connection is not None:
            _end(self._connection)
            self._connection = None

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def _bound(self, address: Address) -> ldap3.Connection:
        seconds = self._limits.seconds
        tls = _CheckedTls(address.host, certificates=self._account.certificates)
        server = ldap3.Server(
            address.host,
            port=address.port,
            use_ssl=address.is_tls,
            tls=tls,
            get_info=ldap3.NONE,
            connect_timeout=seconds,
        )
        connection = ldap3.Connection(
            server,
            user=self._account.dn or None,
            password=self._account.password or None,
            authentication=ldap3.SIMPLE if self._account.dn else ldap3.ANONYMOUS,
            auto_referrals=False,
            check_names=False,
            raise_exceptions=True,
            read_only=True,
            receive_timeout=math.ceil(seconds),
        )
        try:
            if self._account.starts_tls and not address.is_tls:
                connection.start_tls()
            connection.bind()
        except BaseException:
            _end(connection)
            raise
        return connection


def _end(connection: ldap3.Connection) -> None:
    # `unbind` forgets the socket, and does not close a socket that did not connect. So this function closes it.
    ended = connection.socket
    with contextlib.suppress(LDAPException, OSError):
        connection.unbind()
    if ended is not None:
        with contextlib.suppress(OSError):
            ended.close()


class Sessions:
    """The sessions of one connection. Idle ones are used again."""

    def __init__(self, account: Account, limits: Limits) -> None:
        self._account, self._limits = account, limits
        self._threads = ThreadPoolExecutor(limits.at_once, thread_name_prefix="ldap")
        self._idle: list[Session] = []

    async def ask(self, question: Callable[[Session], _T]) -> _T:
        """
        Ask a question in a thread, and return its result. A cancelled question ends.

        Raises:
            Unreachable: the directory gave no usable answer.
        """
        while self._idle:
            # The server may have closed an idle session. So an error here proves nothing, and a new session is tried.
            with contextlib.suppress(LDAPException, OSError):
                return await self._ask_on(self._idle.pop(), question)
        try:
            return await self._ask_on(Session(self._account, self._limits), question)
        except (LDAPException, OSError) as error:
            raise Unreachable(f"The directory says: {in_words(error)}.") from None

    async def _ask_on(self, session: Session, question: Callable[[Session], _T]) -> _T:
        loop = asyncio.get_running_loop()
        asked = loop.run_in_executor(self._threads, _ask_and_close_on_error, session, question)
        try:
            answer = await asked
        except asyncio.CancelledError:
            session.abort()
            raise
        self._idle.append(session)
        return answer

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _ask_and_close_on_error(session: Session, question: Callable[[Session], _T]) -> _T:
    try:
        session.open()
        return question(session)
    except BaseException:
        session.close()
        raise


def escaped(text: str) -> str:
    """Return a text with its special characters escaped, for use as a value in a filter."""
    return str(escape_filter_chars(text))


def _reference_in_words(base: str, addresses: Sequence[str]) -> str:
    shown = " ".join(", ".join(addresses).split())[:_SHOWN]
    return f"A part of {base} is on another server, which is not asked: {shown}."


def users_elsewhere_in_words(base: str, addresses: Sequence[str]) -> str:
    """Return the sentence about the addresses of referrals below a base of users, or ""."""
    found = [address for address in addresses if not _WITHOUT_USERS.match(unquote(urlsplit(address).path))]
    return f"{_reference_in_words(base, found)} Users there are not found." if found else ""


def in_words(error: Exception) -> str:
    """Return an error of ldap3 as a phrase."""
    said = getattr(error, "description", None) or str(error) or type(error).__name__
    return " ".join(str(said).split())[:_SHOWN].removesuffix(".")


def check_filter(text: str) -> str:
    """Return the reason why a filter is invalid, as a phrase; "" if it is valid."""
    from ldap3.operation.search import parse_filter  # noqa: PLC0415 (a part of ldap3 that only forms need)

    try:
        parse_filter(text, None, True, None, None)  # noqa: FBT003 (ldap3's)
    except (LDAPException, IndexError, TypeError, ValueError, AttributeError) as error:
        return in_words(error) or "invalid"
    return ""
