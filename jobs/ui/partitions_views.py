"""The page of the partitions: shares, documents, rates, and the exchange between them."""

import datetime as dt
from collections.abc import Sequence
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from jobs.partitions import this_partition
from jobs.partitions.merged import Silent
from jobs.partitions.moving import MovePhase
from jobs.partitions.placement import SLOTS
from jobs.queries.partitions import LastMove, PartitionLine, read_last_move, read_partitions
from jobs.ui.pages import page
from nodes.database.clock import read_clock
from nodes.web import formats

_PHASES: Final = {
    MovePhase.HOLDING: gettext_lazy("holds jobs"),
    MovePhase.COPYING: gettext_lazy("copies documents"),
    MovePhase.DONE: gettext_lazy("done"),
    MovePhase.REFUSED: gettext_lazy("refused"),
    MovePhase.CANCELLED: gettext_lazy("cancelled"),
}
_MEANINGS: Final = {
    MovePhase.HOLDING: gettext_lazy("All jobs wait until no document is in progress in any partition."),
    MovePhase.COPYING: gettext_lazy("The documents of moved hosts travel to their new partitions. All jobs wait."),
    MovePhase.DONE: gettext_lazy("All hosts are in their new partitions, and all jobs go on."),
    MovePhase.CANCELLED: gettext_lazy("No host has moved, and all jobs go on."),
}


@page
@require_safe
def partitions(request: HttpRequest) -> HttpResponse:
    placement, now = this_partition.placement(), read_clock()
    seen = [] if placement is None else read_partitions(placement, now=now)
    move = None if placement is None else read_last_move(placement)
    context = {
        "placement": placement,
        "slots": formats.number(SLOTS),
        "rows": [_row(one, now=now) for one in seen],
        "move": None if move is None else _move(move),
    }
    return render(request, "ui/partitions.html", context)


def silent_partitions(silent: Sequence[Silent], *, now: dt.datetime) -> list[str]:
    """Return a sentence for each partition whose part of a page is missing because the partition did not answer."""
    return [
        _("Partition %(name)s does not answer. Its part is missing here. Its last figures came %(age)s.")
        % {"name": one.name, "age": formats.age(one.heard_at, now=now)}
        if one.heard_at is not None
        else _("Partition %(name)s does not answer. Its part is missing here, and it has sent no figures yet.")
        % {"name": one.name}
        for one in silent
    ]


def at_least(silent: Sequence[Silent], *, now: dt.datetime) -> str:
    """Return sentences about the partitions that are missing in the counts of a page; "" if there are none."""
    said = [
        _("The true counts may be higher: partition %(name)s sent its last figures %(age)s.")
        % {"name": one.name, "age": formats.age(one.heard_at, now=now)}
        if one.heard_at is not None
        else _("The true counts may be higher: partition %(name)s has sent no figures yet.") % {"name": one.name}
        for one in silent
    ]
    return " ".join(said)


def _row(seen: PartitionLine, *, now: dt.datetime) -> dict[str, Any]:
    state, tone = _state(seen)
    roles = [word for word, holds in ((_("control"), seen.is_control), (_("this one"), seen.is_here)) if holds]
    return {
        "name": seen.name,
        "roles": ", ".join(roles),
        "slots": formats.number(seen.slots),
        "share": formats.share(seen.slots, SLOTS),
        "documents": formats.UNKNOWN if seen.documents is None else formats.number(seen.documents),
        "rate": formats.rate(seen.rate),
        "state": state,
        "tone": tone,
        "age": _("now")
        if seen.is_here
        else formats.UNKNOWN
        if seen.sent_at is None
        else formats.age(seen.sent_at, now=now),
        "behind": formats.UNKNOWN if seen.bytes_behind is None else formats.size(seen.bytes_behind),
        "arrived": formats.number(seen.arrived),
    }


def _move(move: LastMove) -> dict[str, Any]:
    tone = {MovePhase.DONE: "indexed", MovePhase.REFUSED: "failed", MovePhase.CANCELLED: "quiet"}.get(
        move.phase, "working"
    )
    parts = [
        {
            "name": part.name,
            "state": _("has moved")
            if part.has_moved
            else _("holds its jobs")
            if part.is_held
            else part.waits_for or _("no answer yet"),
            "sent": formats.number(part.sent),
            "applied": formats.number(part.applied),
        }
        for part in move.parts
    ]
    return {
        "number": formats.number(move.number),
        "phase": _PHASES[move.phase],
        "tone": tone,
        "sentence": move.why if move.phase == MovePhase.REFUSED else _MEANINGS[move.phase],
        "parts": () if move.phase.is_over else parts,
    }


def _state(seen: PartitionLine) -> tuple[str, str]:
    if seen.is_here:
        return formats.UNKNOWN, ""
    if not seen.is_receiving:
        return _("takes no rows"), "failed"
    if seen.is_silent:
        return _("silent"), "failed"
    return _("takes rows"), "working"
