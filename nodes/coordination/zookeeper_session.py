"""
One session with ZooKeeper, in the words of the contract: the only place that knows kazoo.

A session is one client of kazoo. When it is lost (expired, silent for too long, refused by a server that was
restored from an older backup and has not seen what the client has), the client is thrown away and another is
made: kazoo would go on with a new session under the hood, or ask for the old one for ever.

Nothing waits longer than the session's timeout. What is not answered by then may still be done when the connection
comes back: so whatever must not be done late is guarded by a version.
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
from nodes.trust import Clock, seconds_since_boot

logger = logging.getLogger(__name__)

# It tells of every connection that it tries to make, some times a second. What came of it is said by who asked.
_kazoo_logger = logging.getLogger(f"{__name__}.kazoo")
_kazoo_logger.setLevel(logging.ERROR)

# More than an instant, less than anybody would wait for: how long a connection that broke is left alone before the next try.
_PAUSE: Final = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 0.25}

# Of ACLs, credentials and sessions: what is refused, and would be again.
_REFUSALS: Final = (NoAuthError, AuthFailedError, InvalidACLError)
_CONFLICTS: Final = (BadVersionError, NodeExistsError, NoNodeError, NotEmptyError)


# Operations of one transaction: the paths of so many stay well below what a server reads at once (1 MB).
_AT_ONCE: Final = 1000

# A server by its name or address; without a port it is ZooKeeper's own, 2181.
_SERVER: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+)(:(?P<port>[0-9]{1,5}))?")
_LAST_PORT: Final = 65_535

# What reading a node's data may raise where it is no JSON of ours.
UNREADABLE: Final = (ValueError, TypeError, KeyError, OverflowError, RecursionError)


class Absent(Exception):
    """There is no node of this path."""


class Conflict(Exception):
    """Something is not as it was when it was read; nothing was changed."""


class Stat(NamedTuple):
    """What is known of a node. Times are the server's, in milliseconds."""

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
    """Changes nothing: the node has to be there, with this version unless that is -1."""

    path: str
    version: int = -1


Operation = Create | Delete | Set | Check


@dataclass(frozen=True, slots=True)
class Address:
    """Where a ZooKeeper is: `host:port,host:port/path`, and `user:password` where it asks for that."""

    hosts: str
    root: str
    credentials: str = ""

    @classmethod
    def parse(cls, text: str, *, credentials: str = "") -> "Address":
        """
        Read an address; without a path everything is below /crawlctl.

        Raises:
            Refused: a host, a port or the path cannot be, or the credentials are not of a user and a password.
        """
        hosts, slash, path = text.partition("/")
        root = (slash + path).rstrip("/") or "/crawlctl"
        if not all(map(_is_server, hosts.split(","))) or not is_path(root):
            raise Refused(
                f"{text!r} is no address of ZooKeeper: it must be host:port,host:port/path, with ports of 1 to 65535"
            )
        if credentials and not credentials.partition(":")[2]:
            raise Refused("the credentials for ZooKeeper must be user:password, with a colon in between")
        return cls(hosts=hosts, root=root, credentials=credentials)


def is_path(path: str) -> bool:
    """Whether this is a path from the root on, of names that ZooKeeper takes."""
    names = path.split("/")[1:]
    return path.startswith("/") and all(name.isprintable() and name not in {"", ".", ".."} for name in names)


def _is_server(host: str) -> bool:
    match = _SERVER.fullmatch(host.strip())
    return match is not None and (match["port"] is None or 1 <= int(match["port"]) <= _LAST_PORT)


class Session:
    """One session; `token` is its own, and `id` what ZooKeeper calls it."""

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
            Unreachable: there is none within the timeout.
            Refused: ZooKeeper grants no session that is as long.
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
        self._look_at_what_is_granted()
        self._client.add_listener(self._changes)
        self._client.start_async().wait(self._timeout)
        if not self._client.connected:
            self.end()
            raise Unreachable(f"ZooKeeper at {address.hosts} did not answer within {self._timeout:g} s")
        if self._granted < self._timeout:
            self.end()
            raise Refused(
                f"ZooKeeper at {address.hosts} grants sessions of {self._granted:g} s at most, and {self._timeout:g} s are asked "
                f"for: lower the timeout, or raise its maxSessionTimeout"
            )
        self.id: int = self._client.client_id[0]

    @property
    def is_over(self) -> bool:
        """Whether it is lost for good."""
        return self._is_over

    @property
    def away_for(self) -> float:
        """For how many seconds there has been no connection."""
        since = self._away_since
        return 0.0 if since is None else self._clock() - since

    def end(self) -> None:
        """End it; where there is a connection its ephemeral nodes are gone when this returns. May be called again."""
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
        """Have what is read next be no older than now. It is also the leader's word that the session lives."""
        self._result(self._client.sync_async(path))

    def get(self, path: str) -> tuple[bytes, Stat]:
        """
        Return a node's data.

        Raises:
            Absent: it is not there.
        """
        data, stat = self._result(self._client.get_async(path))
        return data, _stat(stat)

    def get_of(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """The same of many nodes, asked for in one go; None where there is none."""
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
        """Return what is known of a node, or None."""
        found = self._result(self._client.exists_async(path))
        return None if found is None else _stat(found)

    def children(self, path: str) -> frozenset[str]:
        """
        Return the names of a node's children.

        Raises:
            Absent: it is not there.
        """
        return frozenset(self._result(self._client.get_children_async(path)))

    def children_of(self, paths: Sequence[str]) -> list[frozenset[str]]:
        """The same of many nodes, asked for in one go."""
        asked = [self._client.get_children_async(path) for path in paths]
        return [frozenset(self._result(answer)) for answer in asked]

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, numbered: bool = False
    ) -> tuple[str, Stat]:
        """
        Make a node; returns its path and what is known of it.

        Raises:
            Conflict: it is there.
            Absent: its parent is not.
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
            Conflict: it has another version.
            Absent: it is not there.
        """
        return _stat(self._result(self._client.set_async(path, data, version)))

    def delete(self, path: str, *, version: int = -1) -> None:
        """
        Remove a node.

        Raises:
            Conflict: it has another version.
            Absent: it is not there.
        """
        self._result(self._client.delete_async(path, version))

    def commit(self, operations: Iterable[Operation]) -> None:
        """
        Do all of these or nothing.

        Raises:
            Conflict: one of them cannot be.
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
                raise self._said(result)

    def commit_in_parts(
        self, guards: Sequence[Set], operations: Sequence[Operation], *, needs: Iterable[Check] = ()
    ) -> None:
        """
        Commit in as few transactions as can be, all of which count up the guards and check what is needed.

        What comes first in `operations` is done first, also where somebody else is faster in the middle.

        Raises:
            Conflict: one of them cannot be; of several transactions those before it have been.
        """
        checks = list(needs)
        for done, first in enumerate(range(0, max(1, len(operations)), _AT_ONCE)):
            counting = [Set(guard.path, guard.version + done, guard.data) for guard in guards]
            self.commit([*counting, *checks, *operations[first : first + _AT_ONCE]])

    # --- Watches ---------------------------------------------------------------------------------

    def watch(self, path: str, fire: Callable[[], None], *, children: bool) -> Callable[[], None]:
        """
        Return what sets a watch on a node (on its data, or on its children), which fires once and sets itself anew.

        What happens while there is no connection is missed, and the watch with it.
        """

        def fired(event: WatchedEvent) -> None:
            if event.type != EventType.NONE and not self._is_over:
                set_it()
                fire()

        def set_it() -> None:
            asking = self._client.get_children_async if children else self._client.exists_async
            asking(path, fired)

        return set_it

    # --- Kazoo -----------------------------------------------------------------------------------

    def _look_at_what_is_granted(self) -> None:
        """Have the timeout that ZooKeeper grants noted at each connection: kazoo 2.11 keeps it to itself."""
        handler = self._client._connection  # noqa: SLF001
        connect = handler._connect  # noqa: SLF001

        def noting(*where: object) -> tuple[float, float]:
            # What is read for is two thirds of what was granted, in milliseconds.
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
            raise Unreachable(f"the session with ZooKeeper at {self._address.hosts} is over")
        try:
            return answer.get(timeout=self._timeout)
        except NoNodeError as error:
            raise Absent from error
        except _CONFLICTS as error:
            raise Conflict(repr(error)) from error
        except (KazooException, KazooTimeoutError) as error:
            raise self._said(error) from error

    def _said(self, error: Exception) -> Refused | Unreachable:
        """An error of kazoo in the words of the contract."""
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
