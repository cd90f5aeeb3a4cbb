"""
`make simulate`: random histories of a cluster, without processes and without a database.

Each figure is printed on a line. A failed history is printed with the command that replays it. The exit code is 1 if a
history failed, or if `--without RULE` was given and no history failed.
"""

import argparse
import secrets
import statistics
import sys
import time
from collections.abc import Sequence

from tests.simulation.histories import replay, run_histories, takeover
from tests.simulation.rules import NAMES, Rules

_TAKEOVERS = 200


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--histories", type=int, default=2000, help="how many (%(default)s)")
    parser.add_argument("--first", type=int, help="the seed of the first; others follow (a random one each time)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="print this one history instead")
    parser.add_argument("--without", choices=NAMES, metavar="RULE", help=f"switch a rule off: {', '.join(NAMES)}")
    options = parser.parse_args(arguments)
    rules = Rules().without(options.without) if options.without else Rules()
    if options.replay is not None:
        told = replay(options.replay, rules=rules)
        sys.stdout.write(told.text)
        return 1 if told.violation else 0
    first = secrets.randbelow(10**9) if options.first is None else options.first
    began_at = time.process_time()
    summary = run_histories(range(first, first + options.histories), rules=rules)
    if summary.failed is not None:
        sys.stdout.write(summary.failed)
    for name, value in summary.figures().items():
        sys.stdout.write(f"{name}: {value}\n")
    beats = sorted(takeover(seed) for seed in range(first, first + _TAKEOVERS))
    sys.stdout.write(
        "takeover where nothing else is wrong, in beats after the timeout of the main:"
        f" median {statistics.median(beats):.1f}, max {beats[-1]:.1f}\n"
    )
    sys.stdout.write(f"seconds of CPU: {time.process_time() - began_at:.1f}\n")
    return int((summary.failed is None) == (options.without is not None))


if __name__ == "__main__":
    sys.exit(main())
