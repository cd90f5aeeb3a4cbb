"""Proves that the remembered length of a JSON lines file holds while several processes append."""

import datetime as dt
import multiprocessing
from pathlib import Path

import pytest
from django.db import DatabaseError

from jobs.connectors.output.base import Entry
from jobs.connectors.output.jsonl import JsonLinesConfiguration, JsonLinesOutput
from jobs.connectors.output.jsonl_length import LengthMemory

NOON = dt.datetime(2030, 1, 1, 12, tzinfo=dt.UTC)
GONE = Entry(hash="0" * 32, url="http://a.example/", content=None, version="", fetched_at=NOON)


class CursorOfOutput:
    """A stand-in for the cursor of a flush, for an output that has lost no documents."""

    def execute(self, *_):
        return self

    def fetchone(self):
        return ("",)


def output_at(path: Path, *, state: Path, report) -> JsonLinesOutput:
    output = JsonLinesOutput(id=1, configuration=JsonLinesConfiguration(path=str(path)))
    output.remember_in(LengthMemory(state, path=path, output_id=1, report=report))
    return output


def refuse(was: int, is_: int) -> None:
    raise AssertionError((was, is_))


def append_often(path: Path, state: Path) -> None:
    output = output_at(path, state=state, report=refuse)
    for _ in range(300):
        output.remove(CursorOfOutput(), [GONE])
        output.notice_loss(CursorOfOutput())


def test_processes_that_append_to_one_file_report_no_loss(tmp_path):
    path, state = tmp_path / "shared.jsonl", tmp_path / "state" / "1.json"
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=append_often, args=(path, state)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()

    assert [process.exitcode for process in processes] == [0, 0]
    assert len(path.read_bytes().splitlines()) == 600
    assert list(state.parent.iterdir()) == [state]


def test_a_loss_is_reported_once(tmp_path):
    path, reports = tmp_path / "out.jsonl", []
    output = output_at(path, state=tmp_path / "1.json", report=lambda was, is_: reports.append((was, is_)))
    output.remove(CursorOfOutput(), [GONE])
    was = path.stat().st_size
    path.unlink()

    for _ in range(2):
        output.notice_loss(CursorOfOutput())
        output.remove(CursorOfOutput(), [GONE])

    assert reports == [(was, 0)]


def test_a_report_of_a_loss_that_fails_is_repeated(tmp_path):
    path, reports = tmp_path / "out.jsonl", []

    def report(was: int, is_: int) -> None:
        reports.append((was, is_))
        if len(reports) == 1:
            raise DatabaseError

    output = output_at(path, state=tmp_path / "1.json", report=report)
    output.remove(CursorOfOutput(), [GONE])
    path.unlink()

    with pytest.raises(DatabaseError):
        output.remove(CursorOfOutput(), [GONE])
    output.remove(CursorOfOutput(), [GONE])

    assert len(reports) == 2


def test_a_late_report_of_a_shorter_file_does_not_reduce_the_known_length(tmp_path):
    path, reports = tmp_path / "out.jsonl", []
    path.write_bytes(b"x" * 30)
    memory = LengthMemory(tmp_path / "1.json", path=path, output_id=1, report=lambda *lengths: reports.append(lengths))
    memory.remember(path.stat(), length=30, mark="")
    memory.remember(path.stat(), length=10, mark="")
    path.write_bytes(b"x" * 20)

    memory.compare(mark="")

    assert reports == [(30, 20)]
