"""What tests choose for processes of theirs: strategies, how many threads, which runs fail. Processes know it by its name."""

from nodes.assignment.pools import WorkItem
from nodes.assignment.spread import evenly_spread


def half(items):
    """A thread for each two items."""
    return len(items) // 2


def never(_run_no):
    return False


def at_first(run_no):
    return run_no == 1


def always(_run_no):
    return True


class AllToOne:
    """Who is preferred does everything that it can do; what it cannot, the first of the others."""

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
    """Spreads items evenly, and loses all of them while it is broken."""

    def __init__(self, *, is_broken=False):
        self.is_broken = is_broken

    def __call__(self, situation, placed):
        return {} if self.is_broken else evenly_spread(situation, placed)
