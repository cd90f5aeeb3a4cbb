"""Texts of other programs in the form that PostgreSQL stores."""


def storable(text: str) -> str:
    """
    Return the text with a question mark for each character that no column of PostgreSQL holds.

    These are NUL, and the surrogates with which Python shows the undecodable bytes of a file's name. The message of an
    exception may have both.
    """
    return text.replace("\0", "?").encode(errors="replace").decode()
