"""
Very long lists of seed addresses, as text: one address a line.

A list is one seed of its job. `editing.change_job` stores it as a whole or not at all.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from django.db import transaction

from jobs.connectors.repository.registry import check_specification
from jobs.models import Job, Seed
from jobs.verbs import editing
from jobs.verbs.editing import JobSaved
from jobs.verbs.seeds import SeedWanted
from nodes.errors import Invalid, Unknown

MOST_ADDRESSES: Final = 100_000
LONGEST_ADDRESS: Final = 10_000
# Largest number of bad lines that an error names.
_NAMED: Final = 20


class _Line(NamedTuple):
    number: int
    address: str


def change_addresses(seed_id: int, *, text: str, append: bool, made_by: str, now: dt.datetime) -> JobSaved:
    """
    Replace the addresses of a seed by the lines of a text, or `append` them. Blank and repeated lines are left out.

    Raises:
        Unknown: the seed does not exist.
        Invalid: lines are invalid addresses for its job. The error names the first such lines.
        Invalid: the text has no line or too many lines, or the job cannot be changed now.
    """
    lines = list(_lines_of(text))
    with transaction.atomic():
        job = Job.objects.select_for_update(no_key=True).filter(seeds=seed_id, seeds__removed_at=None).first()
        if job is None:
            raise Unknown("seed", seed_id)
        stored = list(job.seeds.filter(removed_at=None).select_related("policy"))
        changed = next(seed for seed in stored if seed.pk == seed_id)
        kept = changed.urls if append else []
        addresses = [*kept, *(line.address for line in lines)]
        different = len(set(addresses))
        if not 0 < different <= MOST_ADDRESSES:
            said = f"A seed has 1 to {MOST_ADDRESSES:,} addresses; these are {different:,}."
            raise Invalid({"urls": [said]})
        wanted = [_as_wanted(seed, addresses if seed.pk == seed_id else seed.urls) for seed in stored]
        if _problems_of_texts(lines):
            _refuse_bad_lines(job, lines)
        try:
            return editing.change_job(job.pk, seeds=wanted, made_by=made_by, now=now)
        except Invalid:
            # This error is about the seed, and the author of the text needs the numbers of the bad lines.
            _refuse_bad_lines(job, lines)
            raise


def _lines_of(text: str) -> Iterator[_Line]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield _Line(number, line.strip())


def _as_wanted(seed: Seed, addresses: Sequence[str]) -> SeedWanted:
    return SeedWanted(tuple(addresses), seed.policy, seed.tag, seed.pk)


def _refuse_bad_lines(job: Job, lines: Sequence[_Line]) -> None:
    problems: dict[str, list[str]] = {}
    for line, said in _bad_lines(job, lines):
        if len(problems) == _NAMED:
            problems["lines"] = [f"More lines are wrong; these are the first {_NAMED}."]
            break
        problems[f"lines.{line.number}"] = said
    if problems:
        raise Invalid(problems)


def _bad_lines(job: Job, lines: Sequence[_Line]) -> Iterator[tuple[_Line, list[str]]]:
    """
    Yield the lines that the connector refuses. It checks only whole lists, so the list is halved until the bad lines
    are found.
    """
    said = _problems_of(job, lines)
    if not said:
        return
    if len(lines) == 1:
        yield lines[0], said
        return
    half = len(lines) // 2
    yield from _bad_lines(job, lines[:half])
    yield from _bad_lines(job, lines[half:])


def _problems_of(job: Job, lines: Sequence[_Line]) -> list[str]:
    if said := _problems_of_texts(lines):
        return said
    addresses = [line.address for line in lines]
    checked = check_specification(job.repository, specification=job.specification, seeds=addresses)
    return list(checked.problems.get("seeds", []))


def _problems_of_texts(lines: Sequence[_Line]) -> list[str]:
    if any(len(line.address) > LONGEST_ADDRESS for line in lines):
        return [f"An address has {LONGEST_ADDRESS:,} characters at most."]
    if any("\0" in line.address for line in lines):
        return ["An address has no NUL character."]
    return []
