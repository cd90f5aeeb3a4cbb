"""Permissions of the author of a request, as the verbs ask for them."""

from collections.abc import Callable

# Function that returns True if the author has the permission of this name.
May = Callable[[str], bool]


def may_do_everything(_permission: str) -> bool:
    """Return True: a local user with access to the database may do everything, and so may the program itself."""
    return True
