"""The explanation of an address in words, for its page."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from jobs.explain import words
from jobs.explain.actions import GateAction, action_of, change_branch, fetch_again, forget
from jobs.explain.explaining import Explained, Section
from jobs.explain.gates import Gate, Judgement, Status
from jobs.explain.link_paths import Step
from jobs.lifecycle.document import Stage
from jobs.models import Outcome
from jobs.words.documents import document_state
from nodes.permissions import May
from nodes.web import formats
from nodes.web.translated_words import translated

# Number of steps that are shown at each end of a way from a seed.
_ENDS: Final = 10


def explained_screen(found: Explained, *, may: May, now: dt.datetime) -> Mapping[str, object]:
    """Return the explanation with the buttons and links that the user may use."""
    return {
        "identifier": found.address.identifier,
        "is_known": found.is_known,
        "sections": [_section(section, may=may, now=now) for section in found.sections],
        "gates": [_gate_row(None, gate, may=may, now=now) for gate in found.gates],
        "more": [
            {"name": name, "address": address_of(found.address.typed, job=job)} for job, name in found.more.items()
        ],
    }


def address_of(url: str, *, job: int | None = None) -> str:
    """Return the address of the page that explains this address."""
    return f"{reverse('explain')}?{urlencode({'url': url} | ({'job': job} if job is not None else {}))}"


def _section(section: Section, *, may: May, now: dt.datetime) -> Mapping[str, object]:
    state, tone = _state(section)
    job, host = section.job, section.host
    return {
        "job": job.name,
        "job_id": job.pk,
        "job_address": reverse("job", args=[job.pk]),
        "status": translated(job.status),
        "is_forecast": section.is_forecast,
        "state": state,
        "tone": tone,
        "held_tone": "indexed" if any(held.version for held in section.held_by) else "quiet",
        "headline": words.headline(section, now=now),
        "document_address": reverse("document", args=[job.pk, section.item.hash]) if section.item else "",
        "document_hash": section.item.hash.hex if section.item else "",
        "host_address": reverse("host", args=[host.id]) if host is not None and host.id else "",
        "host": host.name if host is not None else "",
        "gates": [_gate_row(section, gate, may=may, now=now) for gate in section.gates],
        "actions": [action for action in _actions(section) if may(action.permission)],
        "way": _steps(section.way, job_id=job.pk),
        "way_hidden": formats.number(len(section.way) - 2 * _ENDS) if len(section.way) > 2 * _ENDS else "",
        "referrers": _links(section.referrers, job_id=job.pk),
    }


def _actions(section: Section) -> Iterator[GateAction]:
    """Yield the operations on the document that are offered whatever gate decides."""
    if section.item is None:
        return
    if section.item.run_no == section.job.run_no and section.item.stage in {Stage.PENDING, Stage.DONE}:
        yield fetch_again(section.item)
    branch = None if section.partition else change_branch(section)
    for action in (branch, forget(section.item)):
        if action is not None:
            yield action


def _state(section: Section) -> tuple[str, str]:
    item = section.item
    if item is None:
        return _("unknown"), "quiet"
    return document_state(
        stage=Stage(item.stage),
        outcome=Outcome(item.outcome),
        code=item.result_code,
        is_of_this_run=item.run_no == section.job.run_no,
    )


def _gate_row(section: Section | None, gate: Judgement, *, may: May, now: dt.datetime) -> Mapping[str, object]:
    is_forecast = section is None or section.is_forecast
    action = action_of(section, gate) if section is not None else None
    is_unknown = is_forecast and gate.gate == Gate.KNOWN
    return {
        "key": f"{gate.gate}-{gate.subject}",
        "name": words.name(gate),
        "status": words.status(gate, is_forecast=is_forecast),
        "tone": "quiet" if is_unknown else words.TONES[gate.status],
        "is_blocked": gate.status == Status.BLOCKED and not is_unknown,
        "says": words.sentence(gate, host=section.host if section is not None else None, now=now),
        "remedy": words.remedy(gate),
        "since": formats.age(gate.since, now=now) if gate.since else "",
        "until": formats.time_until(gate.until, now=now) if gate.until and gate.until > now else "",
        "action": action if action is not None and may(action.permission) else None,
    }


def _steps(way: Sequence[Step], *, job_id: int) -> list[Mapping[str, str]]:
    """Return the first and the last steps of a way."""
    shown = way if len(way) <= 2 * _ENDS else [*way[:_ENDS], *way[-_ENDS:]]
    return _links(shown, job_id=job_id)


def _links(steps: Sequence[Step], *, job_id: int) -> list[Mapping[str, str]]:
    return [{"identifier": step.identifier, "address": reverse("document", args=[job_id, step.hash])} for step in steps]
