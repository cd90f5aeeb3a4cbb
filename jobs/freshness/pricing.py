"""
The pricing of a host: from samples of the documents in its lanes, the plan of each lane. Arithmetic, no I/O.

A lane's plan has the price of each goal, and the prior of each of its most frequent templates. Documents without a goal
are not part of the plan.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from jobs.freshness.looks import Looks, fresh_now, looks
from jobs.freshness.plans import Demand, plan, smoothed
from jobs.freshness.rates import UNKNOWN, Chances, Evidence, chances, prior_of
from jobs.freshness.templates import template_of

# Interval between looks before a host is priced, because nothing is known about its documents yet (seconds).
BEFORE_PRICES: Final = 300.0
# Longest interval of a job without a bound (seconds).
LONGEST: Final = 30 * 86_400.0
# If a host allows more looks than its goals need, new documents get additional looks, which show how often they change.
# The second look comes at most this number of seconds after the first one. Each later interval is at most the last
# interval times the factor.
_FIRST: Final = 900.0
_GROWTH: Final = 4.0
# Share of the requests of a host that these additional looks at new documents may take.
_LEARNING: Final = 0.5
# Largest number of templates of a lane with their own prior, and least number of documents of such a template in a
# sample.
_TEMPLATES: Final = 8
_LEAST_DOCUMENTS: Final = 5
# Name of the prior of all other documents.
ALL: Final = ""
# Number of digits of a stored chance.
_DIGITS: Final = 5


class GoalTerms(NamedTuple):
    """The terms of a goal: a `share` (from 0 to 1) of its documents must be fresh `within` these seconds."""

    share: float
    within: float


class Seen(NamedTuple):
    """A document of a sample: the number of its goal, its evidence, and the seconds since its last look."""

    goal: int
    identifier: str
    evidence: Evidence
    age: float


@dataclass(frozen=True, slots=True)
class GoalState:
    """
    A goal in one lane. `fresh` is the likely share of its documents that are fresh now, and `expected` the share that
    its looks lead to.

    The goal needs `needs` looks per second, and gets `gets` of them. `first` is the longest interval after the first
    look at a document; 0 if the host has no looks to spare.
    """

    price: float
    documents: float
    fresh: float
    expected: float
    needs: float
    gets: float
    first: float = 0.0

    def as_json(self) -> list[float]:
        return [self.price, self.documents, self.fresh, self.expected, self.needs, self.gets, self.first]


@dataclass(frozen=True, slots=True)
class LanePlan:
    """The plan of a lane: its goals in the order of the goals of the job, and the priors of its templates."""

    goals: Sequence[GoalState] = ()
    priors: Mapping[str, Chances] = field(default_factory=dict)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "LanePlan":
        return cls(
            [GoalState(*one) for one in stored.get("goals", ())],
            {template: tuple(prior) for template, prior in stored.get("priors", {}).items()},
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "goals": [one.as_json() for one in self.goals],
            "priors": {template: [round(one, _DIGITS) for one in prior] for template, prior in self.priors.items()},
        }

    def chances(self, identifier: str, evidence: Evidence) -> Chances:
        """Return the chance of each change rate of a document."""
        prior = self.priors.get(template_of(identifier)) or self.priors.get(ALL, UNKNOWN)
        return chances(evidence, prior)

    def interval(self, goal: int, identifier: str, evidence: Evidence, table: Looks, *, since: float = 0.0) -> float:
        """
        Return the seconds until the next look at a document of a goal. `since` are the seconds between its last two
        looks.
        """
        if goal >= len(self.goals):
            return min(max(table.intervals[0], BEFORE_PRICES), table.intervals[-1])
        interval = table.best_interval(self.chances(identifier, evidence), self.goals[goal].price)
        first = self.goals[goal].first
        return min(interval, max(first, _GROWTH * since)) if first else interval


@dataclass(frozen=True, slots=True)
class LaneSample:
    """
    A sample of a lane's documents. Each document in the sample represents `weight` documents. `before` is the last plan
    of the lane under the same goals.
    """

    terms: Sequence[GoalTerms]
    longest: float
    seen: Sequence[Seen]
    weight: float = 1.0
    before: LanePlan = LanePlan()


def price_host(lanes: Sequence[LaneSample], *, allows: float | None) -> list[LanePlan]:
    """
    Return the plan of each of these lanes of a host, in the order of `lanes`. The host `allows` these requests per
    second (None: any number).
    """
    demands: list[Demand] = []
    priors = [_priors(lane) for lane in lanes]
    known = [
        [(seen, LanePlan(priors=prior).chances(seen.identifier, seen.evidence)) for seen in lane.seen]
        for lane, prior in zip(lanes, priors, strict=True)
    ]
    for lane, documents in zip(lanes, known, strict=True):
        for number, terms in enumerate(lane.terms):
            sample = [likely for seen, likely in documents if seen.goal == number]
            demands.append(Demand(terms.share, looks(terms.within, lane.longest), sample, lane.weight))
    planned = plan(demands, allows=allows)
    first = _first_interval(demands, needs=sum(promise.needs for promise in planned), allows=allows)
    promises = iter(zip(demands, planned, strict=True))
    plans = []
    for lane, documents, prior in zip(lanes, known, priors, strict=True):
        goals = []
        for number, terms in enumerate(lane.terms):
            demand, promise = next(promises)
            now = [
                fresh_now(likely, age=seen.age, within=terms.within)
                for seen, likely in documents
                if seen.goal == number
            ]
            before = lane.before.goals[number].price if number < len(lane.before.goals) else None
            goals.append(
                GoalState(
                    price=smoothed(before, promise.price),
                    documents=demand.documents,
                    fresh=sum(now) / len(now) if now else 1.0,
                    expected=promise.fresh,
                    needs=promise.needs,
                    gets=promise.gets,
                    first=max(first, terms.within) if first else 0.0,
                )
            )
        plans.append(LanePlan(goals, prior))
    return plans


def _first_interval(demands: Sequence[Demand], *, needs: float, allows: float | None) -> float:
    """Return the longest interval after the first look at a document; 0 if the host has no looks to spare."""
    if allows is None:
        return _FIRST
    spare = allows * _LEARNING
    return max(_FIRST, sum(demand.documents for demand in demands) / spare) if needs < spare else 0.0


def _priors(lane: LaneSample) -> dict[str, Chances]:
    """Return the priors of a lane: of its most frequent templates, and of all its documents."""
    by_template: dict[str, list[Evidence]] = defaultdict(list)
    for seen in lane.seen:
        by_template[template_of(seen.identifier)].append(seen.evidence)
    frequent = Counter({template: len(some) for template, some in by_template.items()}).most_common(_TEMPLATES)
    before = lane.before.priors
    of_all = prior_of([seen.evidence for seen in lane.seen], before.get(ALL, UNKNOWN))
    return {ALL: of_all} | {
        template: prior_of(by_template[template], before.get(template, of_all))
        for template, amount in frequent
        if amount >= _LEAST_DOCUMENTS
    }
