"""The limit of open files of a process: each open request and each idle connection is one."""

import resource
from typing import Final

# Number of files of a worker that are not connections to sources: the database, logs, outputs, standard streams.
_OTHER_FILES: Final = 128
# Number of files that a document may need while it is fetched: a connection, and a name look-up at the same time.
_FILES_A_DOCUMENT: Final = 2
# Highest limit: no process needs more open files, and a limit of millions makes some libraries slow.
_ENOUGH: Final = 65_536


def raise_open_file_limit() -> None:
    """Let this process open as many files as the system allows, at most 65,536."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def documents_within_open_files(wanted: int) -> int:
    """Return the number of documents that the limit of open files allows: at least one, and at most `wanted`."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, (soft - _OTHER_FILES) // _FILES_A_DOCUMENT))
