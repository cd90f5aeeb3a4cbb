"""
What a run does with the documents that earlier runs left: chosen from what its connector's seeding names.

ManifoldCF's rules, with one exception: a minimal run is never full, so it never removes what it did not
reach.
"""

import enum

from jobs.lifecycle.job import Kind, Scan


class Model(enum.StrEnum):
    """
    What seeding tells of a source: which documents it names when it was seeded before.

    The chained ones name only roots anew; what changed below them is found by following references.
    """

    # All documents there are, or all roots: whatever a run does not reach is gone.
    ALL = "all"
    ADD = "add"
    ADD_CHANGE = "add_change"
    ADD_CHANGE_DELETE = "add_change_delete"
    CHAINED_ADD = "chained_add"
    CHAINED_ADD_CHANGE = "chained_add_change"
    CHAINED_ADD_CHANGE_DELETE = "chained_add_change_delete"
    # Some documents; nothing may be concluded from what is not named.
    PARTIAL = "partial"


_NAMES_ALL_THAT_CHANGED = {Model.ADD_CHANGE_DELETE, Model.CHAINED_ADD_CHANGE_DELETE}


def choose_scan(model: Model, *, kind: Kind, minimal: bool, from_the_beginning: bool) -> Scan:
    """
    The scan of a run. `from_the_beginning`: seeding has named nothing yet that the run could rely on.

    Only a run of a job that ends (`Kind.ONCE`) may be full: what it does not reach is removed at its end.
    """
    if minimal or model in _NAMES_ALL_THAT_CHANGED:
        return Scan.RECHECK if from_the_beginning else Scan.CHANGES
    if kind == Kind.ONCE and model != Model.PARTIAL and (model == Model.ALL or from_the_beginning):
        return Scan.FULL
    return Scan.RECHECK
