"""The kind of tasks that verifies archives."""

from collections.abc import Mapping
from typing import Any, Final

from jobs.models import ArchiveFault, ArchiveVerification
from jobs.verification.archives import verbs
from nodes.tasks.context import TaskContext
from nodes.tasks.kinds import Kind


def verify(context: TaskContext, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """
    Verify the archives from the last file on. Return the numbers of findings.

    Raises:
        AnotherAttempt: another attempt carries out the verification.
        Refused: a node runs on the lost machine.
    """
    verification = verbs.create_for_task(
        context.task,
        sample=arguments.get("sample"),
        repairs=bool(arguments.get("repair", False)),
        lost_machine=arguments.get("lost_machine", ""),
    )

    def should_continue(progress: ArchiveVerification) -> bool:
        context.report(_found(progress))
        return not context.is_cancelled()

    return _found(verbs.carry_out(verification, should_continue=should_continue))


def _found(verification: ArchiveVerification) -> dict[str, Any]:
    names = ("files", "records", *(kind.value for kind in ArchiveFault.Kind), "skipped", "repaired")
    return {"verification": verification.pk, **{name: getattr(verification, name) for name in names}}


VERIFY_ARCHIVE: Final = Kind(
    name="verify_archive",
    title="Compare archives with their rows, and repair them",
    run=verify,
    properties={
        "sample": {"type": "number", "exclusiveMinimum": 0, "maximum": 100},
        "repair": {"type": "boolean"},
        "lost_machine": {"type": "string"},
    },
    retry_policy={"policy": "times", "times": 5, "seconds": 30},
)
