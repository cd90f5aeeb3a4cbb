"""
The explanation of an address in the partition that has its host.

The control partition asks the other partition, in which jobs have other ids. Buttons of such an explanation
change the job in the control partition, or the document in its own partition.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jobs.explain.explaining import Explained, Section, explain
from jobs.explain.facts import read_address
from jobs.partitions import this_partition
from jobs.partitions.merged import Silent, local_job, numbers_of, read_everywhere
from jobs.queries.partitions import read_owners


@dataclass(frozen=True, slots=True)
class ExplainedEverywhere:
    """
    An explanation. `partition` is the other partition that gave it, or "" for this one. The `silent` partitions did not
    answer.
    """

    found: Explained
    partition: str = ""
    silent: Sequence[Silent] = ()


def explain_everywhere(typed: str, *, job_id: int | None = None, now: dt.datetime) -> ExplainedEverywhere:
    """
    Explain an address in the partition that has its host. If that partition does not answer, explain the address by the
    facts of this partition.

    Raises:
        Invalid: the text is not an address.
        Unknown: the job does not exist.
    """
    own = explain(typed, job_id=job_id, now=now)
    others = _may_know(typed, own)
    if not others:
        return ExplainedEverywhere(own)
    asked = read_everywhere(lambda: own, lambda _name: _explain_elsewhere(typed, job_id=job_id, now=now), among=others)
    for name, found in asked.others.items():
        # A partition that has the host also knows the state of the host for a forecast.
        if found is not None and (found.is_known or (len(others) == 1 and found.sections)):
            sections = [replace(section, partition=name) for section in found.sections]
            return ExplainedEverywhere(replace(found, sections=sections), name, asked.silent)
    return ExplainedEverywhere(own, silent=asked.silent)


def _may_know(typed: str, own: Explained) -> Sequence[str]:
    """
    Return the partitions that may know an address: the partition of its host, or all other partitions for an address
    without a host.
    """
    placement = this_partition.placement()
    if placement is None or not placement.is_control or own.is_known or own.gates:
        return ()
    if not (host := read_address(typed).host):
        return placement.others
    owner = replace(placement, owners=tuple(read_owners(placement))).foreign(host)
    return () if owner is None else (owner,)


def _explain_elsewhere(typed: str, *, job_id: int | None, now: dt.datetime) -> Explained | None:
    """Explain an address in the database of this thread. Jobs get their ids in the control partition."""
    local = None if job_id is None else local_job(job_id)
    if job_id is not None and local is None:
        return None
    found = explain(typed, job_id=local, now=now)
    numbers = numbers_of({section.job.pk for section in found.sections} | set(found.more))
    known = [section for section in found.sections if section.job.pk in numbers]
    more = {numbers[id_]: name for id_, name in found.more.items() if id_ in numbers}
    return replace(found, sections=[_renumbered(section, numbers[section.job.pk]) for section in known], more=more)


def _renumbered(section: Section, number: int) -> Section:
    """
    Return a section with the id of its job in the control partition. The link to the host is removed, because the host
    has no page there.
    """
    section.job.pk = number
    if section.item is not None:
        section.item.job_id = number
    return section if section.host is None else replace(section, host=replace(section.host, id=0))
