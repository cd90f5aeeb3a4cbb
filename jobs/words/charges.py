"""The texts about the waiting time by cause: a bar with a part for each cause, and a row for each cause."""

from collections.abc import Mapping
from typing import Final

from django.urls import reverse

from jobs.verdicts.causes import Cause, Verdict, is_of_job
from jobs.words import verdicts
from nodes.web import formats

# Width of the bar in units of SVG, the largest number of its parts, and the space between two parts.
_BAR: Final = 1000.0
_PARTS: Final = 6
_SPACE: Final = 3.0


def cells(charges: Mapping[Cause, float]) -> dict[str, object]:
    """
    Return the cells of a page: the rows, and the parts of the bar in the same order. If there are too many causes, the
    last part stands for all others.
    """
    found = rows(charges)
    amounts = [(row["tone"], float(row["done_amount"])) for row in found]
    if len(amounts) > _PARTS:
        amounts = [*amounts[: _PARTS - 1], ("quiet", sum(amount for _tone, amount in amounts[_PARTS - 1 :]))]
    amounts += [("quiet", 0.0)] * (_PARTS - len(amounts))
    whole = sum(amount for _tone, amount in amounts)
    bar: dict[str, object] = {}
    at = 0.0
    for number, (tone, amount) in enumerate(amounts, start=1):
        width = _BAR * amount / whole if whole else 0.0
        bar[f"charge_{number}_tone"] = tone
        bar[f"charge_{number}_at"] = f"{at:.1f}"
        bar[f"charge_{number}_width"] = f"{max(0.0, width - _SPACE):.1f}"
        at += width
    return {"charges": found, **bar}


def rows(charges: Mapping[Cause, float]) -> list[dict[str, str]]:
    """
    Return a row for each cause, with its share of the waiting time, and the address of the page where the cause can be
    changed.
    """
    whole = sum(charges.values())
    return [
        {
            "key": str(cause),
            "cause": verdicts.cause_in_brief(cause),
            "address": _address(cause),
            "tone": verdicts.tone(Verdict(cause)),
            "charged": formats.share(round(seconds), round(whole)),
            "seconds": formats.number(round(seconds)),
            "done_amount": f"{seconds:.1f}",
            "total_amount": f"{whole:.1f}",
        }
        for cause, seconds in charges.items()
        if round(seconds)
    ]


def _address(cause: Cause) -> str:
    """
    Return the address of the page where an operator can change a cause: the list of hosts, jobs, schedules or nodes.
    """
    match cause:
        case Cause.BACK_OFF | Cause.TRIAL:
            return f"{reverse('hosts')}?state=backing_off"
        case Cause.STOPPED:
            return f"{reverse('hosts')}?state=stopped"
        case Cause.DENIED | Cause.CLOSED:
            return reverse("hosts-denied")
        case Cause.WINDOW:
            return reverse("schedules")
        case Cause.NO_MANAGER | Cause.NO_WORKER | Cause.NO_TAG | Cause.WORKERS | Cause.DISK:
            return reverse("nodes")
        case _ if is_of_job(cause):
            return f"{reverse('jobs')}?phase=running"
        case _:
            return reverse("hosts")
