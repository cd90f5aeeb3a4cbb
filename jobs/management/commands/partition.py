"""`manage.py partition`: the partitions, their shares, and the exchange between them."""

import argparse
import json
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError

from jobs.partitions import this_partition
from jobs.partitions.agreement import accept, add
from jobs.partitions.placement import SLOTS, BadPartitions
from jobs.queries.partitions import PartitionLine, read_last_move, read_partitions
from jobs.verbs import slots
from nodes.database.address import database_dsn
from nodes.database.clock import read_clock
from nodes.database.connections import connect
from nodes.errors import Invalid, Refused
from nodes.management.database import check_database
from nodes.settings.node_settings import NODE_TIMEOUT
from nodes.settings.running import current


class Command(BaseCommand):
    # Standard output carries only the answer, without the warnings of checks.
    requires_system_checks: list[str] = []
    help = "Show the partitions: several databases, each with a cluster of its own, that crawl one set of jobs."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        listing = verbs.add_parser("list", help="list all partitions, as this one sees them")
        listing.add_argument("--json", action="store_true", help="print one line of JSON for each partition")

        moving = verbs.add_parser(
            "move-slots", help="give slots of one partition, with their hosts and documents, to others"
        )
        moving.add_argument(
            "--from", dest="source", required=True, metavar="NAME", help="the partition that has the slots"
        )
        moving.add_argument(
            "--to",
            dest="targets",
            required=True,
            action="append",
            metavar="NAME",
            help="a partition that gets the slots; repeatable",
        )
        amount = moving.add_mutually_exclusive_group(required=True)
        amount.add_argument("--count", type=int, help="number of slots")
        amount.add_argument("--slots", type=slots_in, metavar="LIST", help="these slots, such as 0-63,70")
        moving.add_argument("--dry-run", action="store_true", help="show the move, and change nothing")

        draining = verbs.add_parser("drain", help="give all slots of a partition to the others")
        draining.add_argument("source", metavar="name", help="the partition that gives all its slots away")
        draining.add_argument(
            "--to",
            dest="targets",
            action="append",
            default=[],
            metavar="NAME",
            help="a partition that gets slots; repeatable (default: all others)",
        )
        draining.add_argument("--dry-run", action="store_true", help="show the move, and change nothing")

        verbs.add_parser("cancel-move", help="cancel a move that still waits for jobs")

        adding = verbs.add_parser("add", help="note a new partition in this database; at first, it has no slots")
        adding.add_argument("name", help="the new partition, the last one that CRAWLCTL_PARTITIONS names")

        removing = verbs.add_parser("remove", help="remove a drained partition from the databases of all")
        removing.add_argument("name", help="the partition; it must have no slots and no documents")
        removing.add_argument("--dry-run", action="store_true", help="check that it is possible, and change nothing")
        removing.add_argument(
            "--lost",
            action="store_true",
            help="remove a partition whose database is lost; other partitions get its hosts, but not its documents",
        )

        accept = verbs.add_parser("accept", help="accept a new database of a partition at the next start")
        accept.add_argument("name", help="the partition that has a new database")

    def handle(self, *_args: Any, **given: Any) -> None:
        check_database()
        placement = this_partition.placement()
        if given["verb"] == "accept":
            self._accept(given["name"])
        elif given["verb"] == "add":
            self._add(given["name"])
        elif given["verb"] == "remove":
            remove = self._remove_lost if given["lost"] else self._remove
            remove(given["name"], is_dry_run=given["dry_run"])
        elif given["verb"] in {"move-slots", "drain", "cancel-move"}:
            self._move(given)
        elif placement is None:
            self.stdout.write("This database is the only one: CRAWLCTL_PARTITIONS names no other.")
        else:
            for seen in read_partitions(placement, now=read_clock()):
                self.stdout.write(json.dumps(_as_json(seen)) if given["json"] else _in_words(seen))
            if not given["json"] and (move := read_last_move(placement)) is not None:
                self.stdout.write(f"Move {move.number}: {move.sentence}")

    def _move(self, given: dict[str, Any]) -> None:
        with _connect() as asking:
            try:
                if given["verb"] == "cancel-move":
                    move = slots.cancel(asking)
                    self.stdout.write(f"Move {move.number} is cancelled. All jobs go on with the old slots.")
                    return
                planned = slots.plan(
                    asking,
                    source=given["source"],
                    targets=given["targets"],
                    slots=given.get("slots"),
                    count=given.get("count"),
                )
                self.stdout.write(_planned_in_words(planned))
                if given["dry_run"]:
                    self.stdout.write("Nothing was changed.")
                    return
                move = slots.begin(asking, planned)
            except Invalid as invalid:
                raise CommandError(invalid.by_field, returncode=2) from invalid
            except Refused as refused:
                raise CommandError(str(refused)) from refused
        self.stdout.write(f"Move {move.number} has begun. `crawlctl partition list` shows how far it is.")

    def _add(self, name: str) -> None:
        with _connect() as asking:
            try:
                is_new = add(asking, name)
            except BadPartitions as bad:
                raise CommandError(str(bad), returncode=2) from bad
        if is_new:
            self.stdout.write(
                f"Partition {name} is noted here. Note it in all others, then restart all daemons. "
                f"Give it hosts with `crawlctl partition move-slots --to {name}`."
            )
        else:
            self.stdout.write(f"Nothing to do: partition {name} is noted here already.")

    def _remove(self, name: str, *, is_dry_run: bool) -> None:
        try:
            removal = slots.plan_removal(name) if is_dry_run else slots.remove(name)
        except Invalid as invalid:
            raise CommandError(invalid.by_field, returncode=2) from invalid
        except Refused as refused:
            raise CommandError(str(refused)) from refused
        if is_dry_run:
            self.stdout.write(
                f"Partition {name} can be removed from {', '.join(removal.databases[1:])}. Nothing was changed."
            )
            return
        self.stdout.write(
            f"Partition {name} is removed. Take it out of CRAWLCTL_PARTITIONS in {', '.join(removal.databases[1:])}, "
            f"restart all daemons there, and stop those of {name}."
        )

    def _remove_lost(self, name: str, *, is_dry_run: bool) -> None:
        try:
            loss = slots.plan_loss(name) if is_dry_run else slots.remove_lost(name)
        except Invalid as invalid:
            raise CommandError(invalid.by_field, returncode=2) from invalid
        except Refused as refused:
            raise CommandError(str(refused)) from refused
        for line in _lost_in_words(loss):
            self.stdout.write(line)
        if is_dry_run:
            self.stdout.write("Nothing was changed.")
            return
        if loss.ends_a_move:
            self.stdout.write(
                f"The move of slots goes on without {name}. `crawlctl partition list` shows when it is done. "
                "Then abort all runs, and repeat this command."
            )
            return
        self.stdout.write(
            f"Partition {name} is removed. Take it out of CRAWLCTL_PARTITIONS in {', '.join(loss.given)}, restart all "
            "daemons there, and start all jobs by a full run."
        )

    def _accept(self, name: str) -> None:
        names = this_partition.addresses()
        if name not in names:
            known = ", ".join(names) or "none"
            raise CommandError(f"There is no partition {name!r}. CRAWLCTL_PARTITIONS names: {known}.", returncode=2)
        with _connect() as asking:
            is_new = accept(asking, name)
        if is_new:
            self.stdout.write(f"The next start accepts the database of partition {name}, whatever it was before.")
        else:
            self.stdout.write(f"Nothing to do: no database of partition {name} is known here.")


def _connect() -> AbstractContextManager[psycopg.Connection[Any]]:
    return connect(database_dsn(), node_id=uuid.uuid4(), purpose="settings", timeout=current()[NODE_TIMEOUT])


def slots_in(text: str) -> list[int]:
    """Return the slots of a list of numbers and ranges, such as 0-63,70."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise argparse.ArgumentTypeError(f"{part!r} is not a slot or a range of slots. Write 70 or 0-63.")
        numbers = range(int(first), int(last or first) + 1)
        if not numbers or numbers[-1] >= SLOTS:
            raise argparse.ArgumentTypeError(f"{part!r} is not a range of slots: slots are 0 to {SLOTS - 1}.")
        found += numbers
    return found


def _planned_in_words(planned: slots.PlannedMove) -> str:
    given = ", ".join(f"{target} gets {amount}" for target, amount in planned.by_target.items())
    return f"{len(planned.slots)} slots leave {planned.source}, which keeps {planned.keeps}: {given}."


def _lost_in_words(loss: slots.Loss) -> Iterator[str]:
    amount = "an unknown number of documents"
    if loss.documents is not None and loss.told_at is not None:
        amount = f"{loss.documents:,} documents (as of {loss.told_at:%Y-%m-%d %H:%M:%S} UTC)"
    given = ", ".join(f"{name} gets {number}" for name, number in loss.given.items())
    yield f"Partition {loss.name} has {loss.slots} slots: {given}."
    if loss.ends_a_move:
        yield "Documents that were sent to it, and have not arrived, come back."
    yield (
        f"Lost are {amount} with their versions and tombstones, its history, its search index, and its part in runs that ended. "
        "Files that its workers wrote stay where they are."
    )
    yield (
        f"The next full run of each job finds its hosts again: by the seeds, and by {loss.links:,} links of other partitions, "
        "whose documents are fetched without conditions."
    )


def _as_json(seen: PartitionLine) -> dict[str, Any]:
    return {
        "name": seen.name,
        "here": seen.is_here,
        "control": seen.is_control,
        "slots": seen.slots,
        "documents": seen.documents,
        "rate": seen.rate,
        "silent": seen.is_silent,
        "sent_at": seen.sent_at and seen.sent_at.isoformat(),
        "receives": seen.is_receiving,
        "bytes_behind": seen.bytes_behind,
        "arrived": seen.arrived,
    }


def _in_words(seen: PartitionLine) -> str:
    roles = [word for word, holds in (("control", seen.is_control), ("here", seen.is_here)) if holds]
    name = f"{seen.name} ({', '.join(roles)})" if roles else seen.name
    facts = [f"{seen.slots} of {SLOTS} slots"]
    if seen.documents is not None:
        facts.append(f"{seen.documents:,} documents")
    if seen.rate is not None:
        facts.append(f"{seen.rate:,.1f} documents/s")
    if seen.sent_at is not None:
        facts.append(f"as of {seen.sent_at:%Y-%m-%d %H:%M:%S} UTC{', silent since then' if seen.is_silent else ''}")
    if not seen.is_here:
        facts.append("takes the rows of this partition" if seen.is_receiving else "takes no rows of this partition now")
        if seen.bytes_behind is not None:
            facts.append(f"{seen.bytes_behind:,} bytes behind")
        if seen.arrived:
            facts.append(f"{seen.arrived:,} of its references wait here")
    return f"{name}: {', '.join(facts)}"
