"""Operations on many documents for pages, the API and commands: a preview, and its execution."""

import datetime as dt
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from django.core import signing
from django.db import IntegrityError, connection, transaction
from django.utils.dateparse import parse_datetime

from jobs.bulk.models import BulkOperation
from jobs.models import Job, Outcome
from jobs.partitions import this_partition
from jobs.partitions.merged import PartitionAway, Silent, local_job, read_everywhere
from jobs.queries.reports.execution import check_patterns
from jobs.queue.address_index import GRAM
from jobs.queue.chosen_documents import Choice, Operation, count, read_examples
from jobs.queue.sql.chosen_states import NAMES
from jobs.state import journal
from jobs.verbs.control import MAY_CONTROL
from nodes.database.clock import read_clock
from nodes.errors import Invalid, NotAllowed, Refused, Unknown
from nodes.permissions import May
from nodes.tasks import verbs
from nodes.tasks.kinds import find
from nodes.tasks.models import Task

T = TypeVar("T")

# Only administrators may start operations that remove documents.
_REMOVALS: Final = frozenset({Operation.DROP, Operation.FORGET})
PERMISSIONS: Final = {one: "jobs.delete_job" if one in _REMOVALS else MAY_CONTROL for one in Operation}
EFFECTS: Final = {
    Operation.RETRY: "Failed documents of the present run are due again.",
    Operation.EXPIRE: "Ended and waiting documents of the present run are due now, and fetched without conditions.",
    Operation.READ_AGAIN: "Documents of the present run are due again and written again, also if they are unchanged.",
    Operation.DROP: "Documents leave the outputs and the queue. They can be restored for some days.",
    Operation.FORGET: "Documents that no output holds leave the queue.",
}
_EXAMPLES: Final = 20
_SALT: Final = "bulk operation with a key"
# Time for which a preview can be confirmed.
_VALID: Final = dt.timedelta(hours=1)
_LONGEST: Final = 1_000
# Time limit of a count of documents in another partition (seconds).
_COUNTED_WITHIN: Final = 15.0
# States in which an operation, or its part in a partition, has ended.
ENDED: Final = frozenset({"done", "ended early"})
# The fields of a filter.
FIELDS: Final = ("host", "codes", "contains", "pattern", "fetched_before", "state", "documents")
_KEY: Final = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Example:
    """A document that an operation would change."""

    identifier: str
    result: str
    result_code: str
    fetched_at: dt.datetime | None
    partition: str = ""


@dataclass(frozen=True, slots=True)
class Preview:
    """
    The documents that an operation would change now. `token` confirms exactly this operation, filter and number.

    If a `partition` is named, the documents are those of this partition, otherwise those of all partitions. The
    `silent` partitions did not answer: the operation changes nothing there.
    """

    operation: Operation
    job: Job
    filter: dict[str, Any]
    documents: int
    examples: Sequence[Example]
    token: str
    partition: str
    silent: Sequence[Silent] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an operation in all partitions. The `silent` partitions did not answer the last check."""

    shown: int
    changed: int
    skipped: int
    silent: Sequence[str] = ()


def preview(operation: object, job: object, filter: object, *, may: May) -> Preview:  # noqa: A002 (the word of the API)
    """
    Count the documents of a filter, and return examples.

    Raises:
        Invalid: a part is invalid.
        Unknown: the job does not exist.
        NotAllowed: the user may not do this.
    """
    wanted = _operation_of(operation, may=may)
    found = _job_of(job)
    stored = _checked(filter)
    choice = choice_of(found.pk, stored)
    if wanted in _REMOVALS and not stored:
        raise Invalid({"filter": ["Give at least one field of the filter. To remove all documents, delete the job."]})
    parts = read_everywhere(
        lambda: _look(wanted, choice),
        lambda name: _read_with_local_id(choice, lambda there: _look(wanted, there, name)),
        within=_COUNTED_WITHIN,
    )
    found_in: dict[str, tuple[int, list[Example]] | None] = {"": parts.own, **parts.others}
    numbers = {name: part[0] for name, part in found_in.items() if part is not None}
    examples = [one for part in found_in.values() if part is not None for one in part[1]]
    # The token contains the key of the operation. So a second confirmation of the preview, as by a double click, begins
    # no second operation.
    key = uuid.uuid4().hex
    token = signing.dumps([wanted.value, found.pk, stored, numbers, key], salt=_SALT, compress=True)
    return Preview(
        wanted,
        found,
        stored,
        sum(numbers.values()),
        examples[:_EXAMPLES],
        token,
        this_partition.only_name(),
        parts.silent,
    )


def _count(wanted: Operation, choice: Choice) -> int:
    connection.ensure_connection()
    return count(connection.connection, wanted, choice)


def _look(wanted: Operation, choice: Choice, partition: str = "") -> tuple[int, list[Example]]:
    """Return the number of documents and examples, from the database of this thread."""
    number = _count(wanted, choice)
    examples = [
        Example(
            row.identifier,
            "" if row.outcome == Outcome.NONE else str(Outcome(row.outcome).label),
            row.result_code,
            row.fetched_at,
            partition,
        )
        for row in read_examples(connection.connection, wanted, choice, most=_EXAMPLES)
    ]
    return number, examples


def _read_with_local_id(choice: Choice, read: Callable[[Choice], T]) -> T | None:
    """
    Call `read` with a copy of the choice that has the job's id in this database, and return the result; None if the job
    is not in this database.
    """
    job_id = local_job(choice.job_id)
    return None if job_id is None else read(replace(choice, job_id=job_id))


def start(token: object, *, may: May, made_by: str) -> BulkOperation:
    """
    Schedule the operation of a preview. The filter is evaluated again: no more documents than shown are changed.
    If the preview was already confirmed, return the operation of the first confirmation.

    While a job runs, more documents may match from moment to moment. A removal is then refused, because it could remove
    other documents than the shown ones.

    Raises:
        Invalid: the token is invalid or too old.
        NotAllowed: the user may not do this.
        Refused: no document matches, or a removal would find more documents than the preview showed.
    """
    if not isinstance(token, str):
        raise Invalid({"token": ["This must be the token of a preview."]})
    try:
        operation, job_id, stored, numbers, key = signing.loads(token, salt=_SALT, max_age=_VALID)
    except signing.BadSignature:
        raise Invalid({"token": ["This preview is invalid or older than an hour. Make a new one."]}) from None
    wanted = _operation_of(operation, may=may)
    if (made := BulkOperation.objects.filter(key=key).first()) is not None:
        return made
    _job_of(job_id)
    choice = choice_of(job_id, stored)
    others = [name for name in numbers if name]
    found = read_everywhere(
        lambda: _count(wanted, choice),
        lambda _name: _read_with_local_id(choice, lambda there: _count(wanted, there)) or 0,
        among=others,
        within=_COUNTED_WITHIN,
    )
    if found.silent:
        names = ", ".join(one.name for one in found.silent)
        raise PartitionAway(f"Partition {names} does not answer any more. Make a new preview.")
    now_there = {"": found.own, **{name: found.others[name] for name in others}}
    if not sum(now_there.values()):
        raise Refused("No document matches any more.")
    if wanted in _REMOVALS and any(now_there[name] > shown for name, shown in numbers.items()):
        more, shown = sum(now_there.values()), sum(numbers.values())
        raise Refused(f"{more:,} documents match now, and the preview showed {shown:,}. Make a new preview.")
    elsewhere = {
        name: {"shown": numbers[name], "state": "waiting", "changed": 0, "skipped": 0, "silent": False}
        for name in others
        if now_there[name]
    }
    try:
        return make(
            operation=operation,
            job_id=job_id,
            stored=stored,
            shown=numbers[""],
            elsewhere=elsewhere,
            key=uuid.UUID(hex=key),
            made_by=made_by,
        )
    except IntegrityError:
        # Another request has just confirmed the same preview.
        return BulkOperation.objects.get(key=key)


@transaction.atomic
def make(
    *,
    operation: str,
    job_id: int,
    stored: dict[str, Any],
    shown: int,
    key: uuid.UUID | None,
    elsewhere: dict[str, Any] | None = None,
    made_by: str,
) -> BulkOperation:
    """Schedule an operation in the database of this thread, and write it to the journal of the job."""
    arguments = {"operation": operation, "job": job_id, "filter": stored}
    task = verbs.schedule(find("bulk"), arguments=arguments, made_by=made_by)
    made = BulkOperation.objects.create(
        task=task.pk,
        operation=operation,
        job_id=job_id,
        filter=stored,
        shown=shown,
        key=key,
        elsewhere=elsewhere or {},
        created_by=made_by,
    )
    number = progress_of(made).shown
    message = f"{operation} of {number:,} documents was requested (operation {made.pk})"
    journal.record(_job_of(job_id), kind="bulk operation", message=message, made_by=made_by, now=read_clock())
    return made


def cancel(operation: int, *, may: May, made_by: str) -> BulkOperation:
    """
    End an operation after its present chunk.

    Raises:
        Unknown: the operation does not exist.
        Refused: the operation has ended.
    """
    found = BulkOperation.objects.filter(pk=operation).first()
    if found is None:
        raise Unknown("operation", operation)
    _operation_of(found.operation, may=may)
    if state_of(found) not in {"waiting", "running"}:
        raise Refused(f"Operation {operation} has ended.")
    if Task.objects.filter(pk=found.task).exists():
        verbs.cancel(found.task, made_by=made_by)
    return found


def state_of(operation: BulkOperation) -> str:
    """Return the state of an operation."""
    return states_of([operation])[operation.pk]


def states_of(operations: Sequence[BulkOperation]) -> dict[int, str]:
    """Return the states of operations by their numbers, in one statement."""
    tasks = dict(
        Task.objects.filter(
            pk__in=[one.task for one in operations if one.ended_at is None or one.elsewhere]
        ).values_list("pk", "started_at")
    )

    def state(operation: BulkOperation) -> str:
        parts = {part["state"] for part in operation.elsewhere.values()}
        if operation.ended_at is not None and parts <= ENDED:
            return "ended early" if "ended early" in parts else "done"
        if operation.task not in tasks:
            return "ended early"
        return "waiting" if tasks[operation.task] is None else "running"

    return {one.pk: state(one) for one in operations}


def progress_of(operation: BulkOperation) -> Progress:
    """Return the progress of an operation, as stored in its row."""
    parts = operation.elsewhere.values()
    return Progress(
        shown=operation.shown + sum(part["shown"] for part in parts),
        changed=operation.changed + sum(part["changed"] for part in parts),
        skipped=operation.skipped + sum(part["skipped"] for part in parts),
        silent=[name for name, part in operation.elsewhere.items() if part["silent"]],
    )


def choice_of(job_id: int, stored: dict[str, Any]) -> Choice:
    """Return the choice of documents by a stored filter, for queries."""
    before = stored.get("fetched_before")
    return Choice(
        job_id=job_id,
        host=stored.get("host", ""),
        codes=tuple(stored.get("codes", ())),
        contains=stored.get("contains", ""),
        pattern=stored.get("pattern", ""),
        fetched_before=parse_datetime(before) if before else None,
        state=stored.get("state", ""),
        documents=tuple(stored.get("documents", ())),
    )


def _operation_of(name: object, *, may: May) -> Operation:
    try:
        wanted = Operation(str(name))
    except ValueError:
        raise Invalid({"operation": [f"Unknown operation. Choose one of {', '.join(Operation)}."]}) from None
    if not may(PERMISSIONS[wanted]):
        raise NotAllowed(f"Your role does not permit this operation: {wanted}.")
    return wanted


def _job_of(job: object) -> Job:
    if not isinstance(job, int) or isinstance(job, bool):
        raise Invalid({"job": ["This must be the number of a job."]})
    found = Job.objects.filter(pk=job).first()
    if found is None:
        raise Unknown("job", job)
    return found


def _checked(given: object) -> dict[str, Any]:
    """Check a filter, and return it without its empty fields, which are no conditions."""
    if not isinstance(given, dict):
        raise Invalid({"filter": ["A filter is an object."]})
    problems: dict[str, list[str]] = {}
    for name, value in given.items():
        if name not in FIELDS:
            problems[f"filter.{name}"] = [f"Unknown field; known fields: {', '.join(FIELDS)}."]
        elif name == "codes":
            if not isinstance(value, list) or not all(_is_text(code) for code in value) or len(value) > _LONGEST:
                problems["filter.codes"] = ["This must be a list of result codes."]
        elif name == "documents":
            if not isinstance(value, list) or len(value) > _LONGEST or not all(_is_key(one) for one in value):
                problems["filter.documents"] = [f"This must be a list of at most {_LONGEST} keys of documents."]
        elif name == "state" and value and value not in NAMES:
            problems["filter.state"] = [f"Unknown state. Choose one of {', '.join(NAMES)}."]
        elif not _is_text(value):
            problems[f"filter.{name}"] = [f"This must be a text of at most {_LONGEST} characters."]
        elif name == "contains" and value and len(value) < GRAM:
            problems["filter.contains"] = [f"Write at least {GRAM} characters of the address."]
    before = given.get("fetched_before")
    if before and "filter.fetched_before" not in problems:
        moment = _moment(before)
        if moment is None or moment.tzinfo is None:
            problems["filter.fetched_before"] = ["Write a moment with its time zone, such as 2030-01-31T12:00+00:00."]
    if problems:
        raise Invalid(problems)
    stored = {name: value for name, value in given.items() if value}
    if "pattern" in stored:
        check_patterns({"filter.pattern": stored["pattern"]})
    return stored


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST and "\0" not in value


def _is_key(value: object) -> bool:
    return isinstance(value, str) and _KEY.fullmatch(value) is not None


def _moment(text: str) -> dt.datetime | None:
    try:
        return parse_datetime(text)
    except ValueError:
        return None
