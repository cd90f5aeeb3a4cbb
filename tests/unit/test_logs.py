"""Proves that log lines carry the facts of their work, and that daemons in JSON mode write only JSON."""

import contextvars
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from crawlctl.logs.json_lines import JsonLines
from nodes.life import log_facts
from tests.support.tables import each_row

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import asyncio, logging, os, warnings
from crawlctl.logs import configuration as logs
from nodes.life.log_facts import set_document, set_node
logs.configure(level="INFO", as_json=True)
set_node(name="w1", node_id="7")
async def process(url):
    set_document(job=3, identifier=url)
    await asyncio.sleep(0)
    logging.getLogger("x").warning("slow\\n%s", "answer")
async def both():
    await asyncio.gather(process("https://a.example/1"), process("csv:parts"))
asyncio.run(both())
logging.getLogger("x").info("started", extra={"job": 5, "run": 2})
warnings.warn("old", stacklevel=1)
raise ValueError("two\\nlines")
"""


@pytest.fixture(scope="module")
def lines():
    """Return the lines of a process that ends with an unexpected error."""
    process = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    return [json.loads(line) for line in process.stderr.splitlines()]


def test_a_line_names_its_node_job_document_and_host(lines):
    assert {(one["node"], one["node_id"]) for one in lines} == {("w1", "7")}
    of_web, of_rows, of_run = lines[:3]
    assert (of_web["job"], of_web["document"], of_web["host"]) == (3, "https://a.example/1", "a.example")
    assert (of_rows["document"], "host" in of_rows) == ("csv:parts", False)
    assert (of_run["job"], of_run["run"], "document" in of_run) == (5, 2, False)


def test_a_line_break_in_a_message_makes_no_line(lines):
    assert lines[0]["event"] == "slow\\nanswer"


def test_warnings_and_unexpected_errors_are_lines_of_json(lines):
    assert "UserWarning: old" in lines[3]["event"]
    assert lines[4]["level"] == "critical"
    assert "ValueError: two\nlines" in lines[4]["exception"]


def test_log_lines_of_a_document_lack_facts_of_the_previous_document():
    contextvars.copy_context().run(log_facts.set_document, job=1, identifier="https://a.example/")

    assert "document" not in log_facts.known_facts()


def test_every_line_that_is_written_becomes_json_and_json_stays_as_it_is():
    written = io.StringIO()
    stream = JsonLines(written, level="warning")

    stream.write("worker-1 ended")
    stream.write(" with exit code 1\n\n{broken\n")
    stream.write('{"event": "mine"}\n')

    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [one["event"] for one in lines] == ["worker-1 ended with exit code 1", "{broken", "mine"]
    assert lines[0]["level"] == "warning"
    assert lines[2] == {"event": "mine"}


@each_row("arguments", [["run", "--workers", "0"], ["serve", "--nonsense"]])
def test_a_refusal_of_a_daemon_is_json_in_json_mode(arguments):
    environment = {**os.environ, "CRAWLCTL_LOG_JSON": "true", "CRAWLCTL_TYPO": "1"}
    process = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert process.returncode == 2
    events = [json.loads(line)["event"] for line in (process.stdout + process.stderr).splitlines()]
    assert any("CRAWLCTL_TYPO is an unknown setting" in event for event in events)
    assert len(events) >= 2
