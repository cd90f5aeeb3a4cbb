"""Public suffixes: the domains, such as co.uk, below which different owners register names."""

import contextlib
import functools
import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tldextract import TLDExtract


@functools.lru_cache(maxsize=4096)
def registrable_domain(host: str) -> str:
    """
    Return the registered domain of this host. An IP address, or a name without a registered domain, is returned as it
    is.

    If its suffix is not in the list, as in www.example.lan, the last two labels are the domain.
    """
    found = _suffixes()(host)
    if found.top_domain_under_public_suffix:
        return found.top_domain_under_public_suffix
    return host if found.suffix or is_ip(host) else ".".join(host.rsplit(".", 2)[-2:])


def is_ip(host: str) -> bool:
    """True if the host is an IP address. One of version 6 may be in brackets."""
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(host.strip("[]")))
    return False


def is_public_suffix(domain: str) -> bool:
    """
    True if different owners register names below this domain. As in browsers, a name without a dot is a public suffix.
    """
    return "." not in domain.strip(".") or not _suffixes()(domain).domain


@functools.cache
def _suffixes() -> "TLDExtract":
    # The import loads the list and an HTTP client, which most processes never need.
    from tldextract import TLDExtract  # noqa: PLC0415

    # Only the packaged list is used: a crawl must not depend on a download, and all nodes must have the same list. The
    # private part is included: two customers of one hosting provider are different owners.
    return TLDExtract(cache_dir=None, suffix_list_urls=(), include_psl_private_domains=True)
