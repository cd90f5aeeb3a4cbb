"""Jobs that packages add: entry points of a group, or objects that a setting names as `package.module:OBJECT`."""

import importlib
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from typing import Final

from nodes.distributed.engine.job import DistributedJob

GROUP: Final = "crawlctl.distributed_jobs"


class JobNotFound(ValueError):
    """A name does not refer to a job, or the job cannot be loaded."""


def jobs_added(*, named: Iterable[str] = ()) -> list[DistributedJob]:
    """
    Return a job for each entry point and each name: of a class, an object, or a function that returns jobs.

    Raises:
        JobNotFound: the message names the place and the reason.
    """
    places = [*(entry.value for entry in entry_points(group=GROUP)), *named]
    return [job for place in dict.fromkeys(places) for job in _jobs_at(place)]


def _jobs_at(place: str) -> Iterator[DistributedJob]:
    module, colon, name = place.partition(":")
    if not module or not colon or not name:
        raise JobNotFound(f"{place!r} names no distributed job: write it as package.module:OBJECT")
    try:
        found = getattr(importlib.import_module(module), name)
        if callable(found):
            found = found()
        jobs = [found] if isinstance(found, DistributedJob) else list(found)
    except (Exception, SystemExit) as error:
        raise JobNotFound(f"the distributed job {place} cannot be loaded: {type(error).__name__}: {error}") from error
    for job in jobs:
        if not isinstance(job, DistributedJob):
            raise JobNotFound(f"the distributed job {place} is a {type(job).__name__}, not a DistributedJob")
        yield job
