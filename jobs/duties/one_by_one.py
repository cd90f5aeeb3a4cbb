"""Rows that a duty processes one after the other: an error of one row delays no other row."""

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

import django.db
import psycopg

from nodes.membership.fences import FenceRefused

logger = logging.getLogger(__name__)

_R = TypeVar("_R")
# Errors that end the whole duty: the process was replaced, or its connection broke.
_OF_ALL = (FenceRefused, psycopg.OperationalError, django.db.OperationalError, django.db.InterfaceError)


def one_by_one(rows: Iterable[_R], process: Callable[[_R], int], *, name: Callable[[_R], object]) -> int:
    """
    Call `process` for each row, and return the sum of its results. After an error of a row, continue with the others.

    Raises:
        FenceRefused, OperationalError: immediately, without processing further rows.
        Exception: the first error of a row, raised after the last row. A note of the exception has the name of the row.
    """
    done, first = 0, None
    for row in rows:
        try:
            done += process(row)
        except _OF_ALL:
            raise
        except Exception as error:
            error.add_note(f"This is an error of {name(row)}.")
            if first is None:
                first = error
            else:
                logger.exception("this row failed, too; the caller reports the first failure only")
    if first is not None:
        raise first
    return done
