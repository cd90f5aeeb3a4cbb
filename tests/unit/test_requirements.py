"""Proves that every promise marked as held in docs/requirements.md names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "docs" / "requirements.md"

_ROW = re.compile(
    r"^\| (?P<point>(?:[AE]\d+\.|T)?\d[\d.]*) \| (?P<holds>.+) \| (?P<status>[a-z ]+) \| (?P<proof>.*) \|$"
)


def rows():
    """Return each row as (point, status, ids of tests, records)."""
    for line in REQUIREMENTS.read_text().splitlines():
        if line.startswith("| ") and not line.startswith("| point"):
            row = _ROW.match(line)
            assert row, line
            proof = row["proof"]
            yield row["point"], row["status"], re.findall(r"`([^`]+)`", proof), re.findall(r"\]\(([^)]+)\)", proof)


@cache
def names_in(path):
    """Return the names of a file's tests, both functions and state machines."""
    tree = ast.parse((ROOT / path).read_text())
    named = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    made = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return {name for name in named | made if name.lower().startswith("test")}


def is_benchmark(proof):
    return proof.startswith("tests/benchmarks/")


def test_every_named_test_and_benchmark_exists():
    for point, _, tests, _ in rows():
        for test in tests:
            path, _, name = test.partition("::")
            assert (ROOT / path).is_file(), f"{point}: {test}"
            assert is_benchmark(test) or name in names_in(path), f"{point}: {test}"


def test_every_named_decision_record_exists():
    for point, _, _, records in rows():
        for record in records:
            assert (REQUIREMENTS.parent / record).is_file(), f"{point}: {record}"
            assert record.startswith("decisions/"), f"{point}: {record}"


def test_a_requirement_has_the_proof_that_its_status_needs():
    for point, status, tests, records in rows():
        assert status in {"held", "measured", "open", "by design"}, point
        assert status != "held" or not all(map(is_benchmark, tests)), f"{point} is held by no test"
        assert status != "measured" or any(map(is_benchmark, tests)), f"{point} is measured by no benchmark"
        assert records or status != "by design", f"{point} differs without a record"


def test_each_point_occurs_only_once():
    points = [point for point, *_ in rows()]

    assert len(points) > 100
    assert len(set(points)) == len(points)
