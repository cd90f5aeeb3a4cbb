"""A distributed job for tests of real processes. It writes a diary of its runs with their moments."""

import datetime as dt
import os
import time
from dataclasses import dataclass
from pathlib import Path

from nodes.distributed import DistributedJob, Schedule, thread_per_item

DIARY = "TESTS_DIARY"
ITEMS = tuple(f"item-{number}" for number in range(6))


class Diary(DistributedJob):
    """
    A job that notes the beginning, the work and the end of each run of an item, by the machine's clock.

    It checks the remaining time of its lease before each entry, because it may have been frozen. Runs with irreversible
    effects should do the same.
    """

    job_id = "diary"

    def schedule(self):
        return Schedule.by_delay(dt.timedelta(milliseconds=50))

    def initial_delay(self):
        return dt.timedelta()

    def work_pool(self):
        return ITEMS

    def running_strategy(self):
        return thread_per_item

    def run(self, context):
        (item,) = context.work_share
        for what in ("begin", *["work"] * 5, "end"):
            if not context.remaining():
                return
            _note(what, item)
            context.wait(dt.timedelta(milliseconds=20))


def _note(what, item):
    line = f"{time.monotonic()} {what} {item} {os.getpid()}\n"
    entry = os.open(os.environ[DIARY], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(entry, line.encode())
    os.close(entry)


@dataclass(frozen=True)
class Entry:
    at: float
    what: str
    item: str
    pid: int


def entries_of(diary: Path, *, since=0.0):
    """Return the entries of a diary in the order of writing."""
    lines = diary.read_text().splitlines() if diary.exists() else []
    found = [Entry(float(at), what, item, int(pid)) for at, what, item, pid in map(str.split, lines)]
    return [entry for entry in found if entry.at >= since]


def conflicts_in(diary: Path):
    """Return pairs of entries: one that begins an item, and a later entry for the item by another process."""
    in_hand, found = {}, []
    for entry in entries_of(diary):
        holder = in_hand.get(entry.item)
        if entry.what == "begin":
            in_hand[entry.item] = entry
        elif holder is None or holder.pid != entry.pid:
            found.append((holder, entry))
        elif entry.what == "end":
            del in_hand[entry.item]
    return found
