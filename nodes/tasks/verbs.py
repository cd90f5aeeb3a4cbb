"""
Actions on background tasks. Pages, the API and commands all call these functions.

Moments are the database's. Each function is one transaction, which commits before the main manager is notified.
"""

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from nodes.database.clock import read_clock
from nodes.database.texts import storable
from nodes.errors import Invalid, Refused, Unknown
from nodes.membership.changes import record_request
from nodes.tasks import channels, endings, kinds
from nodes.tasks.kinds import Kind, UnknownKind
from nodes.tasks.models import GENERIC, ArchivedTask, Task, TaskTemplate
from nodes.tasks.names import GROUP, is_group
from nodes.tasks.retrying import Why, read_policy
from nodes.tasks.schedules import Schedule, next_moment, read_schedule

ARCHIVED: Final = "archived-task"
_MOST_TAGS: Final = 50
_LONGEST_URN: Final = 200
# Largest number of archived tasks that one request reschedules, and of scheduled tasks that one request cancels.
MOST_RESCHEDULED: Final = 10_000
MOST_CANCELLED: Final = 10_000
_CHUNK: Final = 500


class TaskRefused(Refused):
    """The action is impossible in the present state."""

    code = "task_refused"


# --- Tasks -------------------------------------------------------------------------------------------


@transaction.atomic
def create(
    *,
    kind: object,
    arguments: object = None,
    group: object = None,
    tags: object = None,
    urn: object = None,
    at: dt.datetime | None = None,
    retry_policy: object = None,
    made_by: str,
) -> Task:
    """
    Schedule a task for the date `at`, or for now without a date.

    Raises:
        Invalid: a part is invalid.
    """
    facts = _checked(kind=kind, arguments=arguments, group=group, tags=tags, retry_policy=retry_policy, urn=urn)
    task = Task.objects.create(**facts, created_by=made_by, scheduled_at=Now() if at is None else at)
    record_request(f"{made_by} scheduled task {task.pk} ({task.kind})", made_by=made_by)
    _notify()
    task.refresh_from_db()
    return task


@transaction.atomic
def schedule(
    kind: Kind,
    *,
    arguments: Mapping[str, Any],
    made_by: str,
    retry_policy: Mapping[str, Any] | None = None,
    group: str = GENERIC,
    tags: Iterable[str] = (),
) -> Task:
    """Schedule a task of crawlctl itself, due now. Its kind may be internal, and the journal has no line about it."""
    task = Task.objects.create(
        kind=kind.name,
        arguments=arguments,
        group=group,
        tags=list(tags),
        retry_policy=dict(kind.retry_policy if retry_policy is None else retry_policy),
        created_by=made_by,
        scheduled_at=Now(),
    )
    _notify()
    return task


@transaction.atomic
def cancel(task: int, *, made_by: str) -> bool:
    """
    Cancel a task: archive a waiting one, and ask a running one to end. Return True if it was archived.

    Raises:
        Unknown: there is no such task.
        TaskRefused: the task has ended.
    """
    found = Task.objects.select_for_update().filter(pk=task).first()
    if found is None:
        raise _missing(task)
    if found.started_at is not None:
        Task.objects.filter(pk=task).update(cancelled_by=made_by)
        record_request(f"{made_by} asked the running task {task} ({found.kind}) to end", made_by=made_by)
        return False
    with connection.cursor() as cursor:
        cursor.execute(endings.ARCHIVE, {"task": task, "why": Why.CANCELLED.value, "result": None})
    record_request(f"{made_by} cancelled task {task} ({found.kind})", made_by=made_by)
    _notify()
    return True


def cancel_all(tasks: QuerySet[Task], *, made_by: str) -> int:
    """
    Cancel these scheduled tasks, the oldest first, up to a limit. Return the number of tasks that were archived or
    asked to end.
    """
    number = 0
    chosen = list(tasks.order_by("id").values_list("pk", flat=True)[:MOST_CANCELLED])
    for start in range(0, len(chosen), _CHUNK):
        number += _cancel_some(chosen[start : start + _CHUNK], made_by=made_by)
    return number


@transaction.atomic
def _cancel_some(chosen: list[int], *, made_by: str) -> int:
    # A task that ended meanwhile is no longer found, and stays as it ended.
    found = list(Task.objects.filter(pk__in=chosen).order_by("id").select_for_update())
    if not found:
        return 0
    running = [task.pk for task in found if task.started_at is not None]
    Task.objects.filter(pk__in=running).update(cancelled_by=made_by)
    with connection.cursor() as cursor:
        for task in found:
            if task.started_at is None:
                cursor.execute(endings.ARCHIVE, {"task": task.pk, "why": Why.CANCELLED.value, "result": None})
    record_request(
        f"{made_by} cancelled {len(found)} {'task' if len(found) == 1 else 'tasks'}",
        made_by=made_by,
        tasks=[task.pk for task in found],
    )
    _notify()
    return len(found)


def reschedule(task: int, *, at: dt.datetime | None = None, made_by: str) -> Task:
    """
    Schedule a copy of an archived task, without its attempts.

    Raises:
        Unknown: there is no such task.
        TaskRefused: the task has not ended.
    """
    archived = ArchivedTask.objects.filter(pk=task).first()
    if archived is None:
        raise _missing(task)
    (made,) = _copies([archived], at=at, made_by=made_by)
    return made


def reschedule_all(archived: QuerySet[ArchivedTask], *, made_by: str) -> int:
    """Schedule copies of these archived tasks, the newest first, up to a limit. Return the number of copies."""
    number = 0
    chosen = list(archived.order_by("-id").values_list("pk", flat=True)[:MOST_RESCHEDULED])
    for start in range(0, len(chosen), _CHUNK):
        rows = ArchivedTask.objects.filter(pk__in=chosen[start : start + _CHUNK]).order_by("id")
        number += len(_copies(rows, at=None, made_by=made_by))
    return number


@transaction.atomic
def _copies(archived: Iterable[ArchivedTask], *, at: dt.datetime | None, made_by: str) -> list[Task]:
    made = Task.objects.bulk_create(
        Task(
            kind=row.kind,
            arguments=row.arguments,
            group=row.group,
            tags=row.tags,
            urn=row.urn,
            retry_policy=row.retry_policy,
            created_by=made_by,
            made_of=ARCHIVED,
            made_of_urn=str(row.pk),
            scheduled_at=Now() if at is None else at,
        )
        for row in archived
    )
    record_request(
        f"{made_by} rescheduled {len(made)} {'task' if len(made) == 1 else 'tasks'}",
        made_by=made_by,
        tasks=[task.made_of_urn for task in made],
    )
    _notify()
    return list(Task.objects.filter(pk__in=[task.pk for task in made]).order_by("id"))


# --- Templates ---------------------------------------------------------------------------------------


@transaction.atomic
def put_template(
    *,
    urn: object,
    kind: object,
    schedule: object,
    arguments: object = None,
    group: object = None,
    tags: object = None,
    retry_policy: object = None,
    unique: bool = False,
    is_built_in: bool = False,
    made_by: str,
) -> TaskTemplate:
    """
    Create the template of this name, or update it. An update keeps its counters.

    Raises:
        Invalid: a part is invalid.
    """
    problems: dict[str, list[str]] = {}
    facts: dict[str, Any] = {}
    read: Schedule | None = None
    try:
        facts = _checked(kind=kind, arguments=arguments, group=group, tags=tags, retry_policy=retry_policy, urn=urn)
        if not facts["urn"]:
            problems["urn"] = ["A template needs a name."]
    except Invalid as invalid:
        problems = {name: list(sentences) for name, sentences in invalid.problems.items()}
    try:
        read = read_schedule(schedule)
    except Invalid as invalid:
        problems |= {_below("schedule", path): sentences for path, sentences in invalid.problems.items()}
    if problems or read is None:
        raise Invalid(problems)
    facts |= {"schedule": schedule, "unique": unique, "next_at": next_moment(read, after=read_clock())}
    template, is_new = TaskTemplate.objects.select_for_update().update_or_create(
        urn=facts.pop("urn"),
        defaults=facts,
        create_defaults={**facts, "created_by": made_by, "is_built_in": is_built_in},
    )
    template.refresh_from_db()
    record_request(f"{made_by} {'created' if is_new else 'changed'} the task template {template.urn}", made_by=made_by)
    return template


@transaction.atomic
def remove_template(urn: str, *, made_by: str) -> None:
    """
    Remove a template. Its tasks stay.

    Raises:
        Unknown: there is no such template.
        TaskRefused: the template is built in.
    """
    template = TaskTemplate.objects.select_for_update().filter(urn=urn).first()
    if template is None:
        raise Unknown("template", urn, f"There is no template {urn!r}.")
    if template.is_built_in:
        raise TaskRefused(f"The template {urn} is built in and cannot be removed.")
    template.delete()
    record_request(f"{made_by} removed the task template {urn}", made_by=made_by)


# --- Checks ------------------------------------------------------------------------------------------


def _checked(
    *, kind: object, arguments: object, group: object, tags: object, retry_policy: object, urn: object
) -> dict[str, Any]:
    """
    Return the columns of a task, with defaults for missing parts.

    Raises:
        Invalid: a part is invalid.
    """
    problems: dict[str, list[str]] = {}
    found = _kind_for_users(kind)
    if found is None:
        problems["kind"] = [str(UnknownKind(str(kind)))]
    arguments = {} if arguments is None else arguments
    if found is not None:
        problems |= {_below("arguments", name): sentences for name, sentences in found.problems(arguments).items()}
    written = json.dumps([arguments, retry_policy], default=str, ensure_ascii=False)
    if "\\u0000" in written:
        problems["arguments"] = ["NUL characters are not possible."]
    elif storable(written) != written:
        problems["arguments"] = ["Half surrogate pairs are not possible."]
    if group not in (None, "") and not (isinstance(group, str) and is_group(group)):
        problems["group"] = [f"A group is a text: {GROUP}."]
    tags = [] if tags is None else [tags] if isinstance(tags, str) else tags
    if (
        not isinstance(tags, list)
        or len(tags) > _MOST_TAGS
        or not all(isinstance(tag, str) and is_group(tag) for tag in tags)
    ):
        problems["tags"] = [f"Tags are at most {_MOST_TAGS} texts, each of {GROUP}."]
        tags = []
    if urn is None:
        urn = ""
    if not isinstance(urn, str) or len(urn) > _LONGEST_URN or not (urn == "" or urn.isprintable()):
        problems["urn"] = [f"This must be a text of at most {_LONGEST_URN} printable characters."]
    if retry_policy is None:
        retry_policy = dict(found.retry_policy) if found is not None else {}
    try:
        if found is not None:
            read_policy(retry_policy)
    except Invalid as invalid:
        problems |= {_below("retry_policy", path): sentences for path, sentences in invalid.problems.items()}
    if problems:
        raise Invalid(problems)
    return {
        "kind": kind,
        "arguments": arguments,
        "group": group or GENERIC,
        "tags": list(dict.fromkeys(tags)),
        "urn": urn,
        "retry_policy": retry_policy,
    }


def _kind_for_users(name: object) -> Kind | None:
    """Return the kind of this name, unless only crawlctl makes its tasks."""
    kind = kinds.installed().get(name) if isinstance(name, str) else None
    return None if kind is None or kind.is_internal else kind


def _missing(task: int) -> Unknown | TaskRefused:
    if ArchivedTask.objects.filter(pk=task).exists():
        return TaskRefused(f"Task {task} has ended. Reschedule it to run it again.")
    if Task.objects.filter(pk=task).exists():
        return TaskRefused(f"Task {task} has not ended. Cancel it first.")
    return Unknown("task", task, f"There is no task {task}.")


def _below(part: str, name: str) -> str:
    return f"{part}.{name}" if name else part


def _notify() -> None:
    """Wake up the main manager once the transaction commits."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", (channels.RECRUIT,))


def tagged(tag: str) -> Q:
    """Return the filter for tasks with this tag."""
    return Q(tags__contains=[tag])
