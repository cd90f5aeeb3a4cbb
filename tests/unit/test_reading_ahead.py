"""
Proves that a thread reads the next items while the caller processes the previous items, and that it ends with the
caller.
"""

import threading

import pytest

from jobs.queries.rehearsals.reading_ahead import read_ahead


def test_all_items_are_returned_in_their_order():
    assert list(read_ahead(range(100))) == list(range(100))


def test_an_error_of_the_items_is_raised_after_the_items_before_it():
    def items():
        yield 1
        raise ValueError("no more")

    ahead = read_ahead(items())

    assert next(ahead) == 1
    with pytest.raises(ValueError, match="no more"):
        next(ahead)


def test_a_closed_reader_reads_only_a_few_more_items_and_ends():
    read = []

    def items():
        for number in range(100):
            read.append(number)
            yield number

    ahead = read_ahead(items())
    assert next(ahead) == 0

    ahead.close()

    assert len(read) <= 5
    assert not [thread for thread in threading.enumerate() if thread.name == "read-ahead"]
