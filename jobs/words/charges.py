"""The waiting time by cause as rows of a page: a bar for each cause."""

from collections.abc import Mapping

from jobs.verdicts.causes import Cause, Verdict
from jobs.words import verdicts
from nodes.web import formats


def rows(charges: Mapping[Cause, float]) -> list[dict[str, str]]:
    """Return a row for each cause, with its share of the waiting time."""
    whole = sum(charges.values())
    return [
        {
            "key": str(cause),
            "cause": verdicts.cause_in_brief(cause),
            "tone": verdicts.tone(Verdict(cause)),
            "charged": formats.share(round(seconds), round(whole)),
            "seconds": formats.number(round(seconds)),
            "done_amount": f"{seconds:.1f}",
            "total_amount": f"{whole:.1f}",
        }
        for cause, seconds in charges.items()
        if round(seconds)
    ]
