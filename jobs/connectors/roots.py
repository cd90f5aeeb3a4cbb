"""
The roots of connections that pages or the API stored. Outputs may write only below them. Files and archives may be read
only below them.

Settings name the roots. A path is checked when it is stored and again when a process opens it, each time with its
symbolic links and `..` resolved. Paths that a local user gives to `crawlctl crawl` are not confined.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from jobs.settings.table import FILE_ROOTS, OUTPUT_ROOT
from nodes.settings.declaration import Setting

# Files of crawlctl itself below var/: the embedded database, its key, documents on their way to standard output, and
# the lengths of outputs.
_OWN: Final = ("postgres", "secret-key", "standard-output", "output-lengths")


def why_not_written(path: str) -> str:
    """Return the reason why an output may not write this file, as a sentence; "" if it may."""
    file = Path(path)
    real = Path(os.path.realpath(file.parent)) / file.name
    var = Path(os.path.realpath(settings.VAR_DIR))
    root = Path(os.path.realpath(_setting(OUTPUT_ROOT) or var))
    if real == root or not real.is_relative_to(root):
        return f"{path} is outside of {root}. Choose a file below it, or set CRAWLCTL_OUTPUT_ROOT on all machines."
    if any(real.is_relative_to(var / name) for name in _OWN):
        return f"{path} is where crawlctl keeps its own files. Choose another file below {root}."
    return ""


def why_not_read(directories: Sequence[bytes]) -> str:
    """
    Return the reason why a file connection may not read one of these directories, as a sentence; "" if it may read all.
    """
    roots = [Path(os.path.realpath(root)) for root in _setting(FILE_ROOTS)]
    for directory in directories:
        real = Path(os.path.realpath(os.fsdecode(directory)))
        if not any(real.is_relative_to(root) for root in roots):
            allowed = ", ".join(map(str, roots)) or "no directory"
            shown = os.fsdecode(directory).encode(errors="replace").decode()
            return f"{shown} may not be read: CRAWLCTL_FILE_ROOTS allows {allowed}. Set it on all machines, separated by commas."
    return ""


def _setting(setting: Setting[Any]) -> Any:  # noqa: ANN401 (each setting's own)
    # The import loads the models, and a program that only writes JSON lines may have none.
    from nodes.settings.running import current  # noqa: PLC0415

    return current()[setting]
