"""Lines about workers that take no work because a disk has too little free space."""

import datetime as dt

from django.db import connection
from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.attention.lines import SHOWN, AttentionLine

_SHORT = """
SELECT id, name, host, progress ->> 'disk' FROM nodes_node
 WHERE status IN ('running', 'draining') AND coalesce(progress ->> 'disk', '') <> ''
 ORDER BY name, id LIMIT %s
"""


def disks_without_room(_now: dt.datetime) -> list[AttentionLine]:
    """Return a line for each worker that waits for free space on a disk."""
    with connection.cursor() as cursor:
        cursor.execute(_SHORT, [SHOWN])
        rows = cursor.fetchall()
    return [
        AttentionLine(
            kind="disk_full",
            key=str(id_),
            subject=name,
            sentence=_("The worker %(name)s on %(host)s takes no work: %(why)s")
            % {"name": name, "host": host, "why": why},
            since=None,
            link=reverse("nodes"),
        )
        for id_, name, host, why in rows
    ]
