"""Proves that a duty still processes all other rows if one row fails, and that its error names the failed row."""

import psycopg
import pytest

from jobs.duties.one_by_one import one_by_one
from nodes.membership.fences import FenceRefused


def test_rows_after_a_failed_row_are_processed_and_the_error_names_its_row():
    processed = []

    def process(row):
        if row in {"bad", "worse"}:
            raise ValueError(row)
        processed.append(row)
        return 1

    with pytest.raises(ValueError, match="bad") as raised:
        one_by_one(["bad", "good", "worse", "better"], process, name=lambda row: f"job {row}")

    assert processed == ["good", "better"]
    assert raised.value.__notes__ == ["This is an error of job bad."]


def test_the_results_of_all_rows_are_added_up():
    assert one_by_one([1, 2, 3], lambda row: row, name=str) == 6


@pytest.mark.parametrize("error", [FenceRefused("term"), psycopg.OperationalError("gone")], ids=repr)
def test_a_replaced_process_processes_no_further_row(error):
    processed = []

    def process(row):
        processed.append(row)
        raise error

    with pytest.raises(type(error)):
        one_by_one(["first", "second"], process, name=str)

    assert processed == ["first"]
