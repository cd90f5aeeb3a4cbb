"""
Compares schedules of looks on simulated pages: `python -m tests.benchmarks.freshness`.

Pages have known change rates, hosts have a limit, and time is virtual (`tests/support/changing_pages.py`). The report
shows the freshness that each schedule reaches with the same limits, and the best possible freshness. The exit code is
non-zero if freshness goals reach less than 90 % of the best possible freshness, or less than a schedule without goals.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Final

from tests.support.changing_pages import HOUR, Best, Fixed, Nutch, Ours, Site, freshness, skewed_site

_LEAST: Final = 0.9
# Largest difference of freshness that does not count: with enough looks, several schedules are perfect.
_NOTHING: Final = 0.001
_LOOKS: Final = (0.25, 1.0, 4.0)
_WITHIN: Final = (0.0, HOUR, 6 * HOUR)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="freshness", description="Compare schedules of looks on simulated pages.")
    parser.add_argument("--pages", type=int, default=600, help="pages on four hosts (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random numbers (%(default)s)")
    options = parser.parse_args(arguments)
    schedules = (Best, Ours, Fixed, Nutch)
    sys.stdout.write("looks a day and page, fresh within | " + " | ".join(one.name for one in schedules) + "\n")
    worst = 0
    for looks in _LOOKS:
        for within in _WITHIN:
            site = skewed_site(
                pages=options.pages, hosts=4, looks_per_page_and_day=looks, within=within, seed=options.seed
            )
            began = time.process_time()
            best, ours, *others = (_freshness(site, kind(site), looks=looks, seed=options.seed) for kind in schedules)
            figures = " | ".join(f"{100 * share:5.1f} %" for share in (best, ours, *others))
            sys.stdout.write(
                f"{looks:5.2f}, {within / HOUR:3.0f} h | {figures} | {100 * ours / best:5.1f} % of the best, "
                f"{time.process_time() - began:.1f} s\n"
            )
            sys.stdout.flush()
            worst = max(worst, int(ours < _LEAST * best or ours < max(others) - _NOTHING))
    return worst


def _freshness(site: Site, schedule: Best | Ours | Fixed | Nutch, *, looks: float, seed: int) -> float:
    """Return the freshness of a schedule between its 10th and its 30th look at the average page."""
    return freshness(site, schedule, days=30 / looks, warm_up=10 / looks, seed=seed)


if __name__ == "__main__":
    sys.exit(main())
