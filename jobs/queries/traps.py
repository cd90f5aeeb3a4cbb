"""Suspects of traps, and the test of their rules against the documents that outputs hold."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, LiteralString

import re2
from django.db import connection
from django.db.models import Q, QuerySet

from jobs.models import RuleState, TrapDecision, TrapSuspect
from jobs.partitions.merged import Placed, Silent, local_job, merge_lines, numbers_of, read_everywhere
from jobs.queue.sql.rows import named_rows
from jobs.traps.templates import grouped

# Largest number of documents of the host that one test reads, and largest number of good pages that a test names.
EXAMINED: Final = 10_000
_EXAMPLES: Final = 10
# Largest number of lanes of one host and job that are read.
_LANES: Final = 1_000

_KNOWN: Final[LiteralString] = """
SELECT identifier
  FROM (SELECT item.identifier, item.indexed_before FROM jobs_queueitem AS item
         WHERE item.lane_id IN (SELECT lane.id FROM jobs_lane AS lane JOIN jobs_bin AS bin ON bin.id = lane.bin_id
                                  JOIN jobs_seed AS seed ON seed.id = lane.seed_id
                                 WHERE bin.name = %(host)s AND seed.job_id = %(job)s LIMIT %(lanes)s)
         LIMIT %(most)s) AS examined
 WHERE indexed_before
"""


@dataclass(frozen=True, slots=True)
class SuspectKey:
    """
    The last suspect on a page. The next page continues after it. `partition` is the other partition that has the
    suspect, "" for this one.
    """

    id: int
    partition: str = ""


@dataclass(frozen=True, slots=True)
class SuspectsEverywhere:
    """One page of the suspects of all partitions that have answered. Their jobs have the ids of this partition."""

    lines: Sequence[Placed[TrapSuspect]]
    next_key: SuspectKey | None
    silent: Sequence[Silent]


@dataclass(frozen=True, slots=True)
class RuleTest:
    """
    The effect of a rule on the documents of the host that outputs hold.

    `examined` documents were tested, and `matched` is the number that the rule matches. Good pages do not belong to the
    group, or their template proved to have new content; some of them are `examples`. `is_whole` is true if the test
    read all documents of the host.
    """

    rule: str
    examined: int
    matched: int
    good: int
    examples: Sequence[str]
    is_whole: bool


def find_suspects(*, job_id: int | None = None, host: str = "", decision: str = "") -> QuerySet[TrapSuspect]:
    """Return suspects, the newest first."""
    found = TrapSuspect.objects.filter(of_partition="").select_related("job").order_by("-id")
    if job_id is not None:
        found = found.filter(job=job_id)
    if host:
        found = found.filter(host=host)
    return found.filter(decision=decision) if decision else found


def list_suspects_everywhere(
    *, job_id: int | None = None, host: str = "", decision: str = "", after: SuspectKey | None = None, most: int
) -> SuspectsEverywhere:
    """
    Return a page of the suspects of all partitions, one partition after the other, and the newest of each partition
    first.
    """

    def part(partition: str, job_id: int | None) -> Sequence[TrapSuspect]:
        if after is not None and partition < after.partition:
            return []
        found = find_suspects(job_id=job_id, host=host, decision=decision)
        if after is not None and partition == after.partition:
            found = found.filter(pk__lt=after.id)
        return list(found[: most + 1])

    def elsewhere(name: str) -> Sequence[TrapSuspect]:
        local = None if job_id is None else local_job(job_id)
        if job_id is not None and local is None:
            return []
        found = part(name, local)
        numbers = numbers_of({one.job_id for one in found})
        for one in found:
            one.job.pk = numbers.get(one.job_id, 0)
        return [one for one in found if one.job.pk]

    found = read_everywhere(lambda: part("", job_id), elsewhere)
    lines = merge_lines(found, lambda part: part, key=lambda _one: 0)
    shown = lines[:most]
    last = shown[-1] if len(lines) > most else None
    return SuspectsEverywhere(shown, SuspectKey(last.line.pk, last.partition) if last else None, found.silent)


def check_rule(suspect: TrapSuspect, *, rule: str = "exclude") -> RuleTest:
    """Test the rule that accepting a suspect would make: an exclude pattern, or a parameter that links lose."""
    is_parameter = rule == "drop_parameter"
    written = suspect.parameter if is_parameter else suspect.rule
    connection.ensure_connection()
    facts = {"host": suspect.host, "job": suspect.job_id, "lanes": _LANES, "most": EXAMINED}
    with named_rows(connection.connection) as cursor:
        rows = cursor.execute(_KNOWN, facts).fetchall()
    pattern = re2.compile(_of_parameter(suspect.parameter) if is_parameter else suspect.rule)
    matched = [row.identifier for row in rows if pattern.search(row.identifier)]
    good = [url for url in matched if _is_good(url, suspect)]
    return RuleTest(written, len(rows), len(matched), len(good), good[:_EXAMPLES], len(rows) < EXAMINED)


def read_holding(
    hosts_of_jobs: Mapping[int, str], identifier: str, *, guarded: Collection[int]
) -> dict[int, TrapSuspect]:
    """
    Return the suspect that holds an address back, by job. `guarded` jobs also hold back documents of open suspects.
    """
    if not hosts_of_jobs:
        return {}
    templates = [group.template for group in grouped(identifier).groups]
    is_held = Q(decision=TrapDecision.OPEN, job__in=guarded) | Q(rule_state=RuleState.WAITS)
    found = TrapSuspect.objects.filter(
        is_held, job__in=hosts_of_jobs, host__in=set(hosts_of_jobs.values()), template__in=templates
    )
    holding: dict[int, TrapSuspect] = {}
    for suspect in sorted(found, key=lambda one: templates.index(one.template)):
        if templates[0] not in suspect.proven or templates[0] == suspect.template:
            holding.setdefault(suspect.job_id, suspect)
    return holding


def _is_good(url: str, suspect: TrapSuspect) -> bool:
    templates = [group.template for group in grouped(url).groups]
    return suspect.template not in templates or (templates[0] in suspect.proven and templates[0] != suspect.template)


def _of_parameter(name: str) -> str:
    return f"[?&](?i:{re2.escape(name)})="
