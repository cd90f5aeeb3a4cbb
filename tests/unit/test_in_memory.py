"""Proves that `make test` keeps its databases in memory, and removes them at the end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import in_memory

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "import os, sys; print(os.environ.get('CRAWLCTL_VAR')); sys.exit(7)"


def run(**environment):
    """Run a command that prints its data directory and exits with code 7. Return the directory."""
    others = {name: value for name, value in os.environ.items() if name != "CRAWLCTL_VAR"}
    words = [sys.executable, "-m", "tests.support.in_memory", sys.executable, "-c", COMMAND]
    ended = subprocess.run(words, cwd=ROOT, env=others | environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (7, "")
    return ended.stdout.strip()


@pytest.mark.skipif(not in_memory.has_room(), reason="memory is scarce")
def test_the_data_of_a_command_are_in_memory_until_it_ends():
    directory = Path(run())

    assert directory.parent == Path("/dev/shm")
    assert not directory.exists()


def test_a_directory_given_by_the_environment_is_used():
    assert run(CRAWLCTL_VAR="/tmp/elsewhere") == "/tmp/elsewhere"


def test_directories_of_killed_commands_are_removed(tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    left, used, ours = (tmp_path / f"crawlctl-tests-{pid}-x" for pid in (ended.pid, f"{ended.pid}-y", os.getpid()))
    for directory in (left, used, ours):
        (directory / "data").mkdir(parents=True)
    server = subprocess.Popen(["sleep", "60"], cwd=used / "data")

    in_memory.remove_left_behind(tmp_path)

    assert (left.exists(), used.exists(), ours.exists()) == (False, True, True)
    server.kill()
    server.wait()
