"""Retries of whole transactions after deadlocks and serialization failures, within milliseconds."""

import logging
import random
import time
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from nodes.database.conflicts import CONFLICTS

_P = ParamSpec("_P")
_R = TypeVar("_R")

_ATTEMPTS: Final = 8

logger = logging.getLogger(__name__)


def retried(transaction: Callable[_P, _R]) -> Callable[_P, _R]:
    """Run `transaction` again when PostgreSQL aborted it in favour of another transaction (40P01, 40001)."""

    @wraps(transaction)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        for attempt in range(1, _ATTEMPTS):
            try:
                return transaction(*args, **kwargs)
            except CONFLICTS:
                logger.info(
                    "PostgreSQL aborted %s for another transaction, attempt %d", transaction.__qualname__, attempt
                )
                time.sleep(random.uniform(0.001, 0.005) * attempt)  # noqa: S311 (spreads rivals; guards nothing)
        return transaction(*args, **kwargs)

    return run
