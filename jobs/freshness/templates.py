"""
The template of an address: documents of one template change at similar rates, so a new document begins with the rates
of this template.
"""

import re
from typing import Final

_NUMBERS: Final = re.compile(r"[0-9]+")
_QUERY: Final = re.compile(r"[?#].*", re.DOTALL)
# Largest number of folders in a template.
_FOLDERS: Final = 3
_LONGEST: Final = 100


def template_of(identifier: str) -> str:
    """Return the first folders of an address with `#` for each number, such as `/news/#/`."""
    _scheme, _slashes, rest = identifier.rpartition("://")
    path = _QUERY.sub("", rest).partition("/")[2]
    folders = path.split("/")[:-1][:_FOLDERS]
    return _NUMBERS.sub("#", "".join(f"/{folder}" for folder in folders) + "/")[:_LONGEST]
