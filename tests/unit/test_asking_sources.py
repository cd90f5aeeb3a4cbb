"""Proves that questions to slow sources wait in separate threads, are answered once, and are limited in number."""

import threading

import pytest

from jobs.duties import sources
from jobs.duties.sources import AskInThreads
from tests.support.processes import wait_for


@pytest.fixture
def released():
    """Yield an event that releases its waiters, at the latest at the end of the test."""
    released = threading.Event()
    yield released
    released.set()


def answered(asking, about, question):
    found = []
    wait_for(lambda: found.append(asking.ask(about, question)) or found[-1], saying="the question is answered")
    return found[-1]


def test_a_quick_answer_returns_immediately_and_only_once():
    asking, asked = AskInThreads(), []

    def question():
        asked.append(1)
        return len(asked)

    assert [answered(asking, "a", question), answered(asking, "a", question)] == [1, 2]


def test_a_slow_question_does_not_delay_a_question_to_another_source(released):
    asking, answers = AskInThreads(), []

    assert asking.ask("slow", lambda: released.wait() and "late") is None
    assert asking.ask("slow", lambda: answers.append("asked twice")) is None
    assert answered(asking, "quick", lambda: "soon") == "soon"

    released.set()
    assert answered(asking, "slow", lambda: answers.append("asked twice")) == "late"
    assert answers == []


def test_an_exception_of_a_query_is_raised_at_its_caller():
    asking = AskInThreads()

    with pytest.raises(ValueError, match="no"):
        answered(asking, "a", lambda: int("no"))


def test_open_questions_never_exceed_their_limit(released, monkeypatch):
    monkeypatch.setattr(sources, "_MOST", 1)
    asking = AskInThreads()

    assert asking.ask("slow", released.wait) is None
    assert asking.ask("quick", lambda: "soon") is None
    released.set()
    assert answered(asking, "quick", lambda: "soon") == "soon"


def test_a_source_is_asked_again_if_its_answer_is_old(released, monkeypatch):
    asking = AskInThreads()
    assert asking.ask("a", lambda: released.wait() and "old") is None
    released.set()
    wait_for(lambda: not [thread for thread in asking._threads if thread.is_alive()], saying="the question is answered")
    monkeypatch.setattr(sources, "_GOOD_FOR", 0.0)
    monkeypatch.setattr(sources, "_AT_ONCE", 10.0)

    assert asking.ask("a", lambda: "new") == "new"


def test_answers_that_no_duty_reads_are_forgotten(released, monkeypatch):
    asking = AskInThreads()
    assert asking.ask("a seed that is removed", lambda: released.wait() and "old") is None
    released.set()
    wait_for(lambda: not [thread for thread in asking._threads if thread.is_alive()], saying="the question is answered")
    monkeypatch.setattr(sources, "_GOOD_FOR", 0.0)

    assert answered(asking, "another", lambda: "new") == "new"
    assert not asking._open
