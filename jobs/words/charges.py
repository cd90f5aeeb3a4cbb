"""The waiting time by cause as rows of a page: a bar for each cause."""

from collections.abc import Mapping

from django.urls import reverse

from jobs.verdicts.causes import Cause, Verdict, is_of_job
from jobs.words import verdicts
from nodes.web import formats


def rows(charges: Mapping[Cause, float]) -> list[dict[str, str]]:
    """Return a row for each cause, with its share of the waiting time, and the page where it can be changed."""
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
    """Return the address of the list behind a cause: of hosts, unless it is about jobs, schedules or nodes."""
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
