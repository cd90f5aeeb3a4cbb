"""A last backup that is too old."""

import datetime as dt

from django.conf import settings
from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.attention.lines import AttentionLine, Severity
from jobs.queries.backups import age_of_last_backup, file_of_last_backup


def old_backup(_now: dt.datetime) -> list[AttentionLine]:
    """Return a line if this machine makes backups and the last one is older than the setting."""
    most, age = settings.CRAWLCTL_BACKUP_MAX_AGE.total_seconds(), age_of_last_backup()
    if age is None or not most or age <= most:
        return []
    hours = {"file": file_of_last_backup(), "hours": f"{age / 3600:,.0f}", "most": f"{most / 3600:,.0f}"}
    return [
        AttentionLine(
            kind="backup_old",
            key="",
            subject=_("backup"),
            sentence=(
                _("No backup: %(file)s does not exist. Make one: crawlctl backup --to PLACE.") % hours
                if age == float("inf")
                else _(
                    "The last backup is %(hours)s hours old (limit: %(most)s). Make one: crawlctl backup --to PLACE."
                )
                % hours
            ),
            since=None,
            link=reverse("documentation", args=["docs/backups.html"]),
            severity=Severity.WARNING,
        )
    ]
