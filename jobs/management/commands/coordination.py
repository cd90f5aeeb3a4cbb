"""`manage.py coordination CLUSTER`: the members of a cluster, their distributed jobs, and the items that each holds."""

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from nodes.coordination.names import BadName
from nodes.coordination.port import ClusterState, CoordinationError, LockSeen
from nodes.database.address import database_dsn
from nodes.distributed.store_views import read_view


class Command(BaseCommand):
    requires_system_checks: list[str] = []
    help = "Show a cluster of distributed jobs, as stored in its coordination store."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("cluster", help="name of the cluster")

    def handle(self, *_args: Any, cluster: str, **_options: Any) -> None:
        try:
            seen, locks = read_view(cluster, dsn=database_dsn())
        except (BadName, CoordinationError) as error:
            raise CommandError(str(error), returncode=2) from error
        for line in (*_of_members(seen), *_of_pools(seen), *_of_locks(locks)):
            self.stdout.write(line)


def _of_members(seen: ClusterState) -> Iterator[str]:
    yield f"main: {seen.main or 'none'}, term {seen.term}"
    does = Counter(seen.shares.values())
    for node in sorted({*seen.members, *seen.gone}):
        able = ", ".join(sorted(seen.members[node])) or "nothing" if node in seen.members else "gone"
        yield f"node {node}: {does[node]} items; distributed jobs: {able}"


def _of_pools(seen: ClusterState) -> Iterator[str]:
    placed = Counter(item.job for item in seen.shares)
    for job, items in sorted(seen.pools.items()):
        yield f"job {job}: {len(items)} items, {placed[job]} of them assigned"


def _of_locks(locks: tuple[LockSeen, ...]) -> Iterator[str]:
    for lock in locks:
        since = "" if lock.since is None else f" since {lock.since:%Y-%m-%d %H:%M:%S} UTC"
        ends = "expired" if lock.has_expired else f"remaining lease {lock.remaining.total_seconds():.0f} s"
        note = f" ({lock.note})" if lock.note else ""
        yield f"lock {lock.item.job}/{lock.item.item}: {lock.holder or 'invalid'}{since}, {ends}{note}"
