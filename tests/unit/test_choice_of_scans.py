"""
Proves that each run makes the scan that ManifoldCF's rules require for its connector model, as a handwritten table
says.
"""

from jobs.lifecycle.job import Kind, Scan
from jobs.lifecycle.scan import Model, choose_scan
from tests.support.tables import each_row

FULL, RECHECK, CHANGES = Scan.FULL, Scan.RECHECK, Scan.CHANGES

# For a job that ends, a continuous job, and a minimal run: (later seeding, seeding from the beginning).
EXPECTED = {
    Model.ALL: ((FULL, FULL), (RECHECK, RECHECK), (CHANGES, RECHECK)),
    Model.ADD: ((RECHECK, FULL), (RECHECK, RECHECK), (CHANGES, RECHECK)),
    Model.ADD_CHANGE: ((RECHECK, FULL), (RECHECK, RECHECK), (CHANGES, RECHECK)),
    Model.ADD_CHANGE_DELETE: ((CHANGES, RECHECK), (CHANGES, RECHECK), (CHANGES, RECHECK)),
    Model.CHAINED_ADD: ((RECHECK, FULL), (RECHECK, RECHECK), (CHANGES, RECHECK)),
    Model.CHAINED_ADD_CHANGE: ((RECHECK, FULL), (RECHECK, RECHECK), (CHANGES, RECHECK)),
    Model.CHAINED_ADD_CHANGE_DELETE: ((CHANGES, RECHECK), (CHANGES, RECHECK), (CHANGES, RECHECK)),
    Model.PARTIAL: ((RECHECK, RECHECK), (RECHECK, RECHECK), (CHANGES, RECHECK)),
}


def scans(model, **facts):
    return tuple(choose_scan(model, from_the_beginning=begins, **facts) for begins in (False, True))


@each_row("model", Model)
def test_each_run_makes_the_scan_that_the_table_expects(model):
    once, continuous, minimal = EXPECTED[model]

    assert scans(model, kind=Kind.ONCE, minimal=False) == once
    assert scans(model, kind=Kind.CONTINUOUS, minimal=False) == continuous
    assert scans(model, kind=Kind.ONCE, minimal=True) == minimal
    assert scans(model, kind=Kind.CONTINUOUS, minimal=True) == minimal


def test_only_a_whole_run_of_a_job_that_ends_removes_unreached_documents():
    for model in Model:
        assert FULL not in (
            *scans(model, kind=Kind.CONTINUOUS, minimal=False),
            *scans(model, kind=Kind.ONCE, minimal=True),
        )
