"""Classes of identifiers and results: the first group of a regular expression in each text."""

from typing import Final

# Patterns that need no regular expression: the first one puts all texts into one class, the second one each text into
# its own class.
EVERYTHING: Final = "()"
ITSELF: Final = "(.*)"
# The pattern that means the host of an address. For this pattern, the host is found without a regular expression,
# because that is faster.
HOST: Final = "//([^/]*)"


def class_of(column: str, pattern: str, *, parameter: str) -> str:
    """
    Return SQL for the class of a text: the first group (or the whole) of the match, '' without a match.

    The statement gets the pattern as `parameter`. Classes are sorted by their bytes, which is fast and the same in
    every database.
    """
    if pattern == EVERYTHING:
        return "''::text COLLATE \"C\""
    if pattern == ITSELF:
        return f'{column} COLLATE "C"'
    if pattern == HOST:
        return f"split_part(split_part({column}, '//', 2), '/', 1) COLLATE \"C\""
    return f"coalesce(substring({column} FROM %({parameter})s), '') COLLATE \"C\""
