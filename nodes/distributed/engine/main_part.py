"""
The work of the main node: it assigns the items of all jobs, and removes pools of jobs that no node can execute.

Every node is a candidate. The main node reads the cluster when a watch wakes it, and also at intervals, because a
wake-up may be lost. Wake-ups that arrive during a pass count as one. If nothing has changed since the last read, the
main node decides nothing.
"""

import datetime as dt
import logging
import threading
from collections.abc import Callable
from typing import Final

from nodes.assignment.pools import PoolStrategy, StrategyRefused, share_out
from nodes.coordination.port import (
    ClusterState,
    Coordination,
    CoordinationError,
    Leadership,
    NotMain,
    NotMember,
    Outdated,
)
from nodes.distributed.engine.observer import ObserverGroup, Work
from nodes.distributed.engine.switches import Switches
from nodes.distributed.engine.tuning import Tuning
from nodes.distributed.engine.wakeup import WakeUp
from nodes.life.trust_window import seconds_since_boot

logger = logging.getLogger(__name__)

# Largest number of plans in one pass. A plan is made again if another process has changed the cluster.
_TRIES: Final = 3


class MainPart:
    """The thread of the main node's work. `step` is one pass of its loop."""

    def __init__(
        self,
        coordination: Coordination,
        *,
        strategy: PoolStrategy,
        tuning: Callable[[], Tuning],
        switches: Callable[[], Switches],
        observer: ObserverGroup,
        read_every: dt.timedelta,
    ) -> None:
        self._coordination = coordination
        self._strategy = strategy
        self._tuning = tuning
        self._switches = switches
        self._observer = observer
        self._read_every = read_every.total_seconds()
        self._cleaned_at = seconds_since_boot()
        self._balanced: object = None
        self._is_asked = threading.Event()
        # Reason why the strategy's last plan was invalid; '' if it was valid.
        self.refusal = ""
        self._wake_up = WakeUp()
        self._thread = threading.Thread(target=self._run, name=f"main part of {coordination.node}", daemon=True)

    def wake(self) -> None:
        self._wake_up.wake()

    def rebalance(self) -> None:
        """Redistribute all items, even if nothing has changed since the last time."""
        self._is_asked.set()
        self.wake()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the thread, and give up the leadership."""
        self._wake_up.close()
        if self._thread.ident is not None:
            self._thread.join()
        try:
            self._coordination.resign()
        except CoordinationError as error:
            logger.warning("node %s could not resign: %s", self._coordination.node, error)

    def _run(self) -> None:
        while not self._wake_up.is_closing:
            try:
                self.step()
            except CoordinationError as error:
                logger.warning("node %s cannot do the work of the main node: %s", self._coordination.node, error)
            except Exception:
                logger.exception("the work of the main node failed on node %s", self._coordination.node)
            self._wake_up.wait(self._read_every)

    def step(self) -> None:
        """
        Execute one pass of the main node's work, if this node leads.

        Raises:
            CoordinationError: the store does not answer.
        """
        try:
            leadership = self._coordination.campaign()
            if leadership is None:
                self._balanced, self.refusal = None, ""
                return
            self._rebalance(leadership)
            if seconds_since_boot() - self._cleaned_at >= self._tuning().clean_every.total_seconds():
                self._clean(leadership)
        except (NotMain, NotMember) as error:
            # The worker's part joins again, and the new main node assigns the items.
            logger.info("%s", error)

    def _rebalance(self, leadership: Leadership) -> None:
        if self._is_asked.is_set():
            self._is_asked.clear()
            self._balanced = None
        for _try in range(_TRIES):
            seen = self._coordination.read_state()
            disabled = frozenset(job for job in seen.pools if self._switches().disables(job))
            basis = (seen.versions, frozenset(seen.members), seen.gone, disabled)
            if basis == self._balanced:
                return
            try:
                with self._observer.work(Work.REBALANCE):
                    moved = self._share_out(seen, disabled, leadership)
            except Outdated:
                continue
            if moved is not None:
                self._balanced = basis
            return
        logger.info("the cluster of node %s changed while its items were assigned; trying again", leadership.main)

    def _share_out(self, seen: ClusterState, disabled: frozenset[str], leadership: Leadership) -> int | None:
        """Assign all items by the strategy. Return the number of moved items; None if the plan is invalid."""
        try:
            shares = share_out(self._strategy, seen.situation(disabled=disabled))
        except StrategyRefused as refused:
            self._refuse(str(refused))
            return None
        except (Exception, SystemExit) as error:
            logger.exception("the strategy failed")
            self._refuse(f"the strategy failed: {type(error).__name__}: {error}")
            return None
        self.refusal = ""
        moved = self._coordination.assign(shares, seen=seen, leadership=leadership)
        if moved:
            logger.info("moved %d items to other nodes", moved)
        self._observer.rebalanced(moved=moved)
        return moved

    def _refuse(self, why: str) -> None:
        if why != self.refusal:
            logger.error("the assignment of items stays unchanged: %s", why)
        self.refusal = why
        self._observer.plan_refused(why)

    def _clean(self, leadership: Leadership) -> None:
        with self._observer.work(Work.CLEANING):
            try:
                forgotten = self._coordination.forget_idle(seen=self._coordination.read_state(), leadership=leadership)
            except Outdated:
                return
        self._cleaned_at = seconds_since_boot()
        if forgotten:
            logger.info("removed the pools of jobs that no node can run: %s", ", ".join(sorted(forgotten)))
        self._observer.cleaned(forgotten)
