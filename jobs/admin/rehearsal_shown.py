"""The texts of the rehearsal of a job, for its template."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.queries.rehearsals.comparing import Group
from jobs.queries.rehearsals.jobs import HostLoad, Rehearsal
from nodes.web import formats


def shown(rehearsal: Rehearsal) -> Mapping[str, Any]:
    """Return a rehearsal in words."""
    return {
        "counts": _counts(rehearsal),
        "groups": [*_leaving(rehearsal), *_arriving(rehearsal)],
        "losses": [{"output": loss.output, "documents": formats.number(loss.documents)} for loss in rehearsal.losses],
        "hosts": [_host(host) for host in rehearsal.hosts],
        "starts": _starts(rehearsal),
        "notes": [*_approval(rehearsal), *rehearsal.warnings, *rehearsal.notes, *_unknown(rehearsal)],
    }


def _counts(rehearsal: Rehearsal) -> str:
    facts = {
        "known": formats.number(rehearsal.documents),
        "staying": formats.number(rehearsal.staying),
        "dropped": formats.number(rehearsal.dropped),
        "arriving": _about(rehearsal),
    }
    return _("%(known)s documents now: %(staying)s stay, %(dropped)s leave, %(arriving)s arrive.") % facts


def _about(rehearsal: Rehearsal) -> str:
    likely = formats.number(rehearsal.arrivals.likely)
    return likely if rehearsal.arrivals.is_whole else _("about %(n)s") % {"n": likely}


def _leaving(rehearsal: Rehearsal) -> Iterable[Mapping[str, Any]]:
    for reason, group in rehearsal.refused.items():
        yield _group(_("Leave: %(reason)s") % {"reason": reason}, group)
    if rehearsal.unlinked.number:
        yield _group(_("Leave: no document that stays links to them"), rehearsal.unlinked)
    if rehearsal.beyond.number:
        yield _group(_("Leave: they are beyond a hop limit"), rehearsal.beyond)


def _arriving(rehearsal: Rehearsal) -> Iterable[Mapping[str, Any]]:
    if rehearsal.arrivals.found.number:
        yield _group(_("Arrive: the present rules refuse them"), rehearsal.arrivals.found)
    if rehearsal.arrivals.new_forms.number:
        yield _group(
            _("Arrive: links lead to them, because query parameters are dropped"), rehearsal.arrivals.new_forms
        )
    if rehearsal.arrivals.within.number:
        yield _group(_("Arrive: they come within the hop limits"), rehearsal.arrivals.within)


def _group(title: str, group: Group) -> Mapping[str, Any]:
    hidden = group.number - len(group.examples)
    return {
        "title": title,
        "number": formats.number(group.number),
        "examples": group.examples,
        "more": ngettext("and %(n)s more", "and %(n)s more", hidden) % {"n": formats.number(hidden)} if hidden else "",
    }


def _host(host: HostLoad) -> Mapping[str, str]:
    return {
        "name": host.host,
        "before": formats.number(host.before),
        "after": formats.number(host.after),
        "time_before": _time(host, host.seconds_before),
        "time_after": _time(host, host.seconds_after),
    }


def _time(host: HostLoad, seconds: float | None) -> str:
    if host.gap is None:
        return _("denied")
    return _("no rate limit") if seconds is None else formats.duration(dt.timedelta(seconds=seconds))


def _starts(rehearsal: Rehearsal) -> Mapping[str, Sequence[str]] | None:
    """Return the next starts before and after the change; None if they stay the same."""
    if rehearsal.starts_before == rehearsal.starts_after:
        return None
    by_hand = [_("by hand only")]
    return {"before": rehearsal.starts_before or by_hand, "after": rehearsal.starts_after or by_hand}


def _approval(rehearsal: Rehearsal) -> Iterable[str]:
    if rehearsal.needs_approval:
        yield _("The delete guard will let these removals wait for approval.")


def _unknown(rehearsal: Rehearsal) -> Iterable[str]:
    """Yield sentences about the documents that only the next run can count."""
    if rehearsal.at_the_end:
        yield ngettext(
            "The links of %(n)s document at the maximum depth are not followed.",
            "The links of %(n)s documents at the maximum depth are not followed.",
            rehearsal.at_the_end,
        ) % {"n": formats.number(rehearsal.at_the_end)}
    arrivals = rehearsal.arrivals
    if arrivals.found.number or arrivals.new_forms.number or arrivals.within.number:
        yield _("Documents that arrive may lead to more, which are known only after the run.")
    if not rehearsal.arrivals.is_whole:
        yield _("Arrivals are estimated from a sample of %(n)s refused addresses.") % {
            "n": formats.number(rehearsal.arrivals.sample)
        }
