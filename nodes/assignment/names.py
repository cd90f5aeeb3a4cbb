"""
Strategies of pools by name: our own, and strategies that packages add as entry points of the group
`crawlctl.strategies`.

Several names separated by commas form a chain: `keep-ussd,evenly-spread`.
"""

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from nodes.assignment.pools import PoolStrategy, chained
from nodes.assignment.rendezvous import evenly_rendezvous, rendezvous
from nodes.assignment.spread import evenly_spread, weighted_spread
from nodes.errors import Invalid

GROUP: Final = "crawlctl.strategies"
DEFAULT: Final = "evenly-rendezvous"

_OURS: Final[Mapping[str, PoolStrategy]] = {
    "evenly-rendezvous": evenly_rendezvous,
    "evenly-spread": evenly_spread,
    "rendezvous": rendezvous,
    "weighted-spread": weighted_spread,
}


class NoSuchStrategy(Invalid, ValueError):
    """A name of a strategy is unknown, or its entry point cannot be loaded."""

    def __init__(self, sentence: str) -> None:
        super().__init__({"strategy": [f"{sentence}."]})


def strategy_named(names: str) -> PoolStrategy:
    """
    Return the strategy of this name, or the chain of these names.

    Raises:
        NoSuchStrategy: a name is unknown or cannot be loaded. The message lists the known names or the reason.
    """
    added = {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in _OURS}
    parts = [name.strip() for name in names.split(",")]
    strategies = [_OURS[name] if name in _OURS else _loaded(name, added) for name in parts]
    return strategies[0] if len(strategies) == 1 else chained(*strategies)


def _loaded(name: str, added: Mapping[str, EntryPoint]) -> PoolStrategy:
    if name not in added:
        known = ", ".join(sorted({*_OURS, *added}))
        raise NoSuchStrategy(f"there is no strategy {name!r}; there are: {known}")
    entry = added[name]
    try:
        strategy: PoolStrategy = entry.load()
    except (ImportError, AttributeError) as error:
        raise NoSuchStrategy(f"the strategy {name} ({entry.value}) cannot be loaded: {error}") from error
    if not callable(strategy):
        raise NoSuchStrategy(f"the strategy {name} ({entry.value}) cannot be called")
    return strategy
