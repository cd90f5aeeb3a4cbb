"""Operations of operators: the verification of an output, in this process or by a background task."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from django.db import transaction
from django.db.models.functions import Now

from jobs.connectors.output.base import Lists, Output, OutputError
from jobs.connectors.output.buckets import BUCKETS, choose
from jobs.connectors.output.registry import is_installed, open_output
from jobs.connectors.schema import BadSpecification
from jobs.models import OutputConnection, OutputVerification
from jobs.verbs.control import MAY_CONTROL
from jobs.verification.all_partitions import Begun, begin, covers_others
from jobs.verification.attempts import ShouldContinue, begin_attempt, note, refuse
from jobs.verification.finding import cursor_of_database, find
from jobs.verification.other_partitions import sharing_partitions
from jobs.verification.repairing import repair
from nodes.errors import Invalid, NotAllowed, Refused, Unknown
from nodes.membership.changes import record_request
from nodes.permissions import May, may_do_everything
from nodes.tasks import verbs
from nodes.tasks.models import Task

T = TypeVar("T")

# Only administrators may remove more ghosts than the thresholds of the guard allow.
MAY_ALLOW_REMOVALS: Final = "jobs.change_outputconnection"
MOST_REPAIRS: Final = 2**31 - 1


def verify_output(
    output: OutputConnection,
    *,
    sample: float | None = None,
    repairs: bool = False,
    most: int | None = None,
    allows_removals: bool = False,
    made_by: str,
    should_continue: ShouldContinue[OutputVerification] = lambda _verification: True,
) -> OutputVerification:
    """
    Compare an output with its record in this process, and return the result.

    `sample` is a share of all documents in percent, None for all. If `repairs`, missing and stale documents are read
    again and ghosts are removed, at most `most` documents. `allows_removals` removes ghosts above the thresholds of the
    delete guard. While it runs, `should_continue` is called with the progress; the verification ends early if the
    result is False.

    Raises:
        Invalid: a part is invalid.
        Refused: the output cannot be listed (on this machine, or on any machine), or it refuses a removal.
    """
    verification = _create(
        output, sample=sample, repairs=repairs, most=most, allows_removals=allows_removals, made_by=made_by, task=None
    )
    try:
        return carry_out(verification, should_continue=should_continue)
    except OutputError as error:
        refuse(verification, str(error), ends=True)
        raise Refused(str(error)) from error


@transaction.atomic
def start(
    output_id: int,
    *,
    sample: float | None = None,
    repairs: bool = False,
    most: int | None = None,
    allows_removals: bool = False,
    may: May,
    made_by: str,
) -> OutputVerification:
    """
    Schedule the verification of an output as a background task.

    Raises:
        Invalid: a part is invalid.
        NotAllowed: the user may not do this.
        Refused: the output cannot be listed.
        Unknown: the output does not exist.
    """
    _check_permission(may, allows_removals=allows_removals)
    output = OutputConnection.objects.filter(pk=output_id).first()
    if output is None:
        raise Unknown("output", output_id)
    arguments: dict[str, object] = {"output": output.name}
    given = {"sample": sample, "repair": repairs or None, "most": most}
    arguments |= {name: value for name, value in given.items() if value is not None}
    _check(output, sample=sample, most=most)
    task = verbs.create(kind="verify_output", arguments=arguments, made_by=made_by)
    return _create(
        output,
        sample=sample,
        repairs=repairs,
        most=most,
        allows_removals=allows_removals,
        made_by=made_by,
        task=task.pk,
    )


def start_everywhere(
    output_id: int,
    *,
    describe: Callable[[OutputVerification], T],
    partition: str = "",
    with_own: bool = True,
    may: May,
    made_by: str,
    **choice: Any,
) -> Begun[T]:
    """
    Schedule the verification of an output in each partition that has it, or in one `partition`. Return the results of
    `describe`.

    `describe` gets each verification in the database that has it. This partition is left out unless `with_own`. The
    `choice` is passed to `start`.

    Raises:
        NotAllowed, Unknown: as `start`.
        Invalid, Refused, PartitionAway: as `everywhere.begin`.
    """
    _check_permission(may, allows_removals=bool(choice.get("allows_removals")))

    def own() -> T:
        return describe(start(output_id, may=may, made_by=made_by, **choice))

    if not covers_others(partition):
        return begin(partition, own=own if with_own else None, start_there=lambda: None)
    name = OutputConnection.objects.filter(pk=output_id).values_list("name", flat=True).first()
    if name is None:
        raise Unknown("output", output_id)

    def start_there() -> T | None:
        found = OutputConnection.objects.filter(name=name).values_list("pk", flat=True).first()
        return None if found is None else describe(start(found, may=may_do_everything, made_by=made_by, **choice))

    return begin(partition, own=own if with_own else None, start_there=start_there)


def create_for_task(
    task: int, name: str, *, sample: float | None, repairs: bool, most: int | None
) -> OutputVerification:
    """
    Return the verification of a task. For a task that a template made, create the verification first.

    Raises:
        Unknown: no output has this name.
        Refused: the output cannot be listed.
    """
    found = OutputVerification.objects.filter(task=task).first()
    if found is not None:
        return found
    output = OutputConnection.objects.filter(name=name).first()
    if output is None:
        raise Unknown("output", name, f"No output has the name {name!r}.")
    made_by = Task.objects.filter(pk=task).values_list("created_by", flat=True).first() or "task"
    return _create(
        output,
        sample=sample,
        repairs=repairs,
        most=most,
        allows_removals=False,
        made_by=made_by,
        task=task,
    )


def carry_out(
    verification: OutputVerification, *, should_continue: ShouldContinue[OutputVerification]
) -> OutputVerification:
    """
    Compare and repair from the last chunk on, and return the verification.

    Raises:
        OutputError: the output cannot be read, or refuses a removal.
        AnotherAttempt: another attempt carries out the verification.
    """
    verification = begin_attempt(verification)
    if verification.ended_at is not None:
        return verification
    try:
        output = open_output(verification.output)
    except BadSpecification as error:
        raise OutputError(f"Output {verification.output} cannot be used: {error}.") from error
    listed = _listed(verification.output, output)
    others = sharing_partitions(cursor_of_database().connection, output)
    is_done = find(verification, listed, others, should_continue=should_continue)
    if is_done and verification.repairs:
        is_done = repair(verification, output, should_continue=should_continue)
    if is_done:
        note(verification, ended_at=Now(), refused="")
    return verification


def share_in_sync(verification: OutputVerification) -> float:
    """
    Return the share of the documents read that were in sync, in percent. A share below 100 is never rounded up to 100.
    """
    if not verification.documents:
        return 100.0
    return 100.0 * (verification.documents - verification.faults) / verification.documents


def buckets_of(verification: OutputVerification) -> int:
    """Return the number of buckets that a verification compares."""
    return BUCKETS if verification.buckets is None else len(verification.buckets)


def _create(
    output: OutputConnection,
    *,
    sample: float | None,
    repairs: bool,
    most: int | None,
    allows_removals: bool,
    made_by: str,
    task: int | None,
) -> OutputVerification:
    _check(output, sample=sample, most=most)
    if repairs and task is None:
        record_request(f"{made_by} verifies and repairs output {output.name}", made_by=made_by)
    made = OutputVerification.objects.create(
        output=output,
        task=task,
        started_by=made_by,
        buckets=None if sample is None or sample >= _ALL else choose(sample),
        repairs=repairs,
        most=most,
        allows_removals=allows_removals,
    )
    made.refresh_from_db()
    return made


def _check_permission(may: May, *, allows_removals: bool) -> None:
    """
    Check the permission for a verification.

    Raises:
        NotAllowed: the user may not do this.
    """
    if not may(MAY_CONTROL) or (allows_removals and not may(MAY_ALLOW_REMOVALS)):
        raise NotAllowed("Your role does not permit this. An administrator may allow removals.")


_ALL: Final = 100


def _check(output: OutputConnection, *, sample: float | None, most: int | None) -> None:
    problems = {}
    if sample is not None and not 0 < sample <= _ALL:
        problems["sample"] = ["This must be a share of the documents in percent, above 0 and at most 100."]
    if most is not None and not 0 <= most <= MOST_REPAIRS:
        problems["most"] = ["This must be a number of repairs, 0 or more."]
    if problems:
        raise Invalid(problems)
    if not is_installed(output.connector):
        raise Refused(f"The connector {output.connector} of output {output.name} is not installed.")
    try:
        opened = open_output(output)
    except BadSpecification as error:
        raise Refused(f"Output {output.name} cannot be used: {error}.") from error
    try:
        _listed(output, opened)
    except OutputError as error:
        raise Refused(str(error)) from error


def _listed(connection: OutputConnection, output: Output) -> Lists:
    if isinstance(output, Lists):
        return output
    why = "it keeps no documents" if not output.holds else f"its connector {connection.connector} cannot list them"
    raise OutputError(f"Output {connection.name} cannot be verified: {why}.")
