"""Groups of seeds that their manager cannot stuff."""

import datetime as dt
from typing import Final

from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.attention.lines import AttentionLine
from jobs.queries.cluster.failing_groups import read_failing_groups

_KIND: Final = "group_fails"


def failing_groups(_now: dt.datetime) -> list[AttentionLine]:
    return [
        AttentionLine(
            kind=_KIND,
            key=str(group.id),
            subject=group.name,
            sentence=_(
                "Manager %(owner)s cannot hand out documents of group %(id)d (%(name)s): %(why)s. "
                "The log of the manager says more."
            )
            % {"owner": group.owner or "?", "id": group.id, "name": group.name, "why": group.why.rstrip(".")},
            since=group.since,
            link=reverse("cluster"),
        )
        for group in read_failing_groups()
    ]
