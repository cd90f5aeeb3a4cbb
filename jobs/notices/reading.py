"""
Reads the situation with which rules are compared: the attention list, conditions with a limit, and events of journals.

With several partitions, the control partition reads the lines of all partitions. The other partitions read only their
own failed tasks, which no other partition knows. So no condition makes two messages.
"""

import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Max, QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.attention.all_partitions import read_attention_everywhere
from jobs.attention.limits import long_runs, quiet_jobs
from jobs.attention.lines import SHOWN, AttentionLine
from jobs.attention.rows import in_words
from jobs.models import JobEvent
from jobs.notices.decisions import Occurrence
from jobs.notices.models import NotificationCheck, NotificationCondition, NotificationRule
from jobs.notices.topics import ATTENTION, OF_JOBS
from jobs.partitions import this_partition
from jobs.queries.jobs.running import count_processed, read_running_jobs
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.models import NodeEvent
from nodes.tasks.models import ArchivedTask
from nodes.tasks.retrying import Why

# Kinds of tasks whose failures make no messages. Otherwise, a message about a failed message could fail too, and so on.
SILENT: Final = frozenset({"send_notice", "check_notices"})
# Separator between the key of a line and the name of its partition.
_IN: Final = " in partition "
# Largest number of events that one check reads from each journal. The next check reads the events that follow.
_MOST: Final = 1_000
# Time for which events are read again, because an event may be committed after later events.
_LATE: Final = dt.timedelta(minutes=2)
# Topics by the kind of event in the journal of jobs.
_OF_JOBS: Final = {
    "fail": "job_fails",
    "give_up": "job_fails",
    "hold_removals": "removals_wait",
    "missed_window": "schedule_missed",
    "finish": "job_ended",
    "end_at_its_limit": "job_ended",
    "end_aborted": "job_stopped",
    "come_to_rest": "job_stopped",
    "interrupt": "job_stopped",
}
_FAILED: Final = sorted(why.value for why in set(Why) - {Why.DONE, Why.CANCELLED})


@dataclass(frozen=True, slots=True)
class Situation:
    """
    Everything that a check found. Topics in `full` have more lines than their lists show.

    The lines of `silent` partitions are not known, so their conditions stay as they were.
    """

    lines: Sequence[AttentionLine]
    events: Sequence[Occurrence]
    full: frozenset[str]
    silent: frozenset[str] = frozenset()
    is_of_tasks_only: bool = False

    def may_still_hold(self, condition: NotificationCondition, seen: Collection[tuple[str, str]]) -> bool:
        """True if a condition may still hold although its topic and key are not `seen`."""
        _key, _, partition = condition.key.rpartition(_IN)
        return partition in self.silent and (condition.topic, condition.key) not in seen


def first_check(now: dt.datetime) -> NotificationCheck:
    """Return the state before the first check: earlier events make no messages."""
    newest = JobEvent.objects.aggregate(newest=Max("id"))["newest"] or 0
    return NotificationCheck(checked_at=now, job_event=newest, read_until=now)


def read_situation(check: NotificationCheck, *, now: dt.datetime) -> Situation:
    """Return the present situation, and store in `check` (without saving it) what was read."""
    events = _read_events(check, now=now)
    stated = this_partition.placement()
    if stated is not None and not stated.is_control:
        own = [event for event in events if event.topic == "task_failed"]
        return Situation(lines=(), events=own, full=frozenset(), is_of_tasks_only=True)
    lines = read_attention_everywhere(now=now)
    numbers = Counter((line.kind, line.partition) for line in lines)
    _observe_progress(check, now=now)
    return Situation(
        lines=lines,
        events=events,
        full=frozenset(kind for (kind, _partition), number in numbers.items() if number >= SHOWN),
        silent=frozenset(line.key for line in lines if line.kind == "partition_silent"),
    )


def occurrences_of(
    rule: NotificationRule, found: Situation, check: NotificationCheck, *, now: dt.datetime
) -> list[Occurrence]:
    """Return the conditions and events of a rule."""
    topics = set(rule.topics) or set(ATTENTION)
    lines = [line for line in found.lines if line.kind in topics]
    limit = dt.timedelta(minutes=rule.minutes or 0)
    if found.is_of_tasks_only:
        topics &= {"task_failed"}
    if "runs_long" in topics:
        lines += long_runs(now, limit=limit)
    if "no_documents" in topics:
        last = {int(job): dt.datetime.fromisoformat(seen[2]) for job, seen in check.progress.items()}
        lines += quiet_jobs(now, limit=limit, last=last)
    events = [event for event in found.events if event.topic in topics]
    if rule.job_id is not None:
        lines = [line for line in lines if line.kind in OF_JOBS and line.key == str(rule.job_id)]
        events = [event for event in events if event.topic in OF_JOBS and event.key == str(rule.job_id)]
    return [*map(_seen, lines), *events]


def _seen(line: AttentionLine) -> Occurrence:
    return Occurrence(
        topic=line.kind,
        key=f"{line.key}{_IN}{line.partition}" if line.partition else line.key,
        subject=line.subject,
        sentence=in_words(line),
        link=line.link,
        since=line.since,
    )


def _observe_progress(check: NotificationCheck, *, now: dt.datetime) -> None:
    """
    Store the number of processed documents of each running job, and the time at which this number last grew.

    Store nothing if no rule needs it, because a cluster may have thousands of running jobs.
    """
    progress: dict[str, Any] = {}
    if NotificationRule.objects.filter(is_enabled=True, topics__contains=["no_documents"]).exists():
        # Only jobs that may process documents are counted, so that a paused job does not look stuck.
        jobs = [job for job in read_running_jobs() if job.state.may_be_stuffed]
        processed = count_processed([job.pk for job in jobs])
        for job in jobs:
            known = check.progress.get(str(job.pk))
            reading = [job.run_no, processed[job.pk]]
            progress[str(job.pk)] = known if known and known[:2] == reading else [*reading, now.isoformat()]
    check.progress = progress


def _read_events(check: NotificationCheck, *, now: dt.datetime) -> list[Occurrence]:
    """
    Return the events that no earlier check read, at most `_MOST` of each journal. The next check reads further events.

    So neither `job_event` nor `read_until` passes an event that was not read.
    """
    known = _numbers(check.seen)
    late = now - _LATE
    jobs = list(_jobs(check).exclude(pk__in=known["job"]).order_by("id")[:_MOST])
    nodes = list(_nodes(check).exclude(pk__in=known["node"]).order_by("at", "id")[:_MOST])
    tasks = list(_tasks(check).exclude(pk__in=known["task"]).order_by("archived_at", "id")[:_MOST])
    read = [*_of_jobs(jobs), *map(_of_node, nodes), *map(_of_task, tasks)]
    over = JobEvent.objects.filter(id__gt=check.job_event, at__lt=late)
    if len(jobs) == _MOST:
        over = over.filter(id__lte=jobs[-1].pk)
    check.job_event = over.aggregate(newest=Max("id"))["newest"] or check.job_event
    until = [late]
    until += [nodes[-1].at] if len(nodes) == _MOST else []
    until += [tasks[-1].archived_at] if len(tasks) == _MOST else []
    check.read_until = max(check.read_until, min(until))
    known["job"] |= {event.pk for event in jobs}
    known["node"] |= {event.pk for event in nodes}
    known["task"] |= {task.pk for task in tasks}
    check.seen = sorted(
        f"{kind}-{number}"
        for kind, rows in (("job", _jobs(check)), ("node", _nodes(check)), ("task", _tasks(check)))
        for number in rows.filter(pk__in=known[kind]).values_list("pk", flat=True)
    )
    return [seen for _at, seen in sorted(read, key=lambda one: one[0])]


def _numbers(seen: Iterable[str]) -> dict[str, set[int]]:
    """Return the numbers of the known events of each journal."""
    known: dict[str, set[int]] = {"job": set(), "node": set(), "task": set()}
    for event in seen:
        kind, _dash, number = event.partition("-")
        known[kind].add(int(number))
    return known


def _jobs(check: NotificationCheck) -> QuerySet[JobEvent]:
    return JobEvent.objects.filter(id__gt=check.job_event)


def _nodes(check: NotificationCheck) -> QuerySet[NodeEvent]:
    return NodeEvent.objects.filter(scope=CLUSTER_SCOPE, at__gte=check.read_until, kind="marked_failed")


def _tasks(check: NotificationCheck) -> QuerySet[ArchivedTask]:
    return ArchivedTask.objects.filter(archived_at__gte=check.read_until, why__in=_FAILED).exclude(kind__in=SILENT)


def _of_node(event: NodeEvent) -> tuple[dt.datetime, Occurrence]:
    return (
        event.at,
        Occurrence(
            topic="node_lost",
            key=str(event.node_id),
            subject=str(event.detail.get("name", "")) or _("Node"),
            sentence=f"{event.message}.",
            link=reverse("nodes"),
            since=event.at,
            event=f"node-{event.pk}",
        ),
    )


def _of_task(task: ArchivedTask) -> tuple[dt.datetime, Occurrence]:
    return (
        task.archived_at,
        Occurrence(
            topic="task_failed",
            key=str(task.pk),
            subject=_("Task %(id)d (%(kind)s)") % {"id": task.pk, "kind": task.kind},
            sentence=_("Task %(id)d (%(kind)s) failed for the last time (%(why)s): %(said)s")
            % {"id": task.pk, "kind": task.kind, "why": task.why, "said": task.last_message or task.last_class},
            link="",
            since=task.archived_at,
            event=f"task-{task.pk}",
        ),
    )


def _of_jobs(events: Iterable[JobEvent]) -> Iterator[tuple[dt.datetime, Occurrence]]:
    for event in events:
        topic = _OF_JOBS.get(event.kind)
        if topic is None or event.job_id is None:
            continue
        yield (
            event.at,
            Occurrence(
                topic=topic,
                key=str(event.job_id),
                subject=event.job_name,
                sentence=_("Job %(job)s %(said)s.") % {"job": event.job_name, "said": event.message.rstrip(".")},
                link=reverse("job", args=[event.job_id]),
                since=event.at,
                event=f"job-{event.pk}",
            ),
        )
