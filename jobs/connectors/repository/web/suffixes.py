"""Public suffixes: the domains, such as co.uk, below which different owners register names."""

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tldextract import TLDExtract


@functools.lru_cache(maxsize=4096)
def registrable_domain(host: str) -> str:
    """Return the registered domain of this host. An address, or a name without one, is its own."""
    return _suffixes()(host).top_domain_under_public_suffix or host


def is_public_suffix(domain: str) -> bool:
    """True if different owners register names below this domain. A name without a dot is taken for one, as browsers do."""
    return "." not in domain.strip(".") or not _suffixes()(domain).domain


@functools.cache
def _suffixes() -> "TLDExtract":
    # Loads the list and an HTTP client: processes that never need it should not pay for that.
    from tldextract import TLDExtract  # noqa: PLC0415

    # The packaged list only: a crawl must not depend on a download, and all nodes must read the same list.
    # The private part is included: two customers of one hosting provider are different owners.
    return TLDExtract(cache_dir=None, suffix_list_urls=(), include_psl_private_domains=True)
