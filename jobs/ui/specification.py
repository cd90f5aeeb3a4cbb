"""The specification of a job as lines of a list. The list has only settings that restrict the crawl."""

from django.utils.translation import gettext as _

from jobs.connectors.repository import registry
from jobs.lifecycle.job import Kind, StartMethod
from jobs.lifecycle.schedule_text import span_in_words, window_in_words
from jobs.queries.jobs.set_up import JobSetUp, JobTimes
from nodes.web import formats


def describe(set_up: JobSetUp) -> list[tuple[str, str]]:
    """Return the names and the values of the job's settings, in the order in which the crawl applies the settings."""
    kind = registry.installed().get(set_up.connector)
    labels = {field.name: str(field.label) for field in kind.specification.fields} if kind else {}
    lines = [
        (labels.get(name, name), _value(value))
        for name, value in set_up.specification.items()
        if value not in (None, [], "")
    ]
    if set_up.max_documents is not None:
        lines.append((_("Document limit per run"), formats.number(set_up.max_documents)))
    lines += [
        (_("Hop limit for “%(type)s”") % {"type": link_type}, formats.number(most))
        for link_type, most in set_up.hop_limits.items()
    ]
    if set_up.access_rules:
        lines.append((_("Access rules"), formats.number(set_up.access_rules)))
    if set_up.kept_versions:
        lines.append((_("Kept versions"), formats.number(set_up.kept_versions)))
    lines += _describe_times(set_up.when)
    lines.append((_("Priority"), _("%(n)d (1 is first, 10 is last)") % {"n": set_up.priority}))
    return lines


def _describe_times(when: JobTimes) -> list[tuple[str, str]]:
    labels = {
        "recrawl_after": _("Recrawl interval"),
        "recrawl_at_most": _("Maximum recrawl interval"),
        "expire_after": _("Document expiration"),
        "reseed_after": _("Reseed interval"),
    }
    methods = {
        StartMethod.MANUAL: _("manually (the windows have no effect)"),
        StartMethod.WINDOW_BEGIN: _("when a window opens"),
        StartMethod.WINDOW_INSIDE: _("whenever a window is open"),
    }
    lines = [(_("Kind"), _("continuous"))] if when.kind == Kind.CONTINUOUS else []
    lines += [(labels[name], span_in_words(span)) for name, span in when.intervals.items()]
    if when.windows:
        lines.append((_("Starts"), methods[when.start_method]))
        lines += [(_("Window"), window_in_words(window)) for window in when.windows]
    if when.window_ends_at is not None:
        lines.append((_("End of this window"), f"{when.window_ends_at:%Y-%m-%d %H:%M} UTC"))
    return lines


def _value(value: object) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, list | tuple):
        return ", ".join(str(one) for one in value)
    return str(value)
