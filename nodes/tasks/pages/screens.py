"""The screens of background tasks: the texts and buttons of their pages. `nodes.web.screens` explains screens."""

import datetime as dt
import json
from collections.abc import Mapping
from typing import Final

from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from nodes.tasks import kinds, verbs
from nodes.tasks.decisions import ANY
from nodes.tasks.models import ArchivedTask, Task, TaskFacts, TaskTemplate, TaskWorker
from nodes.tasks.pages.filters import WHY_WORDS
from nodes.tasks.queries import MADE_OF_TEMPLATE, TaskSeen, TemplateSeen
from nodes.tasks.retrying import Why
from nodes.tasks.statistics import Statistics
from nodes.web import formats
from nodes.web.screens import Record, bar
from nodes.web.translated_words import translated

# Longest text of an exception in a line of a list (characters).
_LONGEST: Final = 200
_TONES: Final = {Why.DONE.value: "indexed", Why.CANCELLED.value: "excluded"}
# Names of a progress that are drawn as a bar: the part that is done, and the whole.
_DONE, _TOTAL = "done", "total"


def numbers_of_tasks(found: Statistics) -> dict[str, str]:
    return {
        "queued_count": formats.number(found.queued),
        "running_count": formats.number(found.running),
        "postponed_count": formats.number(found.postponed),
        "zombies_count": formats.number(found.zombies),
        "zombies_tone": "failed" if found.zombies else "quiet",
        "workers_count": formats.number(found.workers),
        "workers_tone": "indexed" if found.workers else "failed",
        "throughput": formats.number(found.throughput),
        "latency": _seconds(found.latency),
        "execution": _seconds(found.execution_time),
    }


def warning_about_tasks(found: Statistics) -> str:
    """Return a sentence if due tasks wait, and no worker takes them; "" otherwise."""
    if found.workers or not found.queued + found.zombies:
        return ""
    command = f"crawlctl runtasks --work-on {found.group}" if found.group else "crawlctl runtasks"
    return _("Due tasks wait, and no worker takes them. Start one with “%(command)s”.") % {"command": command}


# --- Rows --------------------------------------------------------------------------------------------


def running_row(task: Task, *, now: dt.datetime) -> Record:
    return {
        **_facts(task),
        "for": formats.duration(now - (task.started_at or now)),
        "worker": str(task.worker),
        "attempt": formats.number(task.attempts),
        **_progress(task.progress),
        "cancelling": _("being cancelled by %(user)s") % {"user": task.cancelled_by} if task.cancelled_by else "",
        "acts": [] if task.cancelled_by else [_button("task-cancel", task, _("Cancel"))],
    }


def scheduled_row(task: Task, *, now: dt.datetime) -> Record:
    if task.started_at is not None:
        state, tone = _("running"), "working"
    elif task.worker_id is not None:
        state, tone = _("assigned"), "unchanged"
    else:
        state, tone = _("waiting"), "waiting"
    return {
        **running_row(task, now=now),
        "state": state,
        "tone": tone,
        "for": formats.duration(now - task.started_at) if task.started_at is not None else "",
        "worker": str(task.worker) if task.worker_id is not None else "",
        "due": formats.moment(task.scheduled_at, now=now),
        "due_in": formats.time_until(task.scheduled_at, now=now)
        if task.scheduled_at > now
        else formats.age(task.scheduled_at, now=now),
        "attempts": formats.number(task.attempts),
        "failure": _failure(task),
    }


def ended_row(task: ArchivedTask, *, now: dt.datetime) -> Record:
    return {
        **_facts(task),
        "why": str(WHY_WORDS[task.why]),
        "tone": _TONES.get(task.why, "failed"),
        "ended": formats.moment(task.archived_at, now=now),
        "took": _took(task),
        "attempts": formats.number(task.attempts),
        "failure": _failure(task),
        "acts": [_button("task-reschedule", task, _("Run again"))],
    }


def _facts(task: TaskFacts) -> dict[str, object]:
    return {
        "key": str(task.pk),
        "number": str(task.pk),
        "name": f"{task.pk} {task.kind}",
        "urn": task.urn or (task.made_of_urn if task.made_of == MADE_OF_TEMPLATE else ""),
        "group": task.group,
        "tags": ", ".join(task.tags),
        "address": reverse("task", args=[task.pk]),
    }


def _button(name: str, task: TaskFacts, label: str, *, tone: str = "plain") -> Record:
    """Return a form with one button, which posts to the page of this name."""
    return {"key": name, "address": reverse(name, args=[task.pk]), "label": label, "tone": tone}


def worker_row(worker: TaskWorker, *, now: dt.datetime) -> Record:
    task: Task | None = getattr(worker, "task", None)
    if task is None:
        state, tone = _("free"), "indexed"
    elif task.started_at is None:
        state, tone = _("has a task"), "unchanged"
    else:
        state, tone = _("running"), "working"
    return {
        "key": str(worker.pk),
        "name": worker.name,
        "process": f"{worker.host}:{worker.pid}",
        "work_on": _("all groups") if worker.work_on == ANY else worker.work_on,
        "state": _("%(state)s, stopping") % {"state": state} if worker.is_leaving else state,
        "tone": "excluded" if worker.is_leaving else tone,
        "task": "" if task is None else f"{task.pk} {task.kind}",
        "task_address": "" if task is None else reverse("task", args=[task.pk]),
        "progress": "" if task is None else _progress(task.progress)["progress"],
        "since": formats.duration(now - worker.since),
        "seen": formats.age(worker.last_seen_at, now=now),
    }


def template_row(seen: TemplateSeen, *, now: dt.datetime) -> Record:
    template = seen.template
    return {
        "key": str(template.pk),
        "urn": template.urn,
        "kind": template.kind,
        "group": template.group,
        "schedule": schedule_in_words(template),
        "unique": _("skips a run while the last task has not ended") if template.unique else "",
        "executions": formats.number(template.executions),
        "last": formats.moment(template.last_moment, now=now),
        "last_task": "" if template.last_task is None else _("task %(n)d") % {"n": template.last_task},
        "last_address": "" if template.last_task is None else reverse("task", args=[template.last_task]),
        "next": formats.moment(seen.next_runs[0], now=now) if seen.next_runs else formats.UNKNOWN,
        "later": ", ".join(formats.moment(moment, now=now) for moment in seen.next_runs[1:]),
        "tasks_address": f"{reverse('tasks-archived')}?kind={template.kind}",
        "is_built_in": _("built in") if template.is_built_in else "",
        "edit": "" if _is_internal(template.kind) else _("Edit"),
        "edit_address": reverse("task-template", args=[template.pk]),
    }


def schedule_in_words(template: TaskTemplate) -> str:
    stored = template.schedule
    if "every_minutes" in stored:
        n = stored["every_minutes"]
        return ngettext("every minute", "every %(n)s minutes", n) % {"n": formats.number(n)}
    zone = stored.get("time_zone", "UTC")
    return f"{stored.get('cron', '')} ({zone})"


# --- One task ----------------------------------------------------------------------------------------


def task_screen(seen: TaskSeen, *, now: dt.datetime) -> Record:
    task = seen.task
    return {
        **(_of_scheduled(task, now=now) if isinstance(task, Task) else _of_ended(task, now=now)),
        "kind": task.kind,
        "title": _title(task.kind),
        "arguments": [_line(name, _plain(value)) for name, value in dict(task.arguments).items()],
        "facts": _lines(
            {
                _("Group"): task.group,
                _("Tags"): ", ".join(task.tags),
                _("Name"): task.urn,
                _("Retry policy"): json.dumps(task.retry_policy, ensure_ascii=False),
            }
        ),
        "history": [*_origin(seen), *_attempts(task), *_copies(seen)],
        "exceptions": [
            {"key": "last", "class": task.last_class, "message": task.last_message, "trace": task.last_trace}
        ]
        if task.last_class
        else [],
    }


def _of_scheduled(task: Task, *, now: dt.datetime) -> Record:
    row = scheduled_row(task, now=now)
    running = _("for %(duration)s on %(worker)s") % {"duration": row["for"], "worker": row["worker"]}
    due = _("due %(when)s") % {"when": row["due_in"]}
    return {
        **row,
        "status": row["state"],
        "when": due if task.started_at is None else running,
        "cancels": [] if task.cancelled_by else [_button("task-cancel", task, _("Cancel task"), tone="danger")],
        "agains": [],
        "results": [],
    }


def _of_ended(task: ArchivedTask, *, now: dt.datetime) -> Record:
    row = ended_row(task, now=now)
    like = f"{reverse('task-run')}?{urlencode({'kind': task.kind, 'like': str(task.pk)})}"
    again = reverse("task-reschedule", args=[task.pk])
    edit = "" if _is_internal(task.kind) else _("Run with changes …")
    return {
        **row,
        **_progress({}),
        "status": row["why"],
        "when": formats.age(task.archived_at, now=now),
        "cancelling": "",
        "cancels": [],
        "agains": [{"key": "again", "address": again, "edit": edit, "edit_address": like}],
        "results": [] if task.result is None else [{"key": "result", "text": _as_json(task.result)}],
    }


def _origin(seen: TaskSeen) -> list[Record]:
    """Return a line with the creator of the task, and a link to the template or task from which it was made."""
    task = seen.task
    created = _("%(moment)s by %(user)s") % {"moment": _full(task.created_at), "user": task.created_by}
    link, address = "", ""
    if task.made_of == MADE_OF_TEMPLATE:
        facts = {"n": formats.number(task.execution or 0), "urn": task.made_of_urn}
        link, address = _("run %(n)s of the template %(urn)s") % facts, reverse("tasks-templates")
    elif task.made_of == verbs.ARCHIVED:
        link = _("copy of task %(n)s") % {"n": task.made_of_urn}
        address = reverse("task", args=[int(task.made_of_urn)])
    return [_line(_("Created"), created, link=link, address=address)]


def _attempts(task: TaskFacts) -> list[Record]:
    """Return the attempts of a task as lines of its history."""
    ended = _("its worker was lost") if task.last_crashed else _full(task.last_ended_at)
    lines = {
        _("Attempts"): formats.number(task.attempts),
        _("Last attempt due"): _full(task.last_due_at),
        _("Last attempt started"): _full(task.last_started_at),
        _("Last attempt ended"): ended,
        _("It took"): _took(task),
        _("Worker of the last attempt"): task.last_worker,
        _("Late reports of lost workers"): formats.number(task.late_endings) if task.late_endings else "",
    }
    if isinstance(task, ArchivedTask):
        lines[_("Archived")] = _full(task.archived_at)
    elif isinstance(task, Task):
        lines |= {_("Due"): _full(task.scheduled_at), _("Running since"): _full(task.started_at)}
    return _lines(lines)


def _copies(seen: TaskSeen) -> list[Record]:
    return [
        _line(
            _("Run again"), "", link=_("task %(n)d") % {"n": copy}, address=reverse("task", args=[copy]), key=str(copy)
        )
        for copy in seen.copies
    ]


def _lines(facts: Mapping[str, str]) -> list[Record]:
    return [_line(name, value) for name, value in facts.items() if value]


def _line(name: str, value: str, *, link: str = "", address: str = "", key: str = "") -> Record:
    return {"key": key or name, "name": name, "value": value, "link": link, "address": address}


# --- Texts -------------------------------------------------------------------------------------------


def _progress(progress: Mapping[str, object]) -> Mapping[str, str]:
    """Return a progress in words, and as a bar if it has the numbers `done` and `total`."""
    line = ", ".join(f"{name.replace('_', ' ')}: {_plain(value)}" for name, value in progress.items())
    done, total = progress.get(_DONE), progress.get(_TOTAL)
    is_counted = isinstance(done, int | float) and isinstance(total, int | float)
    return {"progress": line[:_LONGEST], **(bar(done, total) if is_counted else bar(0, 0))}  # type: ignore[arg-type]


def _plain(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return formats.number(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _failure(task: TaskFacts) -> str:
    if not task.last_class:
        return ""
    return f"{task.last_class}: {task.last_message}"[:_LONGEST]


def _took(task: TaskFacts) -> str:
    if task.last_started_at is None or task.last_ended_at is None:
        return ""
    return _seconds((task.last_ended_at - task.last_started_at).total_seconds())


def _seconds(value: float | None) -> str:
    if value is None:
        return formats.UNKNOWN
    return f"{value:.2f} s" if value < 10 else formats.duration(dt.timedelta(seconds=value))


def _full(moment: dt.datetime | None) -> str:
    return "" if moment is None else f"{moment.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S}"


def _title(kind: str) -> str:
    known = kinds.installed().get(kind)
    return translated(known.title) if known is not None else _("This kind of task is not installed here.")


def _is_internal(kind: str) -> bool:
    known = kinds.installed().get(kind)
    return known is None or known.is_internal
