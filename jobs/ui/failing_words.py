"""The sentence about a group that cannot be stuffed: on the pages of the cluster and of its jobs."""

import datetime as dt

from django.utils.translation import gettext as _

from jobs import words
from jobs.queries.failing_groups import FailingGroup


def row(group: FailingGroup, *, now: dt.datetime) -> dict[str, str]:
    """Return the sentence as a row of a page's list."""
    return {"key": str(group.id), "says": sentence(group, now=now)}


def sentence(group: FailingGroup, *, now: dt.datetime) -> str:
    return _(
        "No documents of group %(id)d (%(name)s) are handed out: %(owner)s has failed at it since %(since)s, each time it "
        "tried. %(why)s. Its log says more; when it works again, this goes away."
    ) % {
        "id": group.id,
        "name": group.name.removeprefix("https://").removeprefix("http://"),
        "owner": group.owner or _("its manager"),
        "since": words.moment(group.since, now=now),
        "why": group.why.rstrip("."),
    }
