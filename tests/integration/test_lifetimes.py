"""Proves that processes started by tests end when pytest ends."""

import subprocess
import sys

import psutil

from tests.support.processes import ROOT

STARTS_A_SITE = """
import pathlib, sys, time
from tests.support.processes import serve_site
with serve_site(pathlib.Path(sys.argv[1]), pages=3) as site:
    print(site.pid, flush=True)
    time.sleep(600)
"""


def test_a_process_of_a_test_ends_when_pytest_is_killed(tmp_path):
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTS_A_SITE, str(tmp_path / "log")], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    started = psutil.Process(int(starter.stdout.readline()))

    starter.kill()
    starter.wait()
    starter.stdout.close()

    started.wait(timeout=30)
