"""What this process runs with: what it was told when it started, and stored settings that it has taken up."""

from django.conf import settings

from jobs.settings.table import TABLE
from nodes.settings.effective import Effective


def current() -> Effective:
    """The settings of this process."""
    return Effective(table=TABLE, environment=settings.CRAWLCTL_ENVIRONMENT)
