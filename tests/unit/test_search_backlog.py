"""Proves that workers read no faster than the search index can follow."""

from jobs.duties.index import Indexed
from jobs.loops.worker.backlog import Backlog


def behind(seconds):
    """Return a backlog of several texts, the first of which has waited for this number of seconds."""
    backlog = Backlog()
    assert backlog.note(Indexed(texts=backlog.at_once, behind=seconds))
    return backlog


def test_workers_take_no_documents_if_texts_have_waited_long():
    assert [behind(seconds).holds for seconds in (0.0, 1.4, 1.5, 60.0)] == [False, False, True, True]


def test_more_texts_are_indexed_at_once_before_workers_have_to_stop():
    assert [behind(seconds).at_once for seconds in (0.0, 0.6, 60.0)] == [25, 100, 100]


def test_workers_take_documents_again_once_no_text_waits():
    backlog = behind(60.0)

    assert not backlog.note(Indexed(texts=7, behind=60.0))

    assert not backlog.holds
