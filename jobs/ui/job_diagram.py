"""
The diagram of the lifecycle on a job's page: its states, the transitions that are possible now, and the transitions of
the run.
"""

import datetime as dt
from typing import Final

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.lifecycle.arrows import GONE, STAGES, Arrow, arrows_from
from jobs.lifecycle.job import situation_of
from jobs.lifecycle.table import Owner
from jobs.queries.jobs.page import JobPage, MoveLine
from jobs.verbs.control import MAY_CONTROL, VERBS
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.web import formats
from nodes.web.screens import Record
from nodes.web.translated_words import as_label, translated

# The lowest role that has each permission of a verb.
ROLE_FOR: Final = {MAY_CONTROL: gettext_lazy("operator"), "jobs.delete_job": gettext_lazy("administrator")}
_MADE_BY: Final = {
    Owner.MAIN: gettext_lazy("main manager"),
    Owner.GROUP_OWNER: gettext_lazy("manager of its seeds"),
    Owner.WORKER: gettext_lazy("worker"),
}
# The names of pages by verb, for verbs whose button leads to a page that first explains the effect.
_ASKED: Final = {"delete": "job", "allow-removals": "job-removals", "refuse-removals": "job-removals"}

# Transitions that happen to jobs of a one-shot command only.
_OF_ONE_SHOTS: Final = {"interrupt"}


def cells(page: JobPage, *, tone: str, now: dt.datetime) -> Record:
    """Return the cells of the diagram, and the cells of the timeline of the run."""
    job = page.job
    is_one_shot = job.node_scope != CLUSTER_SCOPE
    here, arrows = situation_of(job.state), arrows_from(job.state)
    targets = {arrow.target for arrow in arrows} - {here}
    steps = [arrow for arrow in arrows if arrow.transition.owner == Owner.OPERATOR]
    return {
        "stages": [
            {"key": stage, "stage": translated(stage), "states": [_state(name, here, targets, tone) for name in names]}
            for stage, names in STAGES.items()
        ],
        "here": as_label(here),
        "steps": [_step(arrow, here) for arrow in steps if arrow.transition.verb not in _ASKED],
        "asked": [_asked(arrow, here, job.id) for arrow in steps if arrow.transition.verb in _ASKED],
        "by_itself": [
            _loop_row(arrow)
            for arrow in arrows
            if arrow.transition.owner != Owner.OPERATOR and (is_one_shot or arrow.transition.name not in _OF_ONE_SHOTS)
        ],
        "moves": [_move(move, until=move.until or (now if job.runs else None), now=now) for move in page.moves],
    }


def _state(name: str, here: str, targets: set[str], tone: str) -> Record:
    if name == here:
        return {"key": name, "state": as_label(name), "lit": "here", "tone": tone, "mark": _("now")}
    if name in targets:
        return {"key": name, "state": as_label(name), "lit": "next", "tone": "quiet", "mark": _("possible next")}
    return {"key": name, "state": as_label(name), "lit": "", "tone": "quiet", "mark": ""}


def _step(arrow: Arrow, here: str) -> Record:
    row = arrow.transition
    verb = VERBS[row.verb]
    return {
        "key": row.verb,
        "label": translated(row.label),
        "target": _target(arrow, here),
        "effect": translated(verb.effect),
        "by": str(ROLE_FOR[verb.permission]),
    }


def _asked(arrow: Arrow, here: str, job_id: int) -> Record:
    verb = arrow.transition.verb
    anchor = "#delete" if verb == "delete" else ""
    return {**_step(arrow, here), "address": reverse(_ASKED[verb], args=[job_id]) + anchor}


def _loop_row(arrow: Arrow) -> Record:
    row = arrow.transition
    return {
        "key": row.name,
        "label": as_label(row.name),
        "target": _target(arrow, ""),
        "effect": _("When: %(condition)s.") % {"condition": translated(row.guard)},
        "by": str(_MADE_BY[row.owner]),
    }


def _target(arrow: Arrow, here: str) -> str:
    if arrow.target == here:
        return _("no other state")
    return _("No longer exists") if arrow.target == GONE else as_label(arrow.target)


def _move(move: MoveLine, *, until: dt.datetime | None, now: dt.datetime) -> Record:
    return {
        "key": str(move.id),
        "at": formats.moment(move.at, now=now),
        "to": as_label(move.to),
        "message": as_label(move.message),
        "who": move.made_by,
        "took": formats.duration(until - move.at) if until else "",
    }
