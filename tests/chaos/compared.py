"""The documents of the two partitions after a crawl of the chaos test, compared with the expectation."""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from crawlctl.demo.log import read_log
from jobs.partitions.placement import Placement
from jobs.partitions.slots import SlotMap
from tests.chaos.repeats import Disturbance, HadHost, unexplained_repeats
from tests.support.partitioned_demo import partition_in
from tests.support.processes import ROOT

NAMES: Final = ("a", "b")
# Longest look at a database (seconds).
_PATIENCE: Final = 1200.0
_DOCUMENTS: Final = '''
import json
from django.core.management import call_command
from django.db import connection
call_command("check_counters", stdout=open("/dev/null", "w"))
with connection.cursor() as cursor:
    cursor.execute("SELECT stage, outcome, result_code, count(*) FROM jobs_queueitem GROUP BY 1, 2, 3")
    print("DOCUMENTS", json.dumps(cursor.fetchall()))
    cursor.execute("""SELECT replace(item.hash::text, '-', ''), bin.name FROM jobs_queueitem AS item
                        JOIN jobs_lane AS lane ON lane.id = item.lane_id JOIN jobs_bin AS bin ON bin.id = lane.bin_id""")
    print("HOSTS", json.dumps(cursor.fetchall()))
    cursor.execute("""SELECT body::text FROM jobs_partitionfact
                       WHERE source = target AND key = 'slots:all' ORDER BY number DESC LIMIT 1""")
    print("MAP", cursor.fetchone()[0])
'''


@dataclass
class Crawl:
    """
    Holds the findings of one crawl, and its disturbances.

    `hosts` has the partition and the host of each document, and `maps` the map of slots by which each partition works.
    """

    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    documents: Counter[tuple[object, ...]] = field(default_factory=Counter)
    hosts: dict[str, tuple[str, str]] = field(default_factory=dict)
    maps: dict[str, SlotMap] = field(default_factory=dict)
    disturbances: list[Disturbance] = field(default_factory=list)
    backups: dict[str, tuple[float, str]] = field(default_factory=dict)
    # The requested moves of slots, and the number of disturbances that began in each phase of a move.
    moves: list[str] = field(default_factory=list)
    in_moves: Counter[str] = field(default_factory=Counter)
    fetched_twice: int = 0


def judge(made: Crawl, output: str, code: int, directory: Path, had: HadHost) -> None:
    """
    Note problems of the report in the last line of the demo's output, unexplained requests, and the documents of both
    partitions.
    """
    try:
        report = json.loads(output.splitlines()[-1])
    except (ValueError, IndexError):
        made.problems.append(f"the demo ended with {code} and without a report (see {directory / 'demo.err'})")
        return
    if report["fetched"] != report["expected"] or report["indexed"] != report["expected"] or report["missing"]:
        made.problems.append(f"documents are missing: {report}")
    # An extra document has an extra line `indexed URL`. Other extra lines are of pages that were fetched twice.
    extra = [line for line in (directory / "demo.err").read_text().splitlines() if line.startswith("extra: indexed")]
    if extra:
        made.problems.append(f"documents that are too many: {extra}")
    made.fetched_twice = report["extra"]
    requests = read_log(Path(report["site_log"]))
    if unexplained := unexplained_repeats(requests, made.disturbances, had):
        made.problems.append(f"{len(unexplained)} requests were repeated without a reason, as {unexplained[:3]}")
    for name in NAMES:
        add_documents(made, partition_in(directory, name), name)
    check_places(made)


def add_documents(made: Crawl, var: Path, name: str) -> None:
    """Add the documents of a partition, whose counts must agree with its rows, and its map of slots."""
    environment = {**os.environ, "CRAWLCTL_VAR": str(var), "DATABASE_URL": "", "CRAWLCTL_LOG_LEVEL": "ERROR"}
    words = [sys.executable, "manage.py", "shell", "--no-imports", "-c", _DOCUMENTS]
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_PATIENCE, check=False
    )
    heads = ("DOCUMENTS ", "HOSTS ", "MAP ")
    lines = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(heads))
    if done.returncode or len(lines) < len(heads):
        made.problems.append(f"counts of partition {name} are wrong: {(done.stdout + done.stderr)[-500:]}")
        return
    made.maps[name] = SlotMap.from_json(json.loads(lines["MAP"]), NAMES)
    for *of, amount in json.loads(lines["DOCUMENTS"]):
        made.documents[tuple(of)] += amount
    for key, host in json.loads(lines["HOSTS"]):
        if key in made.hosts:
            made.problems.append(f"document {key} of {host} is in {made.hosts[key][0]} and in {name}")
        made.hosts[key] = name, host


def check_places(made: Crawl) -> None:
    """Check that both partitions work by one map, and that each document is in the partition that has its host."""
    if len(made.maps) < len(NAMES):
        return
    first, second = (made.maps[name] for name in NAMES)
    if first != second:
        made.problems.append(f"the partitions work by the maps {first.epoch} and {second.epoch}")
    placed = Placement("a", NAMES, first.owners)
    foreign = [(key, *of) for key, of in made.hosts.items() if placed.partition_of(of[1]) != of[0]]
    if foreign:
        made.problems.append(
            f"{len(foreign)} documents are in a partition that does not have the host, as {foreign[:3]}"
        )
