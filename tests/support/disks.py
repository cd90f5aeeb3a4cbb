"""Small disks of a test: full, read-only, and usable again."""

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(directory, *, mebibytes):
    """Mount a disk of this size. Where mounts are not permitted, the test is skipped, or fails on a build machine."""
    directory.mkdir()
    size = ("-o", f"size={mebibytes}m")
    mounted = subprocess.run(["mount", "-t", "tmpfs", *size, "crawlctl", directory], capture_output=True, check=False)
    if mounted.returncode:
        if os.environ.get("CI"):
            pytest.fail(f"this machine allows no mounts: {mounted.stderr.decode()}")
        pytest.skip("this machine allows no mounts")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


def fill(directory):
    """Write a file until its disk is full. Return a function that makes room again."""
    file = directory / "filling"
    with file.open("wb", buffering=0) as filling:
        try:
            while True:
                filling.write(bytes(1 << 16))
        except OSError:
            return file.unlink


def make_read_only(directory):
    """Make a mounted disk read-only for each file that is opened from now on. Return a function that undoes it."""
    before = _mounts_at(directory)

    def undo():
        if _mounts_at(directory) > before:
            subprocess.run(["umount", "--lazy", directory], check=True)

    # The command fails if a writer opens a file between its two steps.
    while subprocess.run(["mount", "-o", "bind,ro", directory, directory], capture_output=True, check=False).returncode:
        undo()
    return undo


def _mounts_at(directory):
    return sum(line.split()[4] == str(directory) for line in Path("/proc/self/mountinfo").read_text().splitlines())
