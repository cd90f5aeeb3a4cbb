"""`manage.py task VERB`: run, show, cancel and reschedule background tasks."""

import argparse
import contextlib
import datetime as dt
import getpass
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q
from django.utils.dateparse import parse_datetime

from nodes.api.parsing import json_in
from nodes.database.clock import read_clock
from nodes.errors import Invalid, Refused, Unknown
from nodes.management.database import check_database
from nodes.management.numbers import whole_number
from nodes.tasks import kinds, statistics
from nodes.tasks import verbs as task_verbs
from nodes.tasks.models import ArchivedTask, Task, TaskTemplate, TaskWorker
from nodes.tasks.queries import STATES, TaskFilter, scheduled
from nodes.tasks.schedules import next_moments, read_schedule

_POLL_INTERVAL: Final = 0.2
_MOST_LISTED: Final = 100_000


class Command(BaseCommand):
    # Standard output is for the answer only.
    requires_system_checks: list[str] = []
    help = "Run, list, show, cancel and reschedule background tasks (docs/tasks.md)."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        run = verbs.add_parser("run", help="schedule a task")
        run.add_argument("kind", help="kind of the task; `task kinds` lists them")
        run.add_argument(
            "--argument",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="argument, as text or JSON; repeatable",
        )
        run.add_argument("--group", help="group of workers that may execute it (default: generic)")
        run.add_argument("--tag", action="append", default=[], help="tag of the task; repeatable")
        run.add_argument("--urn", help="name of the task")
        run.add_argument("--at", type=_moment, help="date with time zone, such as 2026-12-01T03:00Z (default: now)")
        run.add_argument("--retry-policy", type=_json, help='JSON, such as {"policy": "times", "times": 5}')
        run.add_argument("--wait", action="store_true", help="wait for the end, and exit with 1 if the task failed")
        shown = verbs.add_parser("list", help="list tasks")
        shown.add_argument("--archived", action="store_true", help="list ended tasks, the newest first")
        shown.add_argument("--group", help="only of this group")
        shown.add_argument("--kind", help="only of this kind")
        shown.add_argument("--tag", help="only with this tag")
        shown.add_argument(
            "--limit", type=whole_number(1, _MOST_LISTED), default=50, help="number of tasks (default: %(default)s)"
        )
        for verb, purpose in (
            ("show", "show a task with its last attempt"),
            ("cancel", "archive a waiting task, or ask a running one to end"),
            ("reschedule", "schedule a copy of an ended task"),
        ):
            of_one = verbs.add_parser(verb, help=purpose)
            of_one.add_argument("task", type=int, help="number of the task")
            if verb == "reschedule":
                of_one.add_argument("--at", type=_moment, help="date with time zone (default: now)")
        several = verbs.add_parser("reschedule-all", help="schedule copies of ended tasks, the newest first")
        several.add_argument("--group", help="only of this group")
        several.add_argument("--kind", help="only of this kind")
        several.add_argument("--tag", help="only with this tag")
        several.add_argument("--why", help="only with this reason of the end, such as tried-too-many-times")
        cancelled = verbs.add_parser("cancel-all", help="cancel scheduled tasks, the oldest first")
        cancelled.add_argument("--group", help="only of this group")
        cancelled.add_argument("--kind", help="only of this kind")
        cancelled.add_argument("--tag", help="only with this tag")
        cancelled.add_argument("--state", choices=sorted(STATES), help="only in this state")
        verbs.add_parser("kinds", help="list the kinds of tasks and their arguments")
        verbs.add_parser("templates", help="list templates with their next runs")
        verbs.add_parser("remove-template", help="remove a template").add_argument("urn", help="name of the template")
        verbs.add_parser("workers", help="list the workers and their tasks")
        verbs.add_parser("statistics", help="show numbers of tasks").add_argument(
            "--group", default="", help="only of this group"
        )

    def handle(self, *_args: Any, verb: str, **given: Any) -> None:
        check_database()
        perform: Callable[[dict[str, Any]], Iterator[str]] = getattr(self, "_" + verb.replace("-", "_"))
        try:
            for line in perform(given):
                self.stdout.write(line)
        except Invalid as invalid:
            raise CommandError(invalid.by_field, returncode=2) from invalid
        except Unknown as unknown:
            raise CommandError(str(unknown), returncode=2) from unknown
        except Refused as refused:
            raise CommandError(str(refused), returncode=1) from refused

    def _run(self, given: dict[str, Any]) -> Iterator[str]:
        task = task_verbs.create(
            kind=given["kind"],
            arguments=dict(_argument(argument) for argument in given["argument"]),
            group=given["group"],
            tags=given["tag"],
            urn=given["urn"],
            at=given["at"],
            retry_policy=given["retry_policy"],
            made_by=getpass.getuser(),
        )
        yield f"Task {task.pk} is scheduled for {_date(task.scheduled_at)}."
        if given["wait"]:
            while (ended := ArchivedTask.objects.filter(pk=task.pk).first()) is None:
                time.sleep(_POLL_INTERVAL)
            yield _line_of_ended(ended)
            if ended.why != "done":
                raise CommandError(f"Task {task.pk} failed: {ended.last_message or ended.why}", returncode=1)

    @staticmethod
    def _list(given: dict[str, Any]) -> Iterator[str]:
        wanted = _filters(given)
        if given["archived"]:
            for ended in ArchivedTask.objects.filter(wanted)[: given["limit"]]:
                yield _line_of_ended(ended)
            return
        for task in Task.objects.filter(wanted).select_related("worker")[: given["limit"]]:
            yield _line_of(task)

    @staticmethod
    def _show(given: dict[str, Any]) -> Iterator[str]:
        found = (
            Task.objects.filter(pk=given["task"]).values().first()
            or ArchivedTask.objects.filter(pk=given["task"]).values().first()
        )
        if found is None:
            raise Unknown("task", given["task"], f"There is no task {given['task']}.")
        for name, value in found.items():
            if value not in ("", None, [], {}):
                yield f"{name}: {_date(value) if isinstance(value, dt.datetime) else value}"

    @staticmethod
    def _cancel(given: dict[str, Any]) -> Iterator[str]:
        if task_verbs.cancel(given["task"], made_by=getpass.getuser()):
            yield f"Task {given['task']} is cancelled."
        else:
            yield f"Task {given['task']} is being cancelled. It is running, and may take a while to end."

    @staticmethod
    def _reschedule(given: dict[str, Any]) -> Iterator[str]:
        task = task_verbs.reschedule(given["task"], at=given["at"], made_by=getpass.getuser())
        yield f"Task {task.pk} is scheduled for {_date(task.scheduled_at)}."

    @staticmethod
    def _reschedule_all(given: dict[str, Any]) -> Iterator[str]:
        number = task_verbs.reschedule_all(ArchivedTask.objects.filter(_filters(given)), made_by=getpass.getuser())
        yield f"Tasks scheduled: {number}."

    @staticmethod
    def _cancel_all(given: dict[str, Any]) -> Iterator[str]:
        group, kind, tag, state = (str(given[name] or "") for name in ("group", "kind", "tag", "state"))
        wanted = TaskFilter(group=group, kind=kind, tag=tag, state=state)
        if wanted == TaskFilter():
            raise Invalid({"filters": ["Give at least one of --group, --kind, --tag and --state."]})
        yield f"Tasks cancelled: {task_verbs.cancel_all(scheduled(wanted), made_by=getpass.getuser())}."

    @staticmethod
    def _kinds(_given: dict[str, Any]) -> Iterator[str]:
        for kind in kinds.offered():
            arguments = [f"{name}{'' if name in kind.required else '?'}" for name in kind.properties]
            yield f"{kind.name}({', '.join(arguments)}): {kind.title}"

    @staticmethod
    def _templates(_given: dict[str, Any]) -> Iterator[str]:
        now = read_clock()
        for template in TaskTemplate.objects.all():
            yield f"{template.urn}: {template.kind}, {json.dumps(template.schedule)}, {template.executions} tasks"
            for moment in next_moments(read_schedule(template.schedule), after=now):
                yield f"  {_date(moment)}"

    @staticmethod
    def _remove_template(given: dict[str, Any]) -> Iterator[str]:
        task_verbs.remove_template(given["urn"], made_by=getpass.getuser())
        yield f"The template {given['urn']} is removed."

    @staticmethod
    def _workers(_given: dict[str, Any]) -> Iterator[str]:
        tasks = {task.worker_id: task for task in Task.objects.filter(worker__isnull=False)}
        for worker in TaskWorker.objects.all():
            task = tasks.get(worker.pk)
            does = (
                "is free" if task is None else f"has task {task.pk}" if task.started_at is None else f"runs {task.pk}"
            )
            if worker.is_leaving:
                does += " and is stopping"
            yield (
                f"{worker}, on {worker.work_on}, since {_date(worker.since)}, seen {_date(worker.last_seen_at)}: {does}"
            )

    @staticmethod
    def _statistics(given: dict[str, Any]) -> Iterator[str]:
        found = statistics.read_statistics(group=given["group"])
        yield f"queued {found.queued}, running {found.running}, postponed {found.postponed}, zombies {found.zombies}"
        yield f"workers {found.workers}, ended in the last minute {found.throughput}"
        if found.latency is not None and found.execution_time is not None:
            yield f"in the last hour: latency {found.latency:.2f} s, execution {found.execution_time:.2f} s"


def _line_of(task: Task) -> str:
    state = f"runs on {task.worker}" if task.started_at else f"is due {_date(task.scheduled_at)}"
    failed = f", attempt {task.attempts} failed: {task.last_class}" if task.last_class else ""
    return f"{task.pk} {task.kind} [{task.group}] {state}{failed}"


def _line_of_ended(ended: ArchivedTask) -> str:
    failed = f": {ended.last_class}: {ended.last_message}" if ended.last_class and ended.why != "done" else ""
    return f"{ended.pk} {ended.kind} [{ended.group}] {ended.why} {_date(ended.archived_at)}{failed}"


def _date(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"


def _argument(text: str) -> tuple[str, Any]:
    name, is_given, value = text.partition("=")
    if not is_given:
        raise Invalid({"arguments": [f"Write NAME=VALUE instead of {text!r}."]})
    try:
        return name, json_in(value)
    except ValueError:
        return name, value


def _filters(given: dict[str, Any]) -> Q:
    wanted = Q(**{name: given[name] for name in ("group", "kind", "why") if given.get(name)})
    return wanted & task_verbs.tagged(given["tag"]) if given["tag"] else wanted


def _moment(text: str) -> dt.datetime:
    # The last hours of the year 9999 may be in the year 10000 in UTC, which raises OverflowError.
    with contextlib.suppress(ValueError, OverflowError):
        moment = parse_datetime(text)
        if moment is not None and moment.tzinfo is not None:
            return moment.astimezone(dt.UTC)
    raise argparse.ArgumentTypeError(f"{text!r} is not a date with time zone, such as 2026-12-01T03:00Z")


def _json(text: str) -> object:
    try:
        return json_in(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON") from None
