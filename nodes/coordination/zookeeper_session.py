"""
One session with ZooKeeper, in the terms of the contract: the only module that knows kazoo.

A session is one client of kazoo. A session can be lost: expired, silent for too long, or refused by a server that was
restored from an older backup and has not seen what the client has. Then a new client replaces the old one: kazoo would
continue with a new session unnoticed, or request the old one endlessly.

No call waits longer than the session's timeout. A request without an answer may still be executed when the connection
returns. So a version guards each write that must not be executed late.
"""

import datetime as dt
import logging
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import uuid4

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, KazooState, WatchedEvent
from kazoo.security import make_digest_acl

from nodes.coordination.port import Refused, Unreachable
from nodes.life.trust_window import Clock, seconds_since_boot

logger = logging.getLogger(__name__)

# kazoo logs every connection attempt, several a second. The caller logs the outcome.
_kazoo_logger = logging.getLogger(f"{__name__}.kazoo")
_kazoo_logger.setLevel(logging.ERROR)

# Pause before the next connection attempt: more than an instant, but too short to be noticed (seconds).
_PAUSE: Final = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 0.25}

# Errors of ACLs, credentials and sessions: a retry would fail again.
_REFUSALS: Final = (NoAuthError, AuthFailedError, InvalidACLError)
_CONFLICTS: Final = (BadVersionError, NodeExistsError, NoNodeError, NotEmptyError)


# Largest number of operations in one transaction: their paths stay well below a server's limit of 1 MB for a request.
_AT_ONCE: Final = 1000

# Pattern of a server: a name or an address, and a port. The default port is ZooKeeper's own, 2181.
_SERVER: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+)(:(?P<port>[0-9]{1,5}))?")
_LAST_PORT: Final = 65_535

# Errors that reading a node's data may raise if it is not our JSON.
UNREADABLE: Final = (ValueError, TypeError, KeyError, OverflowError, RecursionError)


class Absent(Exception):
    """No node has this path."""


class Conflict(Exception):
    """Something has changed since it was read. Nothing was written."""


class Stat(NamedTuple):
    """The facts about a node. Times are the server's, in milliseconds."""

    version: int
    made_at: int
    changed_at: int
    session: int


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = -1


@dataclass(frozen=True, slots=True)
class Set:
    """Writes the data of a node, if it has this version."""

    path: str
    version: int
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Check:
    """Changes nothing: the node must exist, with this version unless that is -1."""

    path: str
    version: int = -1


Operation = Create | Delete | Set | Check


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a ZooKeeper: `host:port,host:port/path`, and `user:password` if it requires a login."""

    hosts: str
    root: str
    credentials: str = ""

    @classmethod
    def parse(cls, text: str, *, credentials: str = "") -> "Address":
        """
        Parse an address. The default path is /crawlctl.

        Raises:
            Refused: a host, a port, the path or the credentials are invalid.
        """
        hosts, slash, path = text.partition("/")
        root = (slash + path).rstrip("/") or "/crawlctl"
        if not all(map(_is_server, hosts.split(","))) or not is_path(root):
            raise Refused(
                f"{text!r} is not an address of ZooKeeper: it must be host:port,host:port/path, with ports of 1 to 65535"
            )
        if credentials and not credentials.partition(":")[2]:
            raise Refused("the credentials for ZooKeeper must be user:password, with a colon in between")
        return cls(hosts=hosts, root=root, credentials=credentials)


def is_path(path: str) -> bool:
    """True if this is an absolute path of names that ZooKeeper accepts."""
    names = path.split("/")[1:]
    return path.startswith("/") and all(name.isprintable() and name not in {"", ".", ".."} for name in names)


def _is_server(host: str) -> bool:
    match = _SERVER.fullmatch(host.strip())
    return match is not None and (match["port"] is None or 1 <= int(match["port"]) <= _LAST_PORT)


class Session:
    """One session. `token` is our name for it, and `id` ZooKeeper's."""

    def __init__(
        self,
        *,
        address: Address,
        timeout: dt.timedelta,
        clock: Clock = seconds_since_boot,
    ) -> None:
        """
        Begin a session. `reconnected` is called after each later connection, from a thread that must not wait.

        Raises:
            Unreachable: there is no session within the timeout.
            Refused: ZooKeeper grants no session of this length.
        """
        self.token = uuid4().hex
        self._address = address
        # ZooKeeper counts whole milliseconds.
        self._timeout = timeout // dt.timedelta(milliseconds=1) / 1000
        self._clock = clock
        self.reconnected: Callable[[Session], None] = lambda _session: None
        self._away_since: float | None = clock()
        self._is_over = False
        self._is_ended = False
        self._ending = threading.Lock()
        self._granted = float("inf")
        auth = [("digest", address.credentials)] if address.credentials else []
        self._acl = [make_digest_acl(*address.credentials.split(":", 1), all=True)] if address.credentials else None
        self._client = KazooClient(
            hosts=address.hosts,
            timeout=self._timeout,
            auth_data=auth,
            default_acl=self._acl,
            connection_retry=_PAUSE,
            logger=_kazoo_logger,
        )
        self._check_granted_timeout()
        self._client.add_listener(self._changes)
        self._client.start_async().wait(self._timeout)
        if not self._client.connected:
            self.end()
            raise Unreachable(f"ZooKeeper at {address.hosts} did not answer within {self._timeout:g} s")
        if self._granted < self._timeout:
            self.end()
            raise Refused(
                f"ZooKeeper at {address.hosts} grants sessions of at most {self._granted:g} s, and {self._timeout:g} s were requested"
                f": lower the timeout, or raise its maxSessionTimeout"
            )
        self.id: int = self._client.client_id[0]

    @property
    def is_over(self) -> bool:
        """True if the session is lost permanently."""
        return self._is_over

    @property
    def away_for(self) -> float:
        """Return the time since the connection was lost (seconds); 0 while there is one."""
        since = self._away_since
        return 0.0 if since is None else self._clock() - since

    def end(self) -> None:
        """
        End the session. With a connection, its ephemeral nodes are removed when this returns. May be called again.
        """
        with self._ending:
            if self._is_ended:
                return
            self._is_over = self._is_ended = True
        was_connected = self._client.connected
        ending = threading.Thread(target=self._end, name="end of a session", daemon=True)
        ending.start()
        if was_connected:
            ending.join(self._timeout)

    # --- Reading and writing ---------------------------------------------------------------------

    def sync(self, path: str) -> None:
        """Ensure that later reads are current. The answer of the ensemble's leader also proves that the session is alive."""
        self._result(self._client.sync_async(path))

    def get(self, path: str) -> tuple[bytes, Stat]:
        """
        Return a node's data.

        Raises:
            Absent: the node does not exist.
        """
        data, stat = self._result(self._client.get_async(path))
        return data, _stat(stat)

    def get_of(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Return the data of many nodes, requested together; None for each that does not exist."""
        asked = [self._client.get_async(path) for path in paths]
        found: list[tuple[bytes, Stat] | None] = []
        for answer in asked:
            try:
                data, stat = self._result(answer)
                found.append((data, _stat(stat)))
            except Absent:
                found.append(None)
        return found

    def stat(self, path: str) -> Stat | None:
        """Return the facts about a node, or None if it does not exist."""
        found = self._result(self._client.exists_async(path))
        return None if found is None else _stat(found)

    def children(self, path: str) -> frozenset[str]:
        """
        Return the names of a node's children.

        Raises:
            Absent: the node does not exist.
        """
        return frozenset(self._result(self._client.get_children_async(path)))

    def children_of(self, paths: Sequence[str]) -> list[frozenset[str]]:
        """
        Return the names of the children of many nodes, requested together. Raise Absent if one of the nodes does not
        exist.
        """
        asked = [self._client.get_children_async(path) for path in paths]
        return [frozenset(self._result(answer)) for answer in asked]

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, numbered: bool = False
    ) -> tuple[str, Stat]:
        """
        Create a node. Return its path and the facts about it.

        Raises:
            Conflict: the node exists.
            Absent: its parent does not exist.
        """
        made = self._client.create_async(
            path, data, acl=self._acl, ephemeral=ephemeral, sequence=numbered, include_data=True
        )
        name, stat = self._result(made)
        return name, _stat(stat)

    def set(self, path: str, data: bytes, *, version: int = -1) -> Stat:
        """
        Write a node's data.

        Raises:
            Conflict: the node has another version.
            Absent: the node does not exist.
        """
        return _stat(self._result(self._client.set_async(path, data, version)))

    def delete(self, path: str, *, version: int = -1) -> None:
        """
        Remove a node.

        Raises:
            Conflict: the node has another version.
            Absent: the node does not exist.
        """
        self._result(self._client.delete_async(path, version))

    def commit(self, operations: Iterable[Operation]) -> None:
        """
        Execute all of these operations or none.

        Raises:
            Conflict: an operation is impossible.
        """
        transaction = self._client.transaction()
        for operation in operations:
            match operation:
                case Create():
                    transaction.create(operation.path, operation.data, acl=self._acl, ephemeral=operation.ephemeral)
                case Delete():
                    transaction.delete(operation.path, operation.version)
                case Set():
                    transaction.set_data(operation.path, operation.data, operation.version)
                case Check():
                    transaction.check(operation.path, operation.version)
        for result in self._result(transaction.commit_async()):
            if isinstance(result, _CONFLICTS):
                raise Conflict(repr(result))
            if isinstance(result, KazooException) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                raise self._as_contract_error(result)

    def commit_in_parts(
        self, guards: Sequence[Set], operations: Sequence[Operation], *, needs: Iterable[Check] = ()
    ) -> None:
        """
        Commit in as few transactions as possible. Each increments the guards and checks `needs`.

        The operations are executed in their order, even if another node interferes between two transactions.

        Raises:
            Conflict: an operation is impossible. Earlier transactions of this call were committed.
        """
        checks = list(needs)
        for done, first in enumerate(range(0, max(1, len(operations)), _AT_ONCE)):
            counting = [Set(guard.path, guard.version + done, guard.data) for guard in guards]
            self.commit([*counting, *checks, *operations[first : first + _AT_ONCE]])

    # --- Watches ---------------------------------------------------------------------------------

    def watch(self, path: str, fire: Callable[[], None], *, children: bool) -> Callable[[], None]:
        """
        Return a function that sets a watch on a node (on its data, or on its children). The watch renews itself when it
        fires.

        A change while there is no connection is missed, and the watch then no longer exists.
        """

        def fired(event: WatchedEvent) -> None:
            if event.type != EventType.NONE and not self._is_over:
                set_watch()
                fire()

        def set_watch() -> None:
            asking = self._client.get_children_async if children else self._client.exists_async
            asking(path, fired)

        return set_watch

    # --- Kazoo -----------------------------------------------------------------------------------

    def _check_granted_timeout(self) -> None:
        """Record the timeout that ZooKeeper grants at each connection: kazoo 2.11 does not publish it."""
        handler = self._client._connection  # noqa: SLF001
        connect = handler._connect  # noqa: SLF001

        def noting(*where: object) -> tuple[float, float]:
            # The read timeout is two thirds of the granted timeout, in milliseconds.
            read_timeout, connect_timeout = connect(*where)
            self._granted = round(read_timeout * 3 / 2) / 1000
            return read_timeout, connect_timeout

        handler._connect = noting  # noqa: SLF001

    def _changes(self, state: str) -> None:
        if state == KazooState.CONNECTED and not self._is_over:
            self._away_since = None
            self.reconnected(self)
        elif self._away_since is None:
            self._away_since = self._clock()
        if state == KazooState.LOST:
            self._is_over = True

    def _result(self, answer: Any) -> Any:  # noqa: ANN401  # kazoo has no types
        if self._is_over:
            raise Unreachable(f"the session with ZooKeeper at {self._address.hosts} has ended")
        try:
            return answer.get(timeout=self._timeout)
        except NoNodeError as error:
            raise Absent from error
        except _CONFLICTS as error:
            raise Conflict(repr(error)) from error
        except (KazooException, KazooTimeoutError) as error:
            raise self._as_contract_error(error) from error

    def _as_contract_error(self, error: Exception) -> Refused | Unreachable:
        """Return the error of the contract that stands for this error of kazoo."""
        if isinstance(error, _REFUSALS):
            return Refused(
                f"ZooKeeper at {self._address.hosts} refuses us: {type(error).__name__}; look at the credentials"
            )
        return Unreachable(f"ZooKeeper at {self._address.hosts} did not answer: {type(error).__name__}")

    def _end(self) -> None:
        with suppress(KazooException, OSError, AttributeError):
            self._client.stop()
            self._client.close()


def _stat(stat: Any) -> Stat:  # noqa: ANN401  # kazoo has no types
    return Stat(version=stat.version, made_at=stat.ctime, changed_at=stat.mtime, session=stat.ephemeralOwner)
