"""The kinds of tasks of exports."""

from typing import Final

from jobs.exports.cleaning import clean_exports
from jobs.exports.models import Export
from jobs.exports.sources import SOURCES
from jobs.exports.writing import write_export
from nodes.tasks.kinds import Kind

_AGAIN: Final = {"policy": "times", "times": 5, "seconds": 5}

EXPORT: Final = Kind(
    name="export",
    title="Write documents, history or a report to a file",
    run=write_export,
    properties={
        "what": {"enum": list(SOURCES)},
        "format": {"enum": list(Export.Format.values)},
        "filter": {"type": "object"},
    },
    required=("what", "format"),
    # An export with an invalid filter is not retried, because the filter stays invalid.
    retry_policy={
        "policy": "by_exception",
        "rules": [
            {"exceptions": ["Invalid", "AnotherAttempt"], "then": {"policy": "never"}},
            {"exceptions": ["Exception"], "then": _AGAIN},
        ],
    },
)
CLEAN: Final = Kind(
    name="clean_exports",
    title="Delete expired exports and their files",
    run=clean_exports,
    retry_policy={"policy": "times", "times": 3, "seconds": 60},
)

KINDS: Final = (EXPORT, CLEAN)
