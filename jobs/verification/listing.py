"""The lines that commands print: faults, and verifications that other partitions schedule."""

import argparse
from collections.abc import Iterator
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.db.models import QuerySet

from jobs.partitions import this_partition
from jobs.partitions.merged import PartitionAway
from jobs.verification.all_partitions import Begun
from nodes.errors import Invalid, NotDone

# Largest number of faults that a command names without --all.
SHOWN: Final = 20


def lines_of(faults: QuerySet[Any], *, names_all: bool) -> Iterator[str]:
    """Yield a line for each fault that is shown, and a last line with the number of the other faults."""
    for fault in faults if names_all else faults[:SHOWN]:
        yield f"{fault.kind} {fault} {fault.result}".rstrip()
    left = 0 if names_all else faults.count() - SHOWN
    if left > 0:
        yield f"More faults: {left:,}. Name them with --all."


class VerifyingCommand(BaseCommand):
    """A command that verifies in its own process, and lets the task workers of other partitions do so there."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--partition",
            metavar="NAME",
            default="",
            help="verify only in this partition. Without it, a task in each other partition verifies there, too",
        )

    def schedule(self, partition: str, **given: Any) -> Begun[int | None]:
        """Schedule the verification in other partitions: in one of this name, or in all."""
        raise NotImplementedError

    def schedule_elsewhere(self, given: dict[str, Any]) -> bool:
        """
        Schedule the verification in other partitions, and print a line for each of them. Return True if this process
        has to verify its own partition.

        Raises:
            CommandError: the named partition cannot verify.
        """
        partition = given["partition"]
        if partition and partition == this_partition.name():
            return True
        try:
            begun = self.schedule(**given)
        except PartitionAway as away:
            raise CommandError(str(away), returncode=1) from away
        except NotDone as wrong:
            said = wrong.by_field if isinstance(wrong, Invalid) else str(wrong)
            raise CommandError(said, returncode=2) from wrong
        for row in begun.rows:
            self.stdout.write(f"Partition {row.partition}: task {row.line} is scheduled.")
        for name, why in begun.refused.items():
            self.stderr.write(f"Partition {name} refused: {why}")
        for name in begun.silent:
            self.stderr.write(f"Partition {name} does not answer. Start its verification later.")
        return not partition
