"""
Proves that the watcher of the chaos test records stalls: times in which the machine did not run the watcher.
"""

import signal
import time

from tests.chaos.stalls import read_stalls, watched
from tests.support.waiting import wait_until


def test_a_watcher_records_how_long_it_could_not_run(tmp_path):
    path = tmp_path / "stalls"

    def is_noted_when_it_stands_still():
        watcher.send_signal(signal.SIGSTOP)
        began_at = time.monotonic()
        time.sleep(0.1)
        ended_at = time.monotonic()
        watcher.send_signal(signal.SIGCONT)
        time.sleep(0.02)
        return any(stall.since <= began_at + 0.05 and stall.until >= ended_at for stall in read_stalls(path))

    with watched(path) as watcher:
        wait_until(is_noted_when_it_stands_still)


def test_time_without_a_watcher_does_not_count_as_a_stall(tmp_path):
    assert read_stalls(tmp_path / "stalls") == []
