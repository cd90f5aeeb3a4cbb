"""`manage.py trap VERB`: suspects of traps."""

import argparse
import getpass
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from jobs.models import Job, RuleKind, RuleState, TrapDecision, TrapSuspect
from jobs.partitions.merged import change_in, read_in
from jobs.queries.traps import check_rule, find_suspects, list_suspects_everywhere
from jobs.verbs import traps
from jobs.verbs.trap_rules import Effect
from nodes.database.clock import read_clock
from nodes.errors import Invalid, NotDone, Unknown
from nodes.management.database import check_database
from nodes.permissions import may_do_everything

# Largest number of digits in the number of a suspect.
_LONGEST_NUMBER: Final = 18
# Largest number of suspects that one command lists.
_LISTED: Final = 200

# Sentences about the effect of an undone decision on the rules of the job.
_UNDONE: Final = {
    Effect.SUSPECTED: "Its new documents are held back, if the trap guard of the job holds.",
    Effect.WITHDRAWN: "The job had not got the rule.",
    Effect.REMOVED: "The job lost the rule.",
    Effect.LEAVES: "The job loses the rule when its run ends.",
    Effect.KEPT: "The job had the rule before, and keeps it.",
    Effect.MISSING: "The job no longer had the rule, so nothing was removed.",
}


def _placed(text: str) -> tuple[str, int]:
    """Return the partition of a suspect, "" for this one, and its number."""
    partition, _colon, number = text.rpartition(":")
    if not number.isdecimal() or len(number) > _LONGEST_NUMBER:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of a suspect. Write a number such as 17, or b:17.")
    return partition, int(number)


class Command(BaseCommand):
    # Standard output carries only the answer, without the warnings of checks.
    requires_system_checks: list[str] = []
    help = (
        "List groups of addresses that look like traps, test the rule against one, decide about it, or undo a decision."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        listing = verbs.add_parser("list", help="list suspects, the newest first")
        listing.add_argument("--job", default="", help="only those of the job with this name")
        listing.add_argument("--host", default="", help="only those at this host")
        listing.add_argument(
            "--decision",
            choices=[one.value for one in TrapDecision],
            default=TrapDecision.OPEN.value,
            help="only those with this decision (default: %(default)s)",
        )
        for verb, said in (
            ("test", "test the rule of a suspect against the documents of its host that outputs hold"),
            ("accept", "give the job the rule of a suspect"),
            ("release", "release a suspect that is not a trap, and make its documents due"),
            ("undo", "undo the decision about a suspect, and remove the rule that accepting gave to the job"),
        ):
            of_one = verbs.add_parser(verb, help=said)
            of_one.add_argument(
                "suspect",
                type=_placed,
                help="number of the suspect; in another partition, with the partition's name: b:17",
            )
            if verb in {"test", "accept"}:
                of_one.add_argument(
                    "--rule",
                    choices=[kind.value for kind in RuleKind],
                    default=RuleKind.EXCLUDE.value,
                    help="kind of the rule (default: %(default)s)",
                )
            if verb == "accept":
                of_one.add_argument("--confirm", action="store_true", help="accept a rule that matches good pages, too")

    def handle(self, *_args: Any, verb: str, **given: Any) -> None:
        check_database()
        if verb == "list":
            self._list(given)
            return
        partition, suspect = given.pop("suspect")
        given["suspect"] = suspect
        try:
            if partition and verb == "test":
                read_in(partition, lambda: self._perform(verb, given))
            elif partition:
                change_in(partition, lambda: self._perform(verb, given))
            else:
                self._perform(verb, given)
        except (Unknown, Invalid) as wrong:
            raise CommandError(str(wrong), returncode=2) from wrong
        except NotDone as refused:
            raise CommandError(str(refused), returncode=1) from refused

    def _list(self, given: dict[str, Any]) -> None:
        job = Job.objects.filter(name=given["job"]).only("pk").first()
        if given["job"] and job is None:
            raise CommandError(f"No job has the name {given['job']!r}.", returncode=2)
        filters = {"host": given["host"], "decision": given["decision"]}
        found = list_suspects_everywhere(job_id=job.pk if job else None, **filters, most=_LISTED)
        for placed in found.lines:
            self._print(placed.line, placed.partition)
        for one in found.silent:
            self.stderr.write(f"Partition {one.name} does not answer. Its suspects are missing.")

    def _perform(self, verb: str, given: dict[str, Any]) -> None:
        """Perform an action on one suspect in the database of this thread."""
        made_by, now = getpass.getuser(), read_clock()
        if verb == "test":
            self._test(given["suspect"], rule=given["rule"])
        elif verb == "accept":
            facts = {"rule": given["rule"], "confirm": given["confirm"]}
            suspect = traps.accept(given["suspect"], **facts, made_by=made_by, now=now)
            waits = suspect.rule_state == RuleState.WAITS
            self.stdout.write(
                f"The job holds {suspect.template} at {suspect.host} back, and gets the rule when its run ends."
                if waits
                else f"The job has the rule of {suspect.template} at {suspect.host}."
            )
        elif verb == "undo":
            undone = traps.undo(given["suspect"], may=may_do_everything, made_by=made_by, now=now)
            self.stdout.write(f"The suspect is open again. {_UNDONE[undone.effect]}")
        else:
            released = traps.release(given["suspect"], made_by=made_by, now=now)
            self.stdout.write(f"Documents that are due again: {released.sent.documents:,}.")

    def _print(self, suspect: TrapSuspect, partition: str) -> None:
        place = f"{partition}:" if partition else ""
        self.stdout.write(
            f"{place}{suspect.pk}: {suspect.host} {suspect.template} (job {suspect.job.name}, {suspect.decision}): {suspect.new:,} of "
            f"{suspect.fetched:,} documents had new content, {suspect.bytes:,} bytes read, {suspect.held:,} held back"
        )
        for sample in suspect.samples:
            self.stdout.write(f"  {sample}")

    def _test(self, suspect_id: int, *, rule: str) -> None:
        suspect = find_suspects().filter(pk=suspect_id).first()
        if suspect is None:
            raise Unknown("suspect", suspect_id)
        if rule == RuleKind.DROP_PARAMETER and not suspect.parameter:
            raise Invalid({"rule": ["This suspect is no parameter."]})
        tested = check_rule(suspect, rule=rule)
        self.stdout.write(
            f"Rule: {tested.rule}\nDocuments examined: {tested.examined:,}, matching: {tested.matched:,}, good pages among these: {tested.good:,}"
        )
        for example in tested.examples:
            self.stdout.write(f"  {example}")
