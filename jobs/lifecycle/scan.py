"""
The scan of a run: its treatment of documents from earlier runs, chosen by the model of its connector's seeding.

The rules are ManifoldCF's, with one exception: a minimal run is never full, so it never removes documents that it did
not reach.
"""

import enum

from jobs.lifecycle.job import Kind, Scan


class Model(enum.StrEnum):
    """
    The model of a source's seeding: the documents that a repeated seeding names.

    With the chained models, a repeated seeding names only roots. Changes below the roots are found by following
    references.
    """

    # Models whose seeding names all documents, or all roots. So documents that a run does not reach no longer exist.
    ALL = "all"
    ADD = "add"
    ADD_CHANGE = "add_change"
    ADD_CHANGE_DELETE = "add_change_delete"
    CHAINED_ADD = "chained_add"
    CHAINED_ADD_CHANGE = "chained_add_change"
    CHAINED_ADD_CHANGE_DELETE = "chained_add_change_delete"
    # A seeding names some of the documents. Nothing follows from a document that it does not name.
    PARTIAL = "partial"


_NAMES_ALL_THAT_CHANGED = {Model.ADD_CHANGE_DELETE, Model.CHAINED_ADD_CHANGE_DELETE}


def choose_scan(model: Model, *, kind: Kind, minimal: bool, from_the_beginning: bool) -> Scan:
    """
    Return the scan of a run. `from_the_beginning` is true if there is no earlier seeding on which the run could rely.

    Only a run of a job that ends (`Kind.ONCE`) may be full: documents that it does not reach are removed at its end.
    """
    if minimal or model in _NAMES_ALL_THAT_CHANGED:
        return Scan.RECHECK if from_the_beginning else Scan.CHANGES
    if kind == Kind.ONCE and model != Model.PARTIAL and (model == Model.ALL or from_the_beginning):
        return Scan.FULL
    return Scan.RECHECK
