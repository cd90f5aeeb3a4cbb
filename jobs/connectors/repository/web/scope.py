"""
The addresses that belong to a job: a kind of scope around its seeds, and patterns.

An address is admitted if it is in one seed's scope, an include pattern matches (if there are any), and no exclude
pattern does. An address with a parameter that links lose is admitted only as a seed. Patterns are searched for anywhere
in the canonical address. RE2 needs a time that is linear in the length of the address, so a pattern cannot block a
crawl.

If a seed redirects to another host of its registrable domain (example.org to www.example.org), that host joins the
scope (`Scope.follow`).

The patterns apply to every address, including seeds: a job whose seed they refuse is not saved. A document that was
referenced under older rules is checked again before it is requested.
"""

import enum
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

import re2

from jobs.connectors.repository.web.suffixes import is_ip, registrable_domain
from jobs.connectors.repository.web.urls import bin_of, directory_of, host_and_port, origin_of, without_parameters

_MOST_PATTERN_CHARACTERS: Final = 10_000


class ScopeKind(enum.StrEnum):
    """The addresses in the scope of a job: of the hosts, domains or directories of its seeds, or any address."""

    HOST = "host"
    DOMAIN = "domain"
    PREFIX = "prefix"
    ANY = "any"


# Scopes that a redirect of a seed can extend.
_KINDS_OF_HOSTS: Final = frozenset({ScopeKind.HOST, ScopeKind.PREFIX})


class Pattern(Protocol):
    def search(self, text: str | bytes, /) -> object | None: ...


class BadPattern(ValueError):
    """A pattern that cannot be used. `position` counts characters from 0."""

    def __init__(self, pattern: str, position: int, reason: str) -> None:
        self.pattern, self.position, self.reason = pattern, position, reason
        shown = pattern if len(pattern) <= 200 else f"{pattern[:200]}…"
        super().__init__(f"pattern {shown!r}, position {position}: {reason}")


class Scope:
    """The scope of one job. `seeds` are canonical addresses."""

    def __init__(
        self,
        *,
        kind: ScopeKind,
        seeds: Sequence[str],
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        dropped: frozenset[str] = frozenset(),
    ) -> None:
        self._kind = kind
        self._dropped = dropped
        self._seeds = frozenset(seeds if dropped else ())
        self._include = [(pattern, compile_pattern(pattern)) for pattern in include]
        self._exclude = [(pattern, compile_pattern(pattern)) for pattern in exclude]
        self._hosts = {name for seed in seeds for name in _names_of_host(seed)}
        # Computed only if needed: the list of domains takes a tenth of a second to load.
        self._domains = {registrable_domain(host_and_port(seed)[0]) for seed in seeds if kind is ScopeKind.DOMAIN}
        self._prefixes = tuple({directory_of(seed) for seed in seeds})
        self._near_names = {_last_labels(name) for name in self._hosts}

    def follow(self, redirects: Iterable[tuple[str, str]]) -> None:
        """
        Extend the scope by the hosts to which its seeds redirect, given as (source, target).

        A redirect is left out if its source does not belong to the scope, or its target lies in another domain.
        """
        left = set(redirects)
        while followed := {(source, target) for source, target in left if self._may_follow(source, target)}:
            for _, target in followed:
                self._hosts |= _names_of_host(target)
            if self._kind is ScopeKind.PREFIX:
                self._prefixes = tuple({*self._prefixes, *self._moved_prefixes(followed)})
            left -= followed

    def would_admit(self, target: str, *, after: str) -> bool:
        """
        True if this address will belong to the job when the job follows the redirect from the seed `after` to this
        address.
        """
        if not self._may_follow(after, target):
            return False
        if self._kind is ScopeKind.PREFIX and not target.startswith(tuple(self._moved_prefixes([(after, target)]))):
            return False
        return self._why_patterns_refuse(target) is None

    def is_near(self, url: str) -> bool:
        """
        True if a redirect might bring this address into the scope. This is a cheap estimate: only False is certain.
        """
        return self._kind in _KINDS_OF_HOSTS and _last_labels(bin_of(url)) in self._near_names

    def holds(self, url: str) -> bool:
        """True if the address is in a seed's scope, whatever the patterns decide."""
        return self._is_in_scope_of_a_seed(url)

    def _may_follow(self, source: str, target: str) -> bool:
        return (
            self._kind in _KINDS_OF_HOSTS and self._is_in_scope_of_a_seed(source) and are_of_one_domain(source, target)
        )

    def _moved_prefixes(self, redirects: Iterable[tuple[str, str]]) -> Iterator[str]:
        """
        Yield the address prefixes of the seeds in the scope, each with its origin replaced by an origin to which these
        redirects lead.
        """
        paths: dict[str, list[str]] = {}
        for prefix in self._prefixes:
            origin = origin_of(prefix)
            paths.setdefault(origin, []).append(prefix[len(origin) :])
        for source, target in redirects:
            for path in paths.get(origin_of(source), ()):
                yield origin_of(target) + path

    def admits(self, url: str) -> bool:
        """True if this canonical address belongs to the job."""
        return self.why_not(url) is None

    def may_admit(self, url: str) -> bool:
        """
        True if this address belongs to the job, or is on a host to which a seed may have redirected.

        This process may not know all redirects in the database, so the address is checked again before it is requested.
        """
        is_held = self._is_in_scope_of_a_seed(url) or (bin_of(url) not in self._hosts and self.is_near(url))
        return is_held and self._why_patterns_refuse(url) is None

    def why_not(self, url: str) -> str | None:
        """Return the reason why this canonical address does not belong to the job; None if it does."""
        if not self._is_in_scope_of_a_seed(url):
            return f"outside of the scope '{self._kind}' of every seed"
        return self._why_patterns_refuse(url)

    def why(self, url: str) -> str:
        """Return the rules by which this canonical address belongs to the job."""
        around = "all links" if self._kind is ScopeKind.ANY else f"inside of the scope '{self._kind}' of a seed"
        matching = next((pattern for pattern, regex in self._include if regex.search(url)), None)
        return around if matching is None else f"{around}; the include pattern {matching!r} matches it"

    def _why_patterns_refuse(self, url: str) -> str | None:
        # The address is encoded once: the engine reads bytes, and would encode a text again for each pattern.
        encoded = url.encode()
        if self._include and not any(regex.search(encoded) for _, regex in self._include):
            return "no include pattern matches it"
        for pattern, regex in self._exclude:
            if regex.search(encoded):
                return f"the exclude pattern {pattern!r} matches it"
        if self._dropped and url not in self._seeds and (kept := without_parameters(url, self._dropped)) != url:
            return f"links lose parameters, and lead to {kept} instead"
        return None

    def _is_in_scope_of_a_seed(self, url: str) -> bool:
        match self._kind:
            case ScopeKind.ANY:
                return True
            case ScopeKind.HOST:
                return bin_of(url) in self._hosts or not self._hosts.isdisjoint(_names_of_host(url))
            case ScopeKind.DOMAIN:
                return registrable_domain(host_and_port(url)[0]) in self._domains
            case ScopeKind.PREFIX:
                return url.startswith(self._prefixes)


def are_of_one_domain(url: str, other: str) -> bool:
    """True if both addresses are of one host, or of hosts below one registrable domain."""
    if not _names_of_host(url).isdisjoint(_names_of_host(other)):
        return True
    domain = registrable_domain(host_and_port(url)[0])
    # An IP address and a name like "localhost" have no registrable domain, so only equal hosts belong together.
    return "." in domain and not is_ip(domain) and domain == registrable_domain(host_and_port(other)[0])


def _last_labels(host: str) -> str:
    """Return the last two labels of a host's name, without its port."""
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    return ".".join(name.rsplit(".", 2)[-2:])


def compile_pattern(pattern: str) -> Pattern:
    """
    Return the compiled pattern.

    Raises:
        BadPattern: the pattern is invalid, or needs an engine that does not match in linear time.
    """
    if len(pattern) > _MOST_PATTERN_CHARACTERS:
        raise BadPattern(pattern, _MOST_PATTERN_CHARACTERS, f"longer than {_MOST_PATTERN_CHARACTERS} characters")
    options = re2.Options()
    options.log_errors = False  # otherwise RE2 prints to stderr
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except UnicodeEncodeError as error:
        raise BadPattern(pattern, error.start, "not valid Unicode") from None
    except re2.error as error:
        raise _explained(pattern, error) from None
    return compiled


def _explained(pattern: str, error: Exception) -> BadPattern:
    """
    Return the error with the position of the mistake.

    RE2 names the offending part but not its position. Python's own parser reports the position. A pattern that Python
    accepts and RE2 does not has a construct that needs a backtracking engine.
    """
    message = error.args[0]
    text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
    what, _, piece = text.partition(": ")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except re.error as mistake:
        return BadPattern(pattern, mistake.pos or 0, mistake.msg)
    except (RecursionError, OverflowError):
        return BadPattern(pattern, 0, "nested too deeply")
    return BadPattern(pattern, _place_of(piece, pattern), f"not possible in linear time ({what} {piece})")


def _place_of(piece: str, pattern: str) -> int:
    """Return the first position at which the part occurs in the pattern outside of an escape."""
    at = 0
    while at < len(pattern):
        if pattern.startswith(piece, at):
            return at
        at += 2 if pattern[at] == "\\" else 1
    return max(pattern.find(piece), 0)


def _names_of_host(url: str) -> set[str]:
    """
    Return two names of the host: the name that its bin has, and the name with the port, even if the port is a default.

    Two addresses have the same host if they share a name: their ports are equal, or each port is the default of its
    scheme.
    """
    host, port = host_and_port(url)
    return {bin_of(url), f"{host}:{port}"}
