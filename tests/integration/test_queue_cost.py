"""
Proves that a step touches as many database buffers in a long queue as in a short one. The test is a small benchmark.
"""

import subprocess
import sys

import pytest

from tests.benchmarks.databases import ROOT


@pytest.mark.debian("postgresql")
def test_a_hundred_documents_touch_no_more_buffers_in_a_longer_queue():
    sizes = ["--few", "20000", "--many", "60000", "--rounds", "3", "--untimed"]
    shapes = ["--only", "waiting,bins"]

    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.queue_cost", *sizes, *shapes],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
