"""The limits of a host in words."""

from django.utils.translation import gettext as _

from jobs.throttling.limits import UNLIMITED_REQUESTS, Limits
from nodes.web import formats


def limits_in_words(limits: Limits | None) -> str:
    """Return a phrase such as “2 at a time, one every 1.5 s, 100,000 bytes per second”, or “not limited”."""
    if limits is None:
        return str(_("not limited"))
    if limits.denied or limits.closed_until is not None:
        return str(_("denied"))
    parts = []
    if limits.requests != UNLIMITED_REQUESTS:
        parts.append(_("%(requests)s at a time") % {"requests": formats.number(limits.requests)})
    if limits.gap:
        parts.append(_("one every %(gap)s s") % {"gap": formats.decimal(limits.gap)})
    if limits.bytes_per_second is not None:
        parts.append(_("%(bytes)s bytes per second") % {"bytes": formats.number(round(limits.bytes_per_second))})
    return ", ".join(parts) or str(_("not limited"))


def limits_in_brief(limits: Limits) -> str:
    """Return the limits in a short form, such as “2 at once · 1 per 1.5 s · 100 kB/s”."""
    if limits.denied or limits.closed_until is not None:
        return str(_("denied"))
    parts = []
    if limits.requests != UNLIMITED_REQUESTS:
        parts.append(_("%(n)s at once") % {"n": formats.number(limits.requests)})
    if limits.gap:
        parts.append(
            _("1 per %(n)s s") % {"n": formats.decimal(limits.gap)}
            if limits.gap > 1
            else _("%(n)s per s") % {"n": formats.decimal(1 / limits.gap)}
        )
    if limits.bytes_per_second is not None:
        parts.append(f"{formats.size(int(limits.bytes_per_second))}/s")
    return " · ".join(parts) or str(_("not limited"))


def share_in_words(share: Limits, whole: Limits | None) -> str:
    """Return the limits of this partition in words. If they are a `share`, add the `whole` limits of all partitions."""
    if whole is None:
        return limits_in_words(share)
    facts = {"share": limits_in_words(share), "whole": limits_in_words(whole)}
    if share.requests == 0:
        return str(_("none here at present, of %(whole)s in all partitions") % facts)
    return str(_("%(share)s here, of %(whole)s in all partitions") % facts)
