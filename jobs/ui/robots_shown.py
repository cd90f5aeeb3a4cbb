"""robots.txt of a host in words: its age, its text, and its changes."""

import datetime as dt
from collections.abc import Sequence

from django.utils.translation import gettext as _

from jobs.queries.hosts.robots import Change, RobotsOfOrigin
from nodes.web import formats
from nodes.web.screens import Record


def robots_shown(found: Sequence[RobotsOfOrigin], *, now: dt.datetime) -> list[Record]:
    return [
        {
            "address": f"{one.origin}/robots.txt",
            "read": _("Read %(age)s (%(moment)s UTC).")
            % {"age": formats.age(one.read_at, now=now), "moment": formats.moment(one.read_at, now=now)},
            "has_rules": one.text.has_rules,
            "text": "\n".join(one.text.lines),
            "is_cut": one.text.is_cut,
            "changes": [_change(change, now=now) for change in one.changes],
        }
        for one in found
    ]


def _change(change: Change, *, now: dt.datetime) -> Record:
    return {
        "title": _("Changed between %(before)s UTC and %(after)s UTC")
        % {
            "before": formats.moment(change.last_read_at, now=now),
            "after": formats.moment(change.replaced_at, now=now),
        },
        "difference": "\n".join(change.difference),
    }
