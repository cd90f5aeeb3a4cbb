"""
The addresses to which a crawl may connect: those of the public internet.

Strangers write the links of a crawl. A link to a loopback, private or link-local address, or to a cloud's metadata
service, would make the crawler read resources that only this network may read. The check begins with Python's
`is_global`. But this admits some addresses that are not public: multicast, relay anycast, and IPv6 addresses that
contain an IPv4 address. The list of `is_global` also differs between patch releases of Python. So this module has its
own list in addition.
"""

import functools
import ipaddress
from typing import Final

_NOT_PUBLIC: Final = tuple(
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8",
        "100.64.0.0/10",  # shared addresses between a provider and its customers
        "192.0.0.0/24",  # protocol assignments, 192.0.0.8 among them
        "192.88.99.0/24",  # 6to4 relays
        "224.0.0.0/4",
        "240.0.0.0/4",
        "64:ff9b:1::/48",  # NAT64 inside a network: never of the public internet
        "100::/64",
        "2001::/23",  # Teredo, ORCHID and other assignments
        "2001:db8::/32",
        "3fff::/20",
        "5f00::/16",  # segment routing
        "fec0::/10",
        "ff00::/8",
    )
)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_TRANSLATED: Final = ipaddress.IPv6Network("::ffff:0:0:0/96")
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")


@functools.lru_cache(maxsize=4096)
def is_public(address: str) -> bool:
    """True if this numeric address may be used while private networks are not allowed."""
    read = ipaddress.ip_address(address)
    if isinstance(read, ipaddress.IPv6Address):
        inner = _embedded(read)
        if inner is not None:
            return is_public(str(inner))
    return read.is_global and not any(read in network for network in _NOT_PUBLIC if network.version == read.version)


def _embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address inside an IPv6 address, to which the network delivers; None if it contains none."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64 or address in _TRANSLATED or (address in _COMPATIBLE and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None
