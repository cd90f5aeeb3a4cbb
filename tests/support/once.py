"""Directories for all processes of a test session. The first process that needs one makes it, and tests copy it."""

import fcntl
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

# The directory of this test session. Programs outside of pytest have none.
_shared: list[Path] = []


def share(directory: Path) -> None:
    """Use this directory, which is the same for all processes of the session."""
    _shared[:] = [directory]


def is_shared() -> bool:
    return bool(_shared)


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """Return the directory of this name. The first caller of the session fills it by `make`, and others wait."""
    (shared,) = _shared
    made = shared / name
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            unfinished = shared / f"{name}.unfinished"
            # An earlier caller may have failed.
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(made)
    return made


def copy(source: Path, target: Path) -> None:
    """Copy a directory to a path that does not exist yet, with the owners of its files."""
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", "--reflink=auto", source, target], check=True)
