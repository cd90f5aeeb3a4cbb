"""What a job crawls, as lines of a list: the settings that differ from doing everything."""

from django.utils.translation import gettext as _

from jobs.queries.job_page import JobPage
from jobs.ui import words


def describe(page: JobPage) -> list[tuple[str, str]]:
    """Return (name, value) of what the job is set to, in the order in which it is decided."""
    labels = {
        "scope": _("Scope"),
        "include": _("Only addresses like"),
        "exclude": _("No addresses like"),
        "max_depth": _("Links from a seed, at most"),
        "user_agent": _("User agent"),
        "allow_private_networks": _("Private networks"),
        "robots_wait": _("Waits for robots.txt (s)"),
    }
    lines = [
        (labels.get(name, name), _value(value))
        for name, value in page.specification.items()
        if value not in (None, [], "")
    ]
    if page.max_documents is not None:
        lines.append((_("Documents a run, at most"), words.number(page.max_documents)))
    lines.append((_("Priority"), _("%(n)d of 1 (first) to 10") % {"n": page.priority}))
    return lines


def _value(value: object) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, list | tuple):
        return ", ".join(str(one) for one in value)
    return str(value)
