"""Metrics of the authority service: questions, answers and times by connection."""

from typing import Final

from nodes.metrics.kinds import Counter, Histogram, Metric, Process

_SHOWN_BY: Final = frozenset({Process.WEB, Process.AUTHORITY})
_SECONDS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

REQUESTS: Final = Counter(
    name="crawlctl_authority_requests_total",
    meaning="Requests for the access tokens of users.",
    shown_by=_SHOWN_BY,
)
ANSWERS: Final = Counter(
    name="crawlctl_authority_answers_total",
    labels=("connection", "answer"),
    meaning="Answers of authorities by connection, cached ones included: authorized, user not found, unauthorized, unreachable.",
    shown_by=_SHOWN_BY,
)
KEPT: Final = Counter(
    name="crawlctl_authority_kept_answers_total",
    labels=("connection",),
    meaning="Answers that were in the cache of the process.",
    shown_by=_SHOWN_BY,
)
UNREACHABLE: Final = Counter(
    name="crawlctl_authority_unreachable_total",
    labels=("connection",),
    meaning="Questions to the system of an authority or of a mapper that were not answered.",
    shown_by=_SHOWN_BY,
)
SECONDS: Final = Histogram(
    name="crawlctl_authority_answer_seconds",
    labels=("connection",),
    meaning="Times until the answer of an authority, with its mappers, without cached answers.",
    bounds=_SECONDS,
    shown_by=_SHOWN_BY,
)
METRICS: Final[tuple[Metric, ...]] = (REQUESTS, ANSWERS, KEPT, UNREACHABLE, SECONDS)


def observe(connection: str, answer: str, *, seconds: float, is_kept: bool) -> None:
    """Count an answer of an authority. An answer from the cache (`is_kept`) has no time."""
    ANSWERS.add(1, connection, answer)
    if is_kept:
        KEPT.add(1, connection)
    else:
        SECONDS.observe(seconds, connection)
