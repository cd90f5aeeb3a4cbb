"""
The seeds of a job as input of operators, and their stored rows. `jobs.verbs.editing` calls this module to change them.
"""

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.utils.translation import ngettext

from jobs.connectors.repository.web.ended_redirects import redirects_without_seed
from jobs.connectors.repository.web.urls import canonical, typed_without_userinfo
from jobs.models import Job, Seed, SeedRedirect, ThrottlePolicy
from jobs.queue.pace.limits import rebind_bins
from jobs.queue.redirects import forget_redirects
from jobs.state import channels
from nodes.errors import Invalid
from nodes.web import formats


@dataclass(frozen=True, slots=True)
class SeedWanted:
    """
    A seed as input. A password in an address is never stored, since pages would show it. A repeated address is stored
    once.

    `id` is the stored seed that this one replaces. Without an id, this one replaces the next stored seed whose id no
    wanted seed has.
    """

    urls: tuple[str, ...]
    policy: ThrottlePolicy | None = None
    tag: str = ""
    id: int | None = None

    @property
    def stored_urls(self) -> list[str]:
        return list(dict.fromkeys(typed_without_userinfo(url.strip()) for url in self.urls))


def repeats_in(seeds: Sequence[SeedWanted]) -> list[str]:
    """Return a warning if a seed has an address more than once; otherwise an empty list."""
    repeated = sum(len(seed.urls) - len(seed.stored_urls) for seed in seeds)
    if not repeated:
        return []
    sentence = ngettext(
        "1 seed address is a repeat of an address in the same list. Each address is stored once.",
        "%(n)s seed addresses are repeats of an address in the same list. Each address is stored once.",
        repeated,
    )
    return [sentence % {"n": formats.number(repeated)}]


def seed_facts(urls: Sequence[str], policy_id: int | None, tag: str) -> dict[str, Any]:
    """Return the fields of a seed that operators set."""
    return {"urls": list(urls), "policy": policy_id, "tag": tag}


def insert_seeds(job: Job, seeds: Sequence[SeedWanted]) -> None:
    """Store new seeds of a job."""
    Seed.objects.bulk_create(Seed(job=job, urls=seed.stored_urls, policy=seed.policy, tag=seed.tag) for seed in seeds)


def addresses_of(seeds: Sequence[SeedWanted]) -> list[list[str]]:
    """Return the addresses of each seed in their stored form."""
    return [seed.stored_urls for seed in seeds]


def are_as_stored(seeds: Sequence[SeedWanted], stored: Sequence[Seed]) -> bool:
    """True if these seeds are equal to the stored ones."""
    if len(seeds) != len(stored) or any(
        wanted.id not in {None, seed.pk} for wanted, seed in zip(seeds, stored, strict=True)
    ):
        return False
    return all(
        (wanted.stored_urls, wanted.policy and wanted.policy.pk, wanted.tag) == (seed.urls, seed.policy_id, seed.tag)
        for wanted, seed in zip(seeds, stored, strict=True)
    )


def _places(seeds: Sequence[SeedWanted], stored: Sequence[Seed]) -> list[Seed | None]:
    """
    Return the stored seed that each wanted seed replaces; None for a new seed. A wanted seed with an id replaces the
    seed with this id. One without an id replaces the next stored seed whose id is not wanted.

    Raises:
        Invalid: the job has no seed with this id, or two wanted seeds have the same id.
    """
    by_id = {seed.pk: seed for seed in stored}
    problems: dict[str, list[str]] = {}
    named: set[int] = set()
    for number, wanted in enumerate(seeds):
        if wanted.id is not None and wanted.id not in by_id:
            problems[f"seeds.{number}.id"] = [f"This job has no seed {wanted.id}. Leave the id out to add a seed."]
        elif wanted.id in named:
            problems[f"seeds.{number}.id"] = [f"Two seeds have the id {wanted.id}."]
        elif wanted.id is not None:
            named.add(wanted.id)
    if problems:
        raise Invalid(problems)
    others = (seed for seed in stored if seed.pk not in named)
    return [next(others, None) if wanted.id is None else by_id[wanted.id] for wanted in seeds]


def replace_seeds(job: Job, seeds: Sequence[SeedWanted], *, stored: Sequence[Seed], now: dt.datetime) -> None:
    """
    Update the stored seeds that are still wanted, and do not replace their rows, because their lanes have documents.
    Mark the other stored seeds as removed.

    Raises:
        Invalid: the job has no seed with this id, or two wanted seeds have the same id.
    """
    places = _places(seeds, stored)
    addresses = {url for seed in stored for url in seed.urls}
    for wanted, seed in zip(seeds, places, strict=True):
        if seed is None:
            continue
        if seed.urls != wanted.stored_urls:
            # The source must be read for the new addresses.
            seed.urls, seed.seeded_run, seed.seeding_version = wanted.stored_urls, 0, ""
        before = seed.policy_id
        seed.policy, seed.tag = wanted.policy, wanted.tag
        # The group is not changed here. In a running job, the main manager moves the seed to the group of its new
        # policy.
        seed.save(update_fields=["urls", "seeded_run", "seeding_version", "policy", "tag"])
        if seed.policy_id != before:
            with connection.cursor() as cursor:
                rebind_bins(cursor, seed_id=seed.pk, before=before)
                cursor.execute("SELECT pg_notify(%s, %s)", (channels.GROUPS, job.node_scope))
                cursor.execute("SELECT pg_notify(%s, %s)", (channels.CONTROL, channels.LIMITS))
    kept = {seed.pk for seed in places if seed is not None}
    job.seeds.filter(pk__in=[seed.pk for seed in stored if seed.pk not in kept]).update(removed_at=now)
    insert_seeds(job, [wanted for wanted, seed in zip(seeds, places, strict=True) if seed is None])
    present = {url for wanted in seeds for url in wanted.stored_urls}
    if not addresses <= present:
        _forget_redirects(job, seeds=present)


def _forget_redirects(job: Job, *, seeds: Collection[str]) -> None:
    """
    Delete the redirects that began at removed seeds. Otherwise their hosts would stay in the scope.

    For a job without redirects, as most jobs are, the addresses of its seeds are not compared.
    """
    redirects = dict(SeedRedirect.objects.filter(job=job).values_list("source", "target"))
    if not redirects:
        return
    ended = redirects_without_seed(redirects, seeds=[canonical(url) for url in seeds])
    with connection.cursor() as cursor:
        forget_redirects(cursor, job=job.pk, sources=ended)
