"""
The preferred worker of a bin gets its turns if possible, so that its connections stay open and names stay resolved.
No I/O.

Preferred workers come from rendezvous hashing (highest random weight: Thaler and Ravishankar 1998). All managers compute
the same ones, so these are not stored. When a worker ends, only its bins get another preferred worker.
"""

import uuid
from collections.abc import Collection, Iterable
from dataclasses import replace

import mmh3

from jobs.throttling.bins import BinSeen, TurnPlan


def rank_workers(bin_id: int, workers: Collection[uuid.UUID]) -> list[uuid.UUID]:
    """
    Return these workers in the order of preference for the bin: the preferred worker, then the worker that would be
    preferred if the first one ended, and so on.
    """
    return sorted(workers, key=lambda worker: (-mmh3.hash64(worker.bytes + bin_id.to_bytes(8))[0], worker))


def prefer_workers(
    plans: Iterable[TurnPlan], *, bins: Iterable[BinSeen], workers: Collection[uuid.UUID]
) -> list[TurnPlan]:
    """
    Return the plans, each with its preferred worker, unless the worker is already decided.

    Several turns of one bin go to several workers, in the order of preference for this bin. Turns that must go to one
    worker together go to the preferred worker of the parent.
    """
    busy = {seen.id: {turn.worker for turn in seen.turns} for seen in bins}
    kept: list[TurnPlan] = []
    for plan in plans:
        may = [worker for worker in workers if plan.lane.may_go_to(worker)]
        if plan.worker is not None or not may:
            kept.append(plan)
        elif plan.together is not None:
            kept.append(replace(plan, preferred=rank_workers(plan.together, may)[0]))
        else:
            ranked = rank_workers(plan.lane.bin_id, may)
            at_work = busy.setdefault(plan.lane.bin_id, set())
            preferred = next((worker for worker in ranked if worker not in at_work), ranked[0])
            at_work.add(preferred)
            kept.append(replace(plan, preferred=preferred))
    return kept
