"""Restores documents in the process of a command, because perhaps no worker runs."""

from collections.abc import Callable

import psycopg

from jobs.connectors.output.registry import open_output
from jobs.models import Restoration
from jobs.queue.removing.restore import restore_some
from nodes.database.address import database_dsn


def perform_restoration(restoration: Restoration, *, report: Callable[[int], None] = lambda _done: None) -> Restoration:
    """
    Carry out waiting restorations until the given one has ended or is refused. `report` is called with the number of
    restored documents.
    """
    refused: frozenset[int] = frozenset()
    with psycopg.connect(database_dsn(), autocommit=True) as connection:
        while True:
            done = restore_some(connection, opens=open_output, apart_from=refused)
            restoration.refresh_from_db()
            report(restoration.restored)
            if restoration.ended_at is not None or done.restoration is None:
                return restoration
            if done.refused:
                refused |= {done.restoration}
