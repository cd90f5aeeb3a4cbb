"""Lists in pages by key: the filter for the rows behind the last one of a page."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Q


def rows_behind(columns: Sequence[str], last: Sequence[Any], *, downwards: bool, or_equal: bool = False) -> Q:
    """
    Return the filter for rows behind the last one seen. With `or_equal`, rows with equal values in these columns pass,
    too.

    The filter repeats the condition on the first column outside of its OR, so that an index scan starts at this value
    and not at the beginning of the index.
    """
    beyond = "lt" if downwards else "gt"
    behind = Q(**{f"{columns[-1]}__{beyond}{'e' if or_equal else ''}": last[-1]})
    for name, value in reversed(list(zip(columns[:-1], last[:-1], strict=True))):
        behind = Q(**{f"{name}__{beyond}": value}) | (Q(**{name: value}) & behind)
    return Q(**{f"{columns[0]}__{beyond}e": last[0]}) & behind
