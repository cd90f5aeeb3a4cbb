"""The sentence about a group whose manager cannot hand out documents, for the pages of the cluster and of the jobs."""

import datetime as dt

from django.utils.translation import gettext as _

from jobs.partitions.this_partition import key_in
from jobs.queries.cluster.failing_groups import FailingGroup
from nodes.web import formats


def row(group: FailingGroup, *, now: dt.datetime) -> dict[str, str]:
    """Return the sentence as a row for a list on a page."""
    said = sentence(group, now=now)
    named = _("In partition %(name)s") % {"name": group.partition} if group.partition else ""
    return {"key": key_in(group.partition, group.id), "says": f"{named}: {said}" if named else said}


def sentence(group: FailingGroup, *, now: dt.datetime) -> str:
    return _(
        "Manager %(owner)s cannot hand out documents of group %(id)d (%(name)s) since %(since)s. %(why)s. See its log for details. The "
        "manager retries by itself."
    ) % {
        "id": group.id,
        "name": group.name.removeprefix("https://").removeprefix("http://"),
        "owner": group.owner or _("its manager"),
        "since": formats.moment(group.since, now=now),
        "why": group.why.rstrip("."),
    }
