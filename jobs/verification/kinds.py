"""The kinds of tasks that verify an output and the archives."""

from collections.abc import Mapping
from typing import Any, Final

from jobs.connectors.output.base import OutputError
from jobs.models import OutputVerification
from jobs.verification import verbs
from jobs.verification.archives.kinds import VERIFY_ARCHIVE
from jobs.verification.attempts import refuse
from nodes.tasks.context import TaskContext
from nodes.tasks.kinds import Kind


def verify(context: TaskContext, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """
    Verify the output of a task from its last chunk on. Return the numbers of findings.

    Raises:
        OutputError: the output cannot be read, or refuses a removal.
        Unknown, Refused: the output does not exist, or cannot be listed.
        AnotherAttempt: another attempt carries out the verification.
    """
    verification = verbs.create_for_task(
        context.task,
        arguments["output"],
        sample=arguments.get("sample"),
        repairs=bool(arguments.get("repair", False)),
        most=arguments.get("most"),
    )

    def should_continue(progress: OutputVerification) -> bool:
        context.report(_found(progress))
        return not context.is_cancelled()

    try:
        return _found(verbs.carry_out(verification, should_continue=should_continue))
    except OutputError as error:
        refuse(verification, str(error), ends=False)
        raise


def _found(verification: OutputVerification) -> dict[str, Any]:
    names = ("documents", "missing", "ghost", "stale", "damaged", "skipped", "repaired")
    return {"verification": verification.pk, **{name: getattr(verification, name) for name in names}}


# Removals above the thresholds of the guard need a permission, so no argument allows them (`verbs.start`).
VERIFY_OUTPUT: Final = Kind(
    name="verify_output",
    title="Compare an output with its record, and repair it",
    run=verify,
    properties={
        "output": {"type": "string"},
        "sample": {"type": "number", "exclusiveMinimum": 0, "maximum": 100},
        "repair": {"type": "boolean"},
        "most": {"type": "integer", "minimum": 0, "maximum": verbs.MOST_REPAIRS},
    },
    required=("output",),
    retry_policy={"policy": "times", "times": 5, "seconds": 30},
)
KINDS: Final = (VERIFY_OUTPUT, VERIFY_ARCHIVE)
