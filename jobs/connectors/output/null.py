"""The null output: it accepts everything, keeps nothing and costs nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from jobs.connectors.output.base import Entry


@dataclass(frozen=True, slots=True)
class NullConfiguration:
    """The configuration of the null output, which has no fields."""


class NullOutput:
    holds: Final = False
    is_transactional: Final = True

    def __init__(self, *, id: int, configuration: NullConfiguration) -> None:  # noqa: A002 (the column's name)
        self.id = id

    def check(self) -> None:
        return

    def add_or_replace(self, cursor: psycopg.Cursor[Any], entries: Sequence[Entry]) -> None:
        return

    def remove(self, cursor: psycopg.Cursor[Any], entries: Sequence[Entry]) -> None:
        return

    def job_complete(self) -> None:
        return
