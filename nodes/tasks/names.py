"""Names of groups and tags."""

import re
from typing import Final

# Description of a valid name, for messages.
GROUP: Final = "1 to 64 letters, digits, dots, dashes and underscores"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


def is_group(name: str) -> bool:
    """True if a group or a tag may have this name."""
    return _NAME.fullmatch(name) is not None
