"""What a job says about its web crawl, as it is stored: JSON, every key known and typed."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from jobs.connectors.repository.web.scope import Scope, ScopeKind
from jobs.connectors.repository.web.urls import canonical

DEFAULT_USER_AGENT = "crawlctl/0.1"
# Servers refuse a header that is longer than a few thousand characters, and with it every request.
_MOST_USER_AGENT: Final = 1000


class BadSpecification(ValueError):
    """A stored or given specification that cannot be understood; `field` is the key it is about."""

    def __init__(self, field: str, reason: str) -> None:
        self.field, self.reason = field, reason
        super().__init__(f"{field}: {reason}")


@dataclass(frozen=True, slots=True)
class WebSpecification:
    """
    `seeds` are addresses as typed. A document at `max_depth` names no links; None is no limit.
    `robots_wait` is how many seconds a host whose robots.txt answers 5xx is waited for.
    """

    seeds: tuple[str, ...]
    scope: ScopeKind = ScopeKind.HOST
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_depth: int | None = None
    user_agent: str = DEFAULT_USER_AGENT
    allow_private_networks: bool = False
    robots_wait: float = 60.0

    def __post_init__(self) -> None:
        if self.max_depth is not None and not 0 <= self.max_depth < 2**31:
            raise BadSpecification("max_depth", "must be a whole number from 0 to 2147483647")
        if not 0 <= self.robots_wait <= 86_400:
            raise BadSpecification("robots_wait", "must be from 0 to 86400 seconds")
        if not self.user_agent.strip() or not self.user_agent.isprintable() or not self.user_agent.isascii():
            raise BadSpecification("user_agent", "must be printable ASCII and not empty")
        if len(self.user_agent) > _MOST_USER_AGENT:
            raise BadSpecification("user_agent", f"longer than {_MOST_USER_AGENT} characters")

    def scope_around_seeds(self) -> Scope:
        """
        Raises:
            BadUrl, BadPattern
        """
        return Scope(
            kind=self.scope,
            seeds=[canonical(seed) for seed in self.seeds],
            include=self.include,
            exclude=self.exclude,
        )

    def to_json(self) -> dict[str, Any]:
        stored = asdict(self)
        return {**stored, **{name: list(stored[name]) for name in ("seeds", "include", "exclude")}}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "WebSpecification":
        """
        Raises:
            BadSpecification: an unknown key, or a value of another type.
        """
        known = {field.name for field in fields(cls)}
        for name in stored:
            if name not in known:
                raise BadSpecification(name, f"unknown; there are {', '.join(sorted(known))}")
        if "seeds" not in stored:
            raise BadSpecification("seeds", "missing")
        read: dict[str, Any] = {name: _READERS[name](name, value) for name, value in stored.items()}
        return cls(**read)


def _texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise BadSpecification(name, "must be a list of texts")
    return tuple(value)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadSpecification(name, "must be a text")
    return value


def _kind(name: str, value: object) -> ScopeKind:
    try:
        return ScopeKind(str(value))
    except ValueError:
        raise BadSpecification(name, f"must be one of {', '.join(ScopeKind)}") from None


def _whole_number(name: str, value: object) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise BadSpecification(name, "must be a whole number, or null")
    return value


def _number(name: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise BadSpecification(name, "must be a number")
    return float(value)


def _truth(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise BadSpecification(name, "must be true or false")
    return value


_READERS: Final[Mapping[str, Callable[[str, object], object]]] = {
    "seeds": _texts,
    "scope": _kind,
    "include": _texts,
    "exclude": _texts,
    "max_depth": _whole_number,
    "user_agent": _text,
    "allow_private_networks": _truth,
    "robots_wait": _number,
}
