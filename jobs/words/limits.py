"""The limits of a host in words."""

from django.utils.translation import gettext as _

from jobs.throttling.limits import UNLIMITED_REQUESTS, Limits


def limits_in_words(limits: Limits | None) -> str:
    """Return a phrase such as “2 at a time, one every 1.5 s, 100,000 bytes per second”, or “not limited”."""
    if limits is None:
        return str(_("not limited"))
    if limits.denied or limits.closed_until is not None:
        return str(_("denied"))
    parts = []
    if limits.requests != UNLIMITED_REQUESTS:
        parts.append(_("%(requests)s at a time") % {"requests": f"{limits.requests:,}"})
    if limits.gap:
        parts.append(_("one every %(gap)s s") % {"gap": f"{limits.gap:.4g}"})
    if limits.bytes_per_second is not None:
        parts.append(_("%(bytes)s bytes per second") % {"bytes": f"{limits.bytes_per_second:,.0f}"})
    return ", ".join(parts) or str(_("not limited"))
