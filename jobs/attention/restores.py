"""A restored database whose outputs are being verified."""

import datetime as dt

from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.attention.lines import AttentionLine, Severity
from jobs.queries.restores import read_open_restores


def restored_database(_now: dt.datetime) -> list[AttentionLine]:
    """Return a line while the outputs of a restored database are verified."""
    return [
        AttentionLine(
            kind="output_out_of_sync",
            key=f"restore-{restore.pk}",
            subject=_("database"),
            sentence=_(
                "The database was restored to its state of %(as_of)s UTC. Its outputs are being verified and "
                "repaired: %(outputs)s."
            )
            % {
                "as_of": f"{restore.as_of.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S}" if restore.as_of else "?",
                "outputs": ", ".join(outputs),
            },
            since=restore.noticed_at,
            link=reverse("documentation", args=["docs/backups.html"]),
            severity=Severity.WARNING,
        )
        for restore, outputs in read_open_restores()
    ]
