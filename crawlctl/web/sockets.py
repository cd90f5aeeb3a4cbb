"""The listening socket of the web server, and its address."""

import errno
import re
import socket
from typing import Final

_BACKLOG: Final = 128
_LAST_PORT: Final = 65_535
_ADDRESS: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):(?P<port>[0-9]{1,5})")
_ALL_ADDRESSES: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - only compared
_WHY: Final = {
    errno.EADDRINUSE: "this address is taken by another process",
    errno.EADDRNOTAVAIL: "this is not an address of this machine",
    errno.EACCES: "this user may not listen there",
}


def listen_on(port: int | None, *, host: str, first: int) -> socket.socket:
    """
    Return a socket that listens on `port` of that address; without `port`, on the first free port from `first` on.

    The caller may pass it to a server, and to the next server if the first one dies: no connection is refused.

    Raises:
        BadAddress: the address is not of this machine, or the port is taken.
    """
    if port is not None and not 0 <= port <= _LAST_PORT:
        raise BadAddress(f"--port is {port}: write a number from 0 to {_LAST_PORT}; 0 takes any free port.")
    if port is not None:
        return listen_at(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")[0]
    try:
        return _listen(host=host, port=first)
    except OSError as error:
        raise BadAddress(f"Cannot listen on {host}: {_WHY.get(error.errno or 0, error.strerror)}.") from None


def _listen(*, host: str, port: int) -> socket.socket:
    for candidate in range(port, _LAST_PORT + 1):
        try:
            return socket.create_server(
                (host, candidate), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=_BACKLOG
            )
        except OSError as error:
            if error.errno not in {errno.EADDRINUSE, errno.EACCES}:
                raise
    raise BadAddress(f"Cannot listen on {host}: no port from {port} on is free.")


class BadAddress(ValueError):
    """The process cannot listen at this address."""


def listen_at(address: str) -> tuple[socket.socket, str]:
    """
    Return a socket that listens at exactly this `HOST:PORT` (port 0: any free one), and the host.

    Raises:
        BadAddress: the address is invalid, is not of this machine, or is taken.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"]) > _LAST_PORT:
        raise BadAddress(f"{address!r} is not a listen address. Write HOST:PORT, such as 127.0.0.1:8001 or [::1]:8001.")
    host = match["host"].strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.getaddrinfo(host, None, family=family)
    except socket.gaierror:
        raise BadAddress(f"{address}: there is no host {host!r}.") from None
    try:
        return socket.create_server((host, int(match["port"])), family=family, backlog=_BACKLOG), host
    except OSError as error:
        why = _WHY.get(error.errno or 0, error.strerror)
        raise BadAddress(f"{address}: {why}.") from None


def address_of(listener: socket.socket, *, host: str) -> str:
    """Return the address for a browser of a socket that listens as `host`."""
    name, port = name_of(host), listener.getsockname()[1]
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def name_of(host: str) -> str:
    """Return this machine's name if the socket listens on all addresses, otherwise the address itself."""
    return socket.gethostname() if host in _ALL_ADDRESSES else host
