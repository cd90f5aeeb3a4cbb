"""Proves that each cause of a verdict, condition of stuffing and result code has an explanation in words and a gate."""

import datetime as dt
import re
from pathlib import Path

import pytest

from jobs.explain import words
from jobs.explain.gates import (
    GATE_OF,
    Gate,
    Judgement,
    Reason,
    Status,
    blocked,
    closed_by,
    first_blocked,
    in_order,
    passed,
)
from jobs.lifecycle.job import JobState, Pause, Phase, StopRequest, Window
from jobs.queue.sql.runnable import RUNNABLE
from jobs.verdicts.causes import Cause, Verdict
from jobs.verdicts.jobs import ClusterSeen, JobSeen, hold_of
from jobs.words import verdicts
from jobs.words.codes import explain_code

NOON = dt.datetime(2030, 6, 3, 12, tzinfo=dt.UTC)
CONNECTORS = Path(__file__).resolve().parents[2] / "jobs" / "connectors" / "repository"
# Codes of good results: they need no explanation.
PLAIN = {"OK"}
# A job for each condition of stuffing that it violates.
RUNNING = {"phase": Phase.ACTIVE}
VIOLATIONS = {
    "pause": JobSeen(JobState(**RUNNING, pause=Pause.PAUSED)),
    "window": JobSeen(JobState(**RUNNING, window=Window.WAITING)),
    "resuming": JobSeen(JobState(**RUNNING, resuming=True)),
    "connectors_ready": JobSeen(JobState(**RUNNING, connectors_ready=False)),
    "stop_request": JobSeen(JobState(**RUNNING, stop_request=StopRequest.ABORT)),
    "archive_hold": JobSeen(JobState(**RUNNING), archive_hold="The store is full."),
    "move_hold": JobSeen(JobState(**RUNNING), move_hold=True),
}


def test_every_cause_of_a_verdict_blocks_a_gate_and_has_words():
    assert GATE_OF.keys() == set(Cause)
    for cause in Cause:
        assert verdicts.sentence(Verdict(cause), now=NOON), cause
        assert verdicts.cause_in_brief(cause), cause


def test_every_reason_gate_and_status_has_words():
    assert words.REASONS.keys() == set(Reason)
    assert words.GATES.keys() == set(Gate)
    assert words.STATUSES.keys() == words.FORECASTS.keys() == words.TONES.keys() == set(Status)


def test_no_reason_is_named_like_a_cause_of_a_verdict():
    assert set(map(str, Reason)) & set(map(str, Cause)) == set()


def test_every_result_code_of_a_connector_is_explained():
    text = "\n".join(path.read_text() for path in CONNECTORS.rglob("*.py"))
    codes = set(re.findall(r"""code="([A-Z][A-Z_]+)\"""", text)) - PLAIN

    assert {"ROBOTS", "OUT_OF_SCOPE", "REDIRECT", "NOINDEX"} <= codes
    assert {code for code in codes if not explain_code(code)} == set()


@pytest.mark.parametrize("condition", sorted(set(re.findall(r'job\."?(\w+)', RUNNABLE))))
def test_every_condition_of_stuffing_blocks_a_gate_with_words(condition):
    held = hold_of(VIOLATIONS[condition], ClusterSeen(managers=1, workers=1))

    assert held is not None
    assert closed_by(held).gate in {Gate.JOB, Gate.WINDOW}
    assert verdicts.sentence(held, now=NOON)


def test_gates_behind_the_first_blocked_gate_are_not_reached():
    gates = [
        passed(Gate.ROBOTS, Reason.NO_ROBOTS),
        blocked(Gate.SCOPE, Reason.OUT_OF_SCOPE),
        passed(Gate.FORM, Reason.NORMAL),
    ]

    ordered = in_order(gates, is_forecast=False)

    assert [(one.gate, one.status) for one in ordered] == [
        (Gate.FORM, Status.PASSED),
        (Gate.SCOPE, Status.BLOCKED),
        (Gate.ROBOTS, Status.NOT_REACHED),
    ]
    assert first_blocked(ordered, is_forecast=False).gate == Gate.SCOPE


def test_a_forecast_continues_after_the_gate_of_unknown_addresses():
    gates = [blocked(Gate.KNOWN, Reason.UNKNOWN), blocked(Gate.SCOPE, Reason.OUT_OF_SCOPE)]

    ordered = in_order(gates, is_forecast=True)

    assert [one.status for one in ordered] == [Status.BLOCKED, Status.BLOCKED]
    assert first_blocked(ordered, is_forecast=True).gate == Gate.SCOPE


def test_an_output_that_has_a_copy_passes_behind_a_blocked_gate():
    held = Judgement(Gate.OUTPUT, Status.PASSED, Reason.HELD, {"version": "1"})

    ordered = in_order([blocked(Gate.JOB, Reason.RUNS), held], is_forecast=False)

    assert ordered[-1].status == Status.PASSED
