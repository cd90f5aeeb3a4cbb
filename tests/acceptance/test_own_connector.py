"""Proves that the connector of docs/writing-a-connector.md works in a crawl exactly as printed there."""

import os
import re
from pathlib import Path

import pytest

from tests.support.processes import held_by

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "writing-a-connector.md"


@pytest.fixture
def crawl(machine, tmp_path):
    """Crawl with the connector of the guide and the CSV file of its example."""
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (tmp_path / "csv_rows.py").write_text(code)
    (tmp_path / "parts.csv").write_text("A-17,bolt,steel\nB-2,nut,brass\nC-3,screw,steel\n")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))

    def crawl(*arguments):
        command = machine.start("crawl", *arguments, CRAWLCTL_CONNECTORS="csv_rows:KIND", PYTHONPATH=path)
        return command.wait(), command.err

    return crawl


def test_the_connector_of_the_guide_has_at_most_60_lines_of_code():
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)

    assert len([line for line in code.splitlines() if line]) <= 60


def test_the_connector_of_the_guide_works_in_repeated_runs(crawl, machine, tmp_path):
    source, output = ("--field", f"directory={tmp_path}"), tmp_path / "parts.jsonl"
    again = ("--job", "parts", "--workers", 1, "--output", f"jsonl:{output}")

    assert crawl("csv:parts.csv", *source, *again) == (0, "")
    assert held_by(output) == {"csv:parts.csv#A-17", "csv:parts.csv#B-2", "csv:parts.csv#C-3"}

    (tmp_path / "parts.csv").write_text("A-17,bolt,brass\nB-2,nut,brass\n")
    assert crawl("--job", "parts", "--workers", 1)[0] == 0
    assert held_by(output) == {"csv:parts.csv#A-17", "csv:parts.csv#B-2"}
    assert machine.database.documents() == {(2, "ROWS"): 1, (2, "OK"): 1, (2, "OK_UNCHANGED"): 1}

    assert crawl("--job", "parts", "--workers", 1, "--field", "upto=1")[0] == 0
    assert held_by(output) == {"csv:parts.csv#A-17"}


def test_invalid_fields_of_a_custom_connector_are_refused_with_a_reason(crawl, machine, tmp_path):
    directory = ("--field", f"directory={tmp_path}")
    refused = {
        "csv:parts.csv": ["csv:parts.csv"],
        "upto: must be a whole number": ["csv:parts.csv", *directory, "--field", "upto=many"],
        "Known fields: directory, upto": ["csv:parts.csv", *directory, "--field", "colour=red"],
        "no repository connector 'cvs'": ["csv:parts.csv", "--connector", "cvs"],
    }

    for words, arguments in refused.items():
        code, output = crawl(*arguments)
        assert code == 2, output
        assert "Traceback" not in output
        assert words in output or "directory: missing" in output
    assert machine.database.value("SELECT count(*) FROM jobs_job") == 0
