"""
The sockets of the synthetic site's hosts: loopback addresses, or ports of one address.

Several addresses on one port are several hosts to a crawler and several servers to the kernel, with nothing to
configure on Linux. On other systems only 127.0.0.1 may exist. Its ports are then the hosts.
"""

import errno
import socket
from collections.abc import Iterable
from enum import StrEnum
from ipaddress import IPv4Address

_FIRST_ADDRESS = IPv4Address("127.0.0.1")

# Number of connections that may wait to be accepted. A crawler may open all its connections at the same time.
_BACKLOG = 1024

_LAST_PORT = 65_535


class HostStyle(StrEnum):
    ADDRESSES = "addresses"  # 127.0.0.1:8100, 127.0.0.2:8100, ...
    PORTS = "ports"  # 127.0.0.1:8100, 127.0.0.1:8101, ...


def listen(*, hosts: int, port: int, style: HostStyle) -> list[socket.socket]:
    """
    Return one listening socket for each host, on `port` or the next free one; 0 is any port.

    Without a second address, use ports. The caller closes the sockets.
    """
    if style is HostStyle.PORTS:
        return _listen_on_ports(hosts=hosts, port=port)
    try:
        return _listen_on_addresses(hosts=hosts, port=port)
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:
            raise
        return _listen_on_ports(hosts=hosts, port=port)


def origin_of(listener: socket.socket) -> str:
    address, port = listener.getsockname()
    return f"http://{address}:{port}"


def _listen_on_addresses(*, hosts: int, port: int) -> list[socket.socket]:
    addresses = [str(_FIRST_ADDRESS + number) for number in range(hosts)]
    for candidate in _ports_from(port):
        if listeners := _listen_on_all([(address, candidate) for address in addresses]):
            return listeners
    raise OSError(errno.EADDRINUSE, f"no port from {port} on is free on all of {addresses[0]} to {addresses[-1]}")


def _listen_on_ports(*, hosts: int, port: int) -> list[socket.socket]:
    listeners: list[socket.socket] = []
    for candidate in _ports_from(port):
        listeners += _listen_on_all([(str(_FIRST_ADDRESS), candidate)])
        if len(listeners) == hosts:
            return listeners
    _close(listeners)
    raise OSError(errno.EADDRINUSE, f"fewer than {hosts} ports from {port} on are free on {_FIRST_ADDRESS}")


def _ports_from(port: int) -> Iterable[int]:
    return range(port, _LAST_PORT + 1) if port else iter(_any_free_port, None)


def _any_free_port() -> int:
    with socket.socket() as probe:
        probe.bind((str(_FIRST_ADDRESS), 0))
        bound: int = probe.getsockname()[1]
        return bound


def _listen_on_all(places: Iterable[tuple[str, int]]) -> list[socket.socket]:
    """Return a listening socket for each of the places, or an empty list if one of the places is taken."""
    listeners: list[socket.socket] = []
    try:
        for place in places:
            listeners.append(socket.create_server(place, backlog=_BACKLOG))  # noqa: PERF401 - to close them on failure
    except OSError as error:
        _close(listeners)
        if error.errno == errno.EADDRINUSE:
            return []
        raise
    return listeners


def _close(listeners: Iterable[socket.socket]) -> None:
    for listener in listeners:
        listener.close()
