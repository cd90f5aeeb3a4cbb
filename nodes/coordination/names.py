"""Valid names of nodes, jobs and items. They become paths, rows and labels of metrics."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from nodes.errors import Invalid

_PATTERN: Final = re.compile(r"[a-zA-Z0-9._-]+")
_MOST: Final = 120
# Names that match the pattern but have a special meaning in a path.
_TAKEN: Final = frozenset({".", ".."})


class BadName(Invalid, ValueError):
    """A name is invalid."""

    def __init__(self, what: str, name: object) -> None:
        self.what, self.name = what, name
        shown = repr(name[:_MOST]) if isinstance(name, str) else f"{str(name)[:_MOST]} of type {type(name).__name__}"
        message = (
            f"the {what} {shown} is invalid: it must have 1 to {_MOST} characters of a-z, A-Z, 0-9, '.', '_' "
            f"and '-', and neither '.' nor '..'."
        )
        super().__init__({what: [message]})


def checked(what: str, name: object) -> str:
    """
    Return the name of this object (a node, a job, an item) unchanged.

    Raises:
        BadName: the name is invalid.
    """
    if not isinstance(name, str) or not _PATTERN.fullmatch(name) or len(name) > _MOST or name in _TAKEN:
        raise BadName(what, name)
    return name


def checked_pools(pools: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """
    Return the pools of jobs, each as a set.

    Raises:
        BadName: the name of a job or an item is invalid.
    """
    return {
        checked("job", job): frozenset(checked(f"item of job {job}", item) for item in items)
        for job, items in pools.items()
    }
