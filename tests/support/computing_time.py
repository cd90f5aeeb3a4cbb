"""
A plugin that shows how many seconds of processor time each test and each file of tests uses:

    python -m pytest -n0 -p tests.support.computing_time tests/integration

It counts the process of the tests, all processes below it, and the embedded PostgreSQL server of the directory of data.
Time that a test only waits is not counted, so other work on the machine does not change the figures much.
`--computing-time FILE` writes one line for each test to a file.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")
# Numbers of files and of tests in the summary.
_SHOWN = 40


class _Spent(NamedTuple):
    """Processor seconds of the tests and their processes, processor seconds of the server, and elapsed seconds."""

    tests: float
    server: float
    passed: float

    def since(self, before: "_Spent") -> "_Spent":
        return _Spent(*(late - early for late, early in zip(self, before, strict=True)))


_tests: dict[str, _Spent] = {}


def _spent() -> _Spent:
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    servers: set[int] = set()
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            line = (directory / "stat").read_text()
            is_server = "(postgres)" in line and _works_for_tests(directory)
        except OSError:
            continue
        pid, fields = int(directory.name), line[line.rindex(")") + 2 :].split()
        parents[pid] = int(fields[1])
        # User and system time of the process, and of its children that have ended.
        seconds[pid] = sum(map(int, fields[11:15])) / _TICKS
        if is_server:
            servers.add(pid)
    ours = {pid for pid in parents if _is_below(pid, os.getpid(), parents)} - servers
    return _Spent(sum(seconds[pid] for pid in ours), sum(seconds[pid] for pid in servers), time.monotonic())


def _works_for_tests(process: Path) -> bool:
    from django.conf import settings

    return (process / "cwd").readlink().is_relative_to(settings.VAR_DIR)


def _is_below(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid not in {0, 1, root}:
        pid = parents.get(pid, 0)
    return pid == root


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--computing-time", type=Path, metavar="FILE", help="file that gets one line for each test")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = _spent()
    try:
        return (yield)
    finally:
        _tests[item.nodeid] = spent = _spent().since(before)
        if path := item.config.getoption("--computing-time"):
            with path.open("a") as lines:
                lines.write(f"{spent.tests:.2f} {spent.server:.2f} {spent.passed:.2f} {item.nodeid}\n")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Show the most expensive files and tests."""
    tests, server = Counter[str](), Counter[str]()
    for name, spent in _tests.items():
        for key in (name, name.split("::")[0]):
            tests[key] += spent.tests
            server[key] += spent.server
    terminalreporter.section("seconds of processor time: tests, PostgreSQL")
    for names in ({name.split("::")[0] for name in _tests}, set(_tests)):
        for name in sorted(names, key=lambda name: -tests[name] - server[name])[:_SHOWN]:
            terminalreporter.line(f"{tests[name]:8.1f} {server[name]:8.1f}  {name}")
        terminalreporter.line("")
    spent = sum(spent.tests for spent in _tests.values()), sum(spent.server for spent in _tests.values())
    terminalreporter.line(f"{spent[0]:8.1f} {spent[1]:8.1f}  all {len(_tests)} tests")
