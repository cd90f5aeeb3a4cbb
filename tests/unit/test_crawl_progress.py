"""Proves that a crawl without a terminal prints its progress every half minute."""

from jobs.loops.oneshot import Progress
from jobs.management.progress import Bar
from jobs.queue.counting.counters import RunCounts


def test_without_a_terminal_progress_is_a_line_every_half_minute(capsys):
    lines = []

    with Bar(write_line=lines.append) as bar:
        for second in range(61):
            bar.show(Progress(RunCounts(pending=30, indexed=2 * second, failed=0), seconds=float(second)))

    assert lines == [
        "After 30 s: 60 done, 30 waiting, 0 failed, 2/s, 15 s left",
        "After 60 s: 120 done, 30 waiting, 0 failed, 2/s, 15 s left",
    ]
    assert capsys.readouterr() == ("", "")
