"""
The change rate of a document, estimated from looks that found it changed or unchanged.

A look shows whether a document changed since the look before, but not how often. So a document that changed at each
look may change at any faster rate, and no single number describes it (Cho and Garcia-Molina, "Estimating frequency of
change", 2003). Here the *evidence* of a document is the logarithm of the likelihood of all its looks, for each of 14
rates. Together with the *prior* of its template it gives the chance of each rate. The prior is the mean of these
chances over a sample of documents, so a new document begins with the rates of its template.

Old looks lose their weight slowly, because the change rate of a page may change.
"""

import math
import struct
from collections.abc import Sequence
from functools import cache
from typing import Final

_DAY: Final = 86_400.0
# Change rates (per second), from once in 2 years to once in 40 seconds. Each is three times the rate before it.
RATES: Final = tuple(3.0**step / (730 * _DAY) for step in range(14))
Evidence = tuple[float, ...]
Chances = tuple[float, ...]
NO_EVIDENCE: Final[Evidence] = (0.0,) * len(RATES)
# The prior of a template without a sample: about once a week, with a wide spread.
_USUAL: Final = 1 / (7 * _DAY)
_DOUBT: Final = 3.0
_WEIGHTS: Final = tuple(math.exp(-((math.log(rate / _USUAL) / _DOUBT) ** 2) / 2) for rate in RATES)
UNKNOWN: Final[Chances] = tuple(weight / sum(_WEIGHTS) for weight in _WEIGHTS)

# Share of the evidence that a look keeps: about the last 200 looks count.
_KEPT: Final = 0.995
# Weight of UNKNOWN in the prior of a sample, as a number of documents; and number of steps in which a prior is
# computed.
_UNKNOWN_COUNTS: Final = 1.0
_STEPS: Final = 4
# Least evidence of a rate, relative to the rate with the most evidence (a difference of logarithms).
_LEAST: Final = -65.0
# Shortest time between two looks that counts (seconds).
_SHORTEST: Final = 1.0
# Factor of stored evidence: a logarithm of 1 is stored as this number.
_UNITS: Final = 1000
_STORED: Final = struct.Struct(f">{len(RATES)}H")


def after_look(evidence: Evidence, seconds: float, *, changed: bool) -> Evidence:
    """Return the evidence after a look that came `seconds` after the last look before it."""
    look = _evidence_of_look(round(math.log(max(seconds, _SHORTEST)) * 32), changed)
    both = [old * _KEPT + new for old, new in zip(evidence, look, strict=True)]
    most = max(both)
    return tuple(max(one - most, _LEAST) for one in both)


@cache
def _evidence_of_look(moment: int, changed: bool) -> Evidence:  # noqa: FBT001 (a key of the cache)
    """
    Return the evidence of one look. `moment` is 32 times the logarithm of the seconds since the last look, as a whole
    number, so that few values are computed.
    """
    seconds = math.exp(moment / 32)
    if not changed:
        return tuple(-rate * seconds for rate in RATES)
    return tuple(math.log(-math.expm1(-rate * seconds)) for rate in RATES)


def chances(evidence: Evidence, prior: Chances) -> Chances:
    """Return the chance of each rate for a document with this evidence, whose template has this prior."""
    some = [math.exp(one) * before for one, before in zip(evidence, prior, strict=True)]
    total = sum(some)
    return tuple(one / total for one in some) if total > 0 else prior


def prior_of(documents: Sequence[Evidence], before: Chances = UNKNOWN) -> Chances:
    """Return the new prior of a template, from the evidence of a sample of its documents and from its last prior."""
    prior = before
    for _ in range(_STEPS):
        sums = [_UNKNOWN_COUNTS * one for one in UNKNOWN]
        for evidence in documents:
            for place, chance in enumerate(chances(evidence, prior)):
                sums[place] += chance
        total = sum(sums)
        prior = tuple(one / total for one in sums)
    return prior


def pack(evidence: Evidence) -> bytes:
    """Return the stored form of evidence: 2 bytes for each rate."""
    return _STORED.pack(*(min(round(-one * _UNITS), 65_535) for one in evidence))


def unpack(stored: bytes | memoryview) -> Evidence:
    """Return stored evidence; an empty one if the stored form is unknown."""
    if len(stored) != _STORED.size:
        return NO_EVIDENCE
    return tuple(-one / _UNITS for one in _STORED.unpack(stored))
