"""Restorations in all partitions. The workers of each partition restore the documents that were removed there."""

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.db import transaction

from jobs.models import DeletedJob, OutputConnection, Restoration
from jobs.partitions import this_partition
from jobs.partitions.merged import PartitionAway, change_elsewhere, local_job, numbers_of, read_everywhere
from jobs.queries.jobs.removals import read_outputs, read_removals_everywhere
from jobs.state.transitions import lock_job
from jobs.verbs import restoring
from nodes.database.clock import read_clock
from nodes.errors import NotDone, Refused


@dataclass(frozen=True, slots=True)
class RequestedRestorations:
    """
    The requested restorations, first those of this partition. Each one names its partition.

    `silent` has the partitions that did not answer, and `refusals` the sentences of partitions that refused.
    """

    restorations: Sequence[Restoration]
    silent: Sequence[str] = ()
    refusals: Sequence[str] = ()

    @property
    def problems(self) -> Sequence[str]:
        """Return a sentence for each partition that restores nothing although it may have removed something."""
        silent = [f"Partition {name} does not answer. Restore its removals later." for name in self.silent]
        return [*self.refusals, *silent]

    def checked(self) -> Sequence[Restoration]:
        """
        Return the restorations if all partitions have answered.

        Raises:
            PartitionAway, Refused: a partition restores nothing. Restorations of other partitions stay requested.
        """
        if self.problems:
            error = PartitionAway if self.silent else Refused
            done = "The other partitions restore." if self.restorations else ""
            raise error(" ".join([done, *self.problems]).strip())
        return self.restorations


def restore(
    job_id: int, *, run_no: int | None = None, since: dt.datetime | None = None, made_by: str, now: dt.datetime
) -> RequestedRestorations:
    """
    Restore the removals of a job's run in all partitions, by default of the newest run with removals.

    Raises:
        Unknown, Refused: as `restoring.restore`, if no partition restores anything.
        PartitionAway: no partition restores anything, and a partition does not answer.
    """
    if run_no is None and this_partition.control_name():
        found = read_removals_everywhere(job_id)
        run_no = found.runs[0].run_no if found is not None and found.runs else None

    def restore_there() -> list[Restoration]:
        local = local_job(job_id)
        if local is None:
            return []
        try:
            return [restoring.restore(local, run_no=run_no, since=since, made_by=made_by, now=read_clock())]
        except restoring.NothingRemoved:
            return []

    return _ask(
        lambda: [restoring.restore(job_id, run_no=run_no, since=since, made_by=made_by, now=now)], restore_there
    )


def restore_output(job_id: int, output_id: int, *, made_by: str, now: dt.datetime) -> RequestedRestorations:
    """
    Restore documents that an operator removed from an output of a job, in all partitions. If the job has lost the
    output, it gets the output again.

    Raises:
        Invalid, Unknown, Refused, PartitionAway: as `restoring.restore_output` and `restore`.
    """
    name = _name_of(output_id)

    def own() -> list[Restoration]:
        try:
            return [restoring.restore_output(job_id, output_id, made_by=made_by, now=now)]
        except restoring.NothingRemoved:
            output = OutputConnection.objects.filter(pk=output_id).first()
            if output is None or not _is_removed_elsewhere(job_id, output.name):
                raise
            with transaction.atomic():
                # The other partitions take the outputs of a job from this partition.
                restoring.return_output(lock_job(job_id), output, made_by=made_by, now=now)
            return []

    def restore_there() -> list[Restoration]:
        local = local_job(job_id)
        output = OutputConnection.objects.filter(name=name).first()
        if local is None or output is None:
            return []
        try:
            with this_partition.following():
                return [restoring.restore_output(local, output.pk, made_by=made_by, now=read_clock())]
        except restoring.NothingRemoved:
            return []

    return _ask(own, restore_there, output_id=output_id, requires_own=True)


def restore_cleared(output_id: int, *, made_by: str, now: dt.datetime) -> RequestedRestorations:
    """
    Restore the documents of a cleared output in all partitions, for all jobs that have the output.

    Raises:
        Refused, PartitionAway: as `restoring.restore_cleared` and `restore`.
    """
    name = _name_of(output_id)

    def restore_there() -> list[Restoration]:
        output = OutputConnection.objects.filter(name=name).first()
        try:
            return [] if output is None else restoring.restore_cleared(output.pk, made_by=made_by, now=read_clock())
        except restoring.NothingRemoved:
            return []

    return _ask(
        lambda: restoring.restore_cleared(output_id, made_by=made_by, now=now), restore_there, output_id=output_id
    )


def restore_deleted(job_id: int, *, made_by: str, now: dt.datetime) -> RequestedRestorations:
    """
    Restore a deleted job in all partitions, with the documents that its deletion removed.

    If a partition refuses, it gets the facts of the job from this partition, without documents.

    Raises:
        Refused: as `restoring.restore_deleted`.
    """
    kept = (
        DeletedJob.objects.filter(pk=job_id).values_list("name", flat=True).first()
        if this_partition.control_name()
        else ""
    )

    def restore_there() -> list[Restoration]:
        deleted = restoring.find_deleted(kept or "")
        if deleted is None:
            return []
        return [restoring.restore_deleted(deleted.pk, made_by=made_by, now=read_clock())]

    # The other partitions restore the job before this transaction commits and sends them the facts of the job.
    # Otherwise, they would create a new job of this name.
    with transaction.atomic():
        asked = _ask(lambda: [restoring.restore_deleted(job_id, made_by=made_by, now=now)], restore_there)
    for one in asked.restorations:
        one.job_id = job_id
    return asked


def _name_of(output_id: int) -> str:
    """
    Return the name by which other partitions know an output; "" if this is not the control partition, so that they are
    not asked.
    """
    if not this_partition.control_name():
        return ""
    return OutputConnection.objects.filter(pk=output_id).values_list("name", flat=True).first() or ""


def _is_removed_elsewhere(job_id: int, name: str) -> bool:
    """
    True if another partition has documents of a job to restore into an output.

    Raises:
        PartitionAway: no partition that answers has such documents, and another partition does not answer.
    """

    def has_output(_partition: str) -> bool:
        local = local_job(job_id)
        return local is not None and any(one.output == name for one in read_outputs(local))

    found = read_everywhere(lambda: False, has_output)
    if any(found.others.values()):
        return True
    if found.silent:
        names = ", ".join(one.name for one in found.silent)
        raise PartitionAway(f"Partition {names}, which may have removals of output {name}, does not answer.")
    return False


def _ask(
    own: Callable[[], list[Restoration]],
    restore_there: Callable[[], list[Restoration]],
    *,
    output_id: int | None = None,
    requires_own: bool = False,
) -> RequestedRestorations:
    """
    Request restorations here and in other partitions. Their rows get the ids that jobs and outputs have in this
    partition.
    """
    restorations: list[Restoration] = []
    problem: NotDone | None = None
    try:
        restorations += own()
    except restoring.NothingRemoved as nothing:
        if requires_own or not this_partition.control_name():
            raise
        problem = nothing

    def elsewhere(name: str) -> list[Restoration] | str:
        try:
            found = restore_there()
        except NotDone as refused:
            return f"Partition {name} refused: {refused}"
        numbers = numbers_of({one.job_id for one in found})
        for one in found:
            one.partition, one.output_id, one.job_id = name, output_id, numbers.get(one.job_id, 0)
        return found

    asked = change_elsewhere(elsewhere)
    answers = [answer for _name, answer in sorted(asked.others.items()) if answer is not None]
    for answer in answers:
        restorations += answer if isinstance(answer, list) else []
    refusals = [answer for answer in answers if isinstance(answer, str)]
    found = RequestedRestorations(restorations, [one.name for one in asked.silent], refusals)
    if not restorations and not found.problems and problem is None:
        raise restoring.NothingRemoved("The removals are no longer kept.")
    if problem is not None and not restorations:
        if found.silent:
            raise PartitionAway(" ".join([str(problem), *found.problems]))
        raise Refused(" ".join([str(problem), *refusals])) if refusals else problem
    return found
