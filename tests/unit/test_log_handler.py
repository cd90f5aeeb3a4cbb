"""Proves that a log that cannot be written is reported on standard output, and later in the log itself."""

import logging
from contextlib import suppress
from pathlib import Path

import pytest

from crawlctl.logs.handler import LogHandler, why_unwritable


@pytest.fixture
def full():
    """Yield a device that is always full."""
    stream = Path("/dev/full").open("w", buffering=1)  # noqa: SIM115 (closing it writes, and fails)
    yield stream
    with suppress(OSError):
        stream.close()


def record(message):
    return logging.makeLogRecord({"msg": message, "levelno": logging.INFO, "levelname": "INFO"})


def test_standard_output_says_that_the_log_cannot_be_written_and_why(full, capsys):
    LogHandler(full).handle(record("a line"))

    assert capsys.readouterr().out.startswith(
        "The log (standard error) cannot be written: No space left on device. Make room"
    )


def test_a_log_that_can_be_written_again_reports_missing_lines(full, tmp_path, capsys):
    handler = LogHandler(full)
    handler.handle(record("a lost line"))
    with (tmp_path / "log").open("w") as log:
        handler.stream = log

        handler.handle(record("the next line"))

    first, second = (tmp_path / "log").read_text().splitlines()
    assert first.startswith("the log could not be written since ")
    assert "No space left on device" in first
    assert second == "the next line"


def test_an_outage_is_logged_once(full, capsys):
    handler = LogHandler(full)

    for number in range(3):
        handler.handle(record(f"line {number}"))

    assert capsys.readouterr().out.count("cannot be written") == 1


def test_a_file_on_a_full_disk_is_reported_before_a_line_is_lost(tmp_path):
    with (tmp_path / "log").open("w") as log:
        assert why_unwritable(log.fileno(), least=10**18) == "its disk is full"
        assert why_unwritable(log.fileno(), least=1) == ""
