"""The screens of distributed jobs: the texts and buttons of their pages. `nodes.web.screens` explains screens."""

import datetime as dt

from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from nodes.distributed.queries import ItemOfJob, JobPage, JobSeen, JobsSeen, NodeOfJob, Switch
from nodes.distributed.records import ALL, OTHERS
from nodes.web import formats
from nodes.web.screens import Record


def distributed_screen(seen: JobsSeen, *, now: dt.datetime) -> Record:
    return {
        "lead": _lead(seen),
        "unseen": _unseen(seen.unseen),
        "refusal": _("The main node keeps the current assignment of items: %(why)s") % {"why": seen.refusal}
        if seen.refusal
        else "",
        "jobs": [{**job_row(job, now=now), "address": _address(job.job, seen.cluster)} for job in seen.jobs],
        "more": formats.more(seen.jobs_in_all - len(seen.jobs)),
        "switches": [
            _switch(seen.all_jobs, job=ALL, name=_("All distributed jobs (overrides their own switches)"), now=now),
            _switch(seen.other_jobs, job=OTHERS, name=_("Distributed jobs without their own switch"), now=now),
        ],
    }


def distributed_job_screen(page: JobPage, *, now: dt.datetime) -> Record:
    return {
        **job_row(page.job, now=now),
        "unseen": _("The coordination store cannot be read, so items and locks are unknown: %(why)s")
        % {"why": page.unseen}
        if page.unseen
        else "",
        "nodes": [_node(node, now=now) for node in page.job.nodes],
        "pool": [_item(item, now=now) for item in page.items],
        "more": formats.more(page.items_in_all - len(page.items)),
    }


def job_row(job: JobSeen, *, now: dt.datetime) -> Record:
    if job.is_disabled:
        state, tone = _("disabled"), "waiting"
    elif job.is_running:
        state, tone = _("running"), "working"
    else:
        state, tone = _("stopped"), "quiet"
    items, given = formats.number(job.items), formats.number(job.given)
    return {
        "key": job.job,
        "name": job.job,
        "state": state,
        "tone": tone,
        "changed": _author_and_age(job.switch, now=now) if job.switch else "",
        "items": items,
        "given": given,
        "shared": _("%(given)s of %(items)s assigned") % {"given": given, "items": items},
        "shared_tone": "failed" if job.given < job.items and not job.is_disabled else "",
        "able": formats.number(job.able),
        "in_progress": formats.number(job.in_progress),
        "runs": formats.number(job.runs),
        "failures": formats.number(job.failures),
        "failures_tone": "failed" if job.failures else "",
        "last": formats.moment(job.last_began_at, now=now),
        "next": _next_run(job.next_at, now=now),
        "problem": job.problem,
        "last_failure": job.last_failure,
        "actions": _actions(is_disabled=job.is_disabled, has_switch=job.switch is not None),
    }


def _node(node: NodeOfJob, *, now: dt.datetime) -> Record:
    return {
        "key": node.node,
        "node": node.node,
        "state": _("member") if node.is_member else _("left"),
        "tone": "indexed" if node.is_member else "failed",
        "items": formats.number(node.items),
        "in_progress": formats.number(node.in_progress),
        "runs": formats.number(node.runs),
        "failures": formats.number(node.failures),
        "last": formats.moment(node.last_began_at, now=now),
        "took": "" if node.last_seconds is None else formats.duration(dt.timedelta(seconds=node.last_seconds)),
        "next": _next_run(node.next_at, now=now),
        "last_failure": node.last_failure,
        "seen": formats.age(node.seen_at, now=now),
    }


def _item(item: ItemOfJob, *, now: dt.datetime) -> Record:
    holder = since = remaining = tone = ""
    if lock := item.lock:
        holder, since = lock.holder or _("invalid lock data"), formats.moment(lock.since, now=now)
        remaining = _("expired") if lock.has_expired else formats.duration(lock.remaining)
        tone = "failed" if lock.has_expired else "indexed"
    return {
        "key": item.item,
        "item": item.item,
        "node": item.node or _("none"),
        "node_tone": "" if item.node else "failed",
        "holder": holder,
        "since": since,
        "remaining": remaining,
        "tone": tone,
    }


def _next_run(at: dt.datetime | None, *, now: dt.datetime) -> str:
    if at is None:
        return formats.UNKNOWN
    return formats.time_until(at, now=now) if at > now else _("now")


def _lead(seen: JobsSeen) -> str:
    facts = {"cluster": seen.cluster, "main": seen.main, "term": formats.number(seen.term)}
    if not seen.main:
        return (
            _("Distributed jobs of cluster %(cluster)s. Each item runs on one node. The cluster has no main node.")
            % facts
        )
    return (
        _(
            "Distributed jobs of cluster %(cluster)s. Each item runs on one node. The main node is %(main)s in term %(term)s."
        )
        % facts
    )


def _unseen(why: str) -> str:
    if not why:
        return ""
    return _("The coordination store cannot be read, so this page shows the last reports of the nodes: %(why)s") % {
        "why": why
    }


def _address(job: str, cluster: str) -> str:
    return f"{reverse('distributed-job', args=[job])}?{urlencode({'cluster': cluster})}"


def _switch(switch: Switch, *, job: str, name: str, now: dt.datetime) -> Record:
    return {
        "key": name,
        "job": job,
        "name": name,
        "state": _("disabled") if switch.is_disabled else _("enabled"),
        "tone": "failed" if switch.is_disabled else "indexed",
        "changed": _author_and_age(switch, now=now),
        "actions": _actions(is_disabled=switch.is_disabled, has_switch=False),
    }


def _actions(*, is_disabled: bool, has_switch: bool) -> list[Record]:
    """Return the buttons of a switch."""
    turn: Record = (
        {"key": "enable", "label": _("Enable"), "tone": "plain"}
        if is_disabled
        else {"key": "disable", "label": _("Disable"), "tone": "plain"}
    )
    return [turn, {"key": "follow", "label": _("Remove switch"), "tone": "quiet"}] if has_switch else [turn]


def _author_and_age(switch: Switch, *, now: dt.datetime) -> str:
    if switch.at is None:
        return ""
    return _("%(who)s, %(when)s") % {"who": switch.by, "when": formats.age(switch.at, now=now)}
