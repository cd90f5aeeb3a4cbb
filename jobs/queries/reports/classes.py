"""Classes of identifiers and results: what a regular expression's first group takes out of each."""

from typing import Final

# The patterns that need no look at the text: one class of all, and each text its own.
EVERYTHING: Final = "()"
ITSELF: Final = "(.*)"
# The host of an address, for which there is a faster way than a regular expression.
HOST: Final = "//([^/]*)"


def class_of(column: str, pattern: str, *, parameter: str) -> str:
    """
    SQL for the class of a text: the first group (or the whole) of what matches, '' where nothing does.

    The statement gets the pattern as `parameter`. Classes are sorted by their bytes, which is fast and the
    same in every database.
    """
    if pattern == EVERYTHING:
        return "''::text COLLATE \"C\""
    if pattern == ITSELF:
        return f'{column} COLLATE "C"'
    if pattern == HOST:
        return f"split_part(split_part({column}, '//', 2), '/', 1) COLLATE \"C\""
    return f"coalesce(substring({column} FROM %({parameter})s), '') COLLATE \"C\""
