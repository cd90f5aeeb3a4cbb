"""
Creates the parts of a job that its shortest form leaves out: a policy for the chosen pace, and connections that do not
exist yet.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from jobs.connectors.repository.kind import BadIdentifier, RepositoryKind
from jobs.models import OutputConnection, RepositoryConnection, ThrottlePolicy
from jobs.verbs import connections, policies

_REPOSITORY: Final = ("the web", "web")
_OUTPUT: Final = ("search index", "search")


@dataclass(frozen=True, slots=True)
class Pace:
    """A choice of speed, with the name and the limits of its policy."""

    name: str
    label: str | Promise
    limits: Mapping[str, Any]


PACES: Final[Mapping[str, Pace]] = {
    "slow": Pace("One request every 5 s", _("slowly: one request every 5 s"), {"open_requests": 1, "min_gap": 5.0}),
    "brisk": Pace("Four requests a second", _("briskly: 4 requests a second"), {"open_requests": 4, "min_gap": 0.25}),
}


def policy_of(pace: str, *, made_by: str) -> ThrottlePolicy:
    """Return the policy of a pace, which is a key of `PACES`. The policy is stored when it is first used."""
    wanted = PACES[pace]
    known = ThrottlePolicy.objects.filter(name=wanted.name, private_to=None).first()
    if known is not None:
        return known
    facts: Any = {"name": wanted.name, **wanted.limits}
    return policies.create(everywhere=False, made_by=made_by, **facts).policy


def repository_for_web(*, made_by: str) -> RepositoryConnection:
    """Return the oldest connection to the web. If there is none, a new one is stored."""
    name, connector = _REPOSITORY
    known = RepositoryConnection.objects.filter(connector=connector).order_by("pk").first()
    return known or _create(RepositoryConnection, name, connector, made_by=made_by)


def output_for_search(*, made_by: str) -> OutputConnection:
    """Return the oldest search index. If there is none, a new one is stored."""
    name, connector = _OUTPUT
    known = OutputConnection.objects.filter(connector=connector).order_by("pk").first()
    return known or _create(OutputConnection, name, connector, made_by=made_by)


def with_schemes(addresses: Iterable[str], kind: RepositoryKind | None) -> list[str]:
    """
    Return addresses that the connector can read. An address that it can read only with a scheme gets `https://`.
    """
    return [_with_scheme(address, kind) for address in addresses]


def _with_scheme(address: str, kind: RepositoryKind | None) -> str:
    if kind is None or "://" in address or _can_read(kind, address) or not _can_read(kind, f"https://{address}"):
        return address
    return f"https://{address}"


def _can_read(kind: RepositoryKind, address: str) -> bool:
    try:
        kind.canonical(address)
    except BadIdentifier:
        return False
    return True


def _create(kind: Any, name: str, connector: str, *, made_by: str) -> Any:  # noqa: ANN401 (either kind of connection)
    taken = set(kind.objects.filter(name__startswith=name).values_list("name", flat=True))
    free = next(
        one for number in range(1, len(taken) + 2) if (one := name if number == 1 else f"{name} {number}") not in taken
    )
    return connections.create(kind, name=free, connector=connector, configuration={}, made_by=made_by)
