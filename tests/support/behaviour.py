"""Behaviour that tests choose by name for their processes: strategies, thread counts, failing runs."""

from nodes.assignment.pools import WorkItem
from nodes.assignment.spread import evenly_spread


def half(items):
    """Return one thread for every two items."""
    return len(items) // 2


def never(_run_no):
    return False


def at_first(run_no):
    return run_no == 1


def always(_run_no):
    return True


class AllToOne:
    """A strategy that gives the preferred node all items that it can run, and the rest to the first other node."""

    def __init__(self, preferred=""):
        self.preferred = preferred

    def __call__(self, situation, placed):
        return {
            WorkItem(job, item): self.preferred
            if self.preferred in situation.nodes_of(job)
            else min(situation.nodes_of(job))
            for job in situation.pools
            for item in situation.to_place(job, placed=placed)
        }


class SpreadUntilBroken:
    """A strategy that spreads items evenly, and assigns none while it is broken."""

    def __init__(self, *, is_broken=False):
        self.is_broken = is_broken

    def __call__(self, situation, placed):
        return {} if self.is_broken else evenly_spread(situation, placed)
