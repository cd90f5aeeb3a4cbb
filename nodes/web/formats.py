"""
Numbers and times as text for people.

Moments have the form of ISO 8601 in every language, because scripts read them, and logs and the API have the same form.
"""

import datetime as dt
import math

from django.utils.translation import get_language
from django.utils.translation import gettext as _

# The text for an unknown value.
UNKNOWN = "—"


# Languages whose numbers have a comma before their decimals, and points between thousands.
_WITH_COMMAS = frozenset({"de"})
_SWAPPED = str.maketrans(",.", ".,")


def _localized(text: str) -> str:
    """Return a number in the form of the page's language."""
    return text.translate(_SWAPPED) if get_language() in _WITH_COMMAS else text


def number(value: int) -> str:
    return _localized(f"{value:,}")


def decimal(value: float, *, digits: int = 4) -> str:
    """
    Return a number with this many significant digits. All digits before the point are shown, never a power of ten.
    """
    if not value:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{places}f}"
    return _localized(text.rstrip("0").rstrip(".") if "." in text else text)


def more(hidden: int) -> str:
    """Return the number of lines that a list does not show, in words; '' if it shows all."""
    return _("and %(n)s more") % {"n": number(hidden)} if hidden > 0 else ""


def share(part: int, whole: int) -> str:
    """Return a part of a whole in percent; 100 % only if nothing is missing."""
    if not whole:
        return UNKNOWN
    percent = 100 * part / whole
    return _localized(
        "100 %"
        if part >= whole
        else f"{min(percent, 99.9):.1f} %"
        if percent < 10 or percent > 99
        else f"{percent:.0f} %"
    )


def rate(value: float | None) -> str:
    """Return the text of a rate in documents a second."""
    if value is None:
        return UNKNOWN
    if value >= 10 or not value:
        return _localized(f"{value:,.0f}")
    # A rate of one a minute must not appear as zero.
    return _localized(f"{value:.1f}") if value >= 1 else decimal(value, digits=2)


def size(amount: int) -> str:
    """Return an amount of bytes in decimal units, as of networks and disks."""
    value = float(amount)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return _localized(f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}")
        value /= 1000
    return _localized(f"{value:,.1f} TB")


def duration(value: dt.timedelta) -> str:
    """Return a duration in its two largest units."""
    seconds = max(0, int(value.total_seconds()))
    if seconds < 60:
        return _("%(s)d s") % {"s": seconds}
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return _("%(m)d min %(s)d s") % {"m": minutes, "s": seconds}
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return _("%(h)d h %(m)d min") % {"h": hours, "m": minutes}
    days, hours = divmod(hours, 24)
    return _("%(d)d d %(h)d h") % {"d": days, "h": hours}


def milliseconds(value: int) -> str:
    """Return a short duration as text: in milliseconds below one second, otherwise in larger units."""
    if value < 1000:
        return _("%(n)d ms") % {"n": value}
    if value < 60_000:
        return _("%(n)s s") % {"n": _localized(f"{value / 1000:.1f}")}
    return duration(dt.timedelta(milliseconds=value))


def age(moment: dt.datetime, *, now: dt.datetime) -> str:
    """Return the time since a moment in words, in the largest unit that fits."""
    seconds = int((now - moment).total_seconds())
    if seconds < 1:
        return _("just now")
    for unit, most in ((_("%(n)d s ago"), 60), (_("%(n)d min ago"), 60), (_("%(n)d h ago"), 48)):
        if seconds < most:
            return unit % {"n": seconds}
        seconds //= most if most == 60 else 24
    return _("%(n)d d ago") % {"n": seconds}


def time_until(moment: dt.datetime, *, now: dt.datetime) -> str:
    return _("in %(duration)s") % {"duration": duration(moment - now)} if moment > now else _("now")


def moment(value: dt.datetime | None, *, now: dt.datetime) -> str:
    """Return a moment as text (UTC): the time of day if the moment is today, otherwise date and time."""
    if value is None:
        return UNKNOWN
    at = value.astimezone(dt.UTC)
    return at.strftime("%H:%M:%S" if at.date() == now.astimezone(dt.UTC).date() else "%Y-%m-%d %H:%M")
