"""
`make simulate`: random histories of a cluster, and of partitions, without processes and without a database.

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
from tests.simulation.partitions import PARTITION_RULES, PartitionRules, replay_partitions, run_partitions
from tests.simulation.rules import NAMES, Rules

_TAKEOVERS = 200


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--histories", type=int, default=2000, help="how many (%(default)s)")
    parser.add_argument("--first", type=int, help="the seed of the first; others follow (a random one each time)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="print this one history instead")
    parser.add_argument("--replay-partitions", type=int, metavar="SEED", help="print this one of partitions instead")
    every = (*NAMES, *PARTITION_RULES)
    parser.add_argument("--without", choices=every, metavar="RULE", help=f"switch a rule off: {', '.join(every)}")
    options = parser.parse_args(arguments)
    rules = Rules().without(options.without) if options.without in NAMES else Rules()
    of_partitions = PartitionRules()
    if options.without in PARTITION_RULES:
        of_partitions = of_partitions.without(options.without)
    if options.replay_partitions is not None:
        said = replay_partitions(options.replay_partitions, rules=of_partitions)
        sys.stdout.write(said)
        return int("VIOLATION" in said)
    if options.replay is not None:
        history = replay(options.replay, rules=rules)
        sys.stdout.write(history.text)
        return 1 if history.violation else 0
    first = secrets.randbelow(10**9) if options.first is None else options.first
    began_at = time.process_time()
    summary = run_histories(range(first, first + options.histories), rules=rules)
    partitions = run_partitions(range(first, first + options.histories), rules=of_partitions)
    failed = summary.failed or partitions.failed
    if failed is not None:
        sys.stdout.write(failed)
    for name, value in {**summary.figures(), **partitions.figures()}.items():
        sys.stdout.write(f"{name}: {value}\n")
    beats = sorted(takeover(seed) for seed in range(first, first + _TAKEOVERS))
    sys.stdout.write(
        "takeover where nothing else is wrong, in beats after the timeout of the main manager:"
        f" median {statistics.median(beats):.1f}, max {beats[-1]:.1f}\n"
    )
    sys.stdout.write(f"seconds of CPU: {time.process_time() - began_at:.1f}\n")
    return int((failed is None) == (options.without is not None))


if __name__ == "__main__":
    sys.exit(main())
