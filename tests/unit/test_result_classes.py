"""
Proves that each result code has one class. The class sets its colour on all pages, and whether it counts as a failure.
"""

import re
from pathlib import Path

from jobs.lifecycle.document import Stage
from jobs.models import Outcome
from jobs.queries.reports.document_states import Status
from jobs.verdicts.results import ResultClass, class_of, is_failure
from jobs.words import codes
from jobs.words.documents import document_state
from jobs.words.reports import STATUS_TONES, activity_tone, status_tone
from tests.support.tables import each_row

STYLES = Path(__file__).resolve().parents[2] / "static" / "css"
CSS = "".join((STYLES / name).read_text() for name in ("shell.css", "crawlctl.css"))


@each_row(
    ("code", "expected"),
    [
        ("200", ResultClass.OK),
        ("304", ResultClass.UNCHANGED),
        ("OK_UNCHANGED", ResultClass.UNCHANGED),
        ("301", ResultClass.REDIRECT),
        ("404", ResultClass.GONE),
        ("410", ResultClass.GONE),
        ("403", ResultClass.REFUSED),
        ("500", ResultClass.FAILED),
        ("REFUSED", ResultClass.FAILED),
        ("ROBOTS", ResultClass.EXCLUDED),
        ("DENIED", ResultClass.DENIED),
        ("", ResultClass.NONE),
        ("CODE_OF_ANOTHER_CONNECTOR", ResultClass.NONE),
    ],
)
def test_a_code_has_one_class(code, expected):
    assert class_of(code) == expected


def test_every_code_that_is_explained_has_a_class():
    assert {code for code in codes._CODES if class_of(code) == ResultClass.NONE} == set()


def test_gone_and_excluded_documents_are_no_failures_of_their_host():
    assert [code for code in ("404", "ROBOTS", "DENIED", "304", "301", "NOT_TEXT") if is_failure(code)] == []
    assert all(is_failure(code) for code in ("500", "503", "429", "403", "DNS", "TLS", "DEADLINE"))


@each_row("code", ["404", "ROBOTS", "DENIED", "500", "200", "304"])
def test_documents_reports_and_charts_give_a_result_the_same_colour(code):
    _, of_a_document = document_state(stage=Stage.DONE, outcome=Outcome.EXCLUDED, code=code, is_of_this_run=True)

    assert of_a_document == status_tone(Status.INACTIVE, code) == class_of(code)


@each_row("code", ["404", "ROBOTS", "OUT_OF_SCOPE", "DENIED", "410"])
def test_excluded_and_gone_documents_are_not_green(code):
    assert status_tone(Status.INACTIVE, code) != ResultClass.OK


def test_an_unknown_code_has_the_colour_of_its_outcome():
    states = [
        document_state(stage=Stage.DONE, outcome=outcome, code="ANOTHER", is_of_this_run=True)[1]
        for outcome in (Outcome.INDEXED, Outcome.FAILED)
    ]

    assert states == [ResultClass.OK, ResultClass.FAILED]


def test_every_tone_has_a_colour_in_light_and_dark():
    tones = {*ResultClass, *STATUS_TONES.values(), *map(activity_tone, ("fetch", "document ingest (x)", "job start"))}

    for tone in tones - {"quiet"}:
        assert len(re.findall(rf"--{tone}: #[0-9a-f]{{6}};", CSS)) == 2, tone
