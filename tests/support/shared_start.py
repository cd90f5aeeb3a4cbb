"""
The work of a first start, which the processes of pytest-xdist share.

In a fresh clone no test has stored bytecode, and Hypothesis has not read the constants of our modules. The processes
start at one moment, so without this module each of them would do all of this, which takes 20 seconds of processor time.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final, TypeVar

import pytest
from _pytest.assertion import rewrite
from hypothesis.internal.constants_ast import constants_from_module

_T = TypeVar("_T")

_ROOT: Final = Path(__file__).resolve().parents[2]
_PACKAGES: Final = ("crawlctl", "jobs", "nodes")


def prepare_share(config: pytest.Config, *, number: int, processes: int) -> None:
    """Do the part of process `number` of the work. Later, pytest does each part that another process has not finished."""
    rewrite_tests(config, _share(sorted((_ROOT / "tests").rglob("test_*.py")), number, processes))
    for package in _PACKAGES:
        read_constants(_share(sorted((_ROOT / package).rglob("*.py")), number, processes))


def rewrite_tests(config: pytest.Config, files: Iterable[Path]) -> None:
    """Store the bytecode of these tests with rewritten assertions, as pytest does when it imports them."""
    for file in files:
        directory = rewrite.get_cache_dir(file)
        stored = directory / f"{file.stem}{rewrite.PYC_TAIL}"
        if rewrite._read_pyc(file, stored) is None and rewrite.try_makedirs(directory):
            version, code = rewrite._rewrite_test(file, config)
            rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, version, stored)


def read_constants(files: Iterable[Path]) -> None:
    """Store the constants of these modules, from which Hypothesis draws some of its examples."""
    for file in files:
        module = ModuleType(file.stem)
        module.__file__ = str(file)
        constants_from_module(module)


def _share(files: Sequence[_T], number: int, processes: int) -> Sequence[_T]:
    return files[number::processes]
