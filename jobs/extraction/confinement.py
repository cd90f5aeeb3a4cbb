"""
The confinement of a child: the limits that it sets for itself before it reads the first file.

The kernel enforces the limits, so they also hold if a file takes control of the child. The limit of open files leaves
no free descriptor, so the child can open no file, connection or pipe. It has only the two pipes to its worker. It
cannot start a program that opens files. The child ends when its worker ends.
"""

import ctypes
import os
import resource
import signal
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38
_MIB: Final = 1024 * 1024
# Standard input, standard output and standard error.
_OPEN_FILES: Final = 3
_MOST_OPEN_FILES: Final = 2**20


def end_with_parent(parent: int) -> None:
    """
    Let the kernel end this process when its parent ends in any way. Only Linux can do this. On other systems, the
    closed pipe ends the process.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if os.getppid() != parent:
        # The parent ended before the kernel began to watch it.
        os._exit(1)


def confine(*, memory: int) -> None:
    """Limit this process for the rest of its life: `memory` is its address space in MiB."""
    os.chdir("/")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    # The worker may have inherited open files from its own parent.
    os.closerange(_OPEN_FILES, _MOST_OPEN_FILES)
    _limit(resource.RLIMIT_AS, memory * _MIB)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_NPROC, 0)
    # This limit is set last, after all imports have opened their files.
    _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)


def limit_computing(seconds: int) -> None:
    """End this process by a signal when it has computed for this long from now."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    used = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1 + seconds, hard))


def _limit(what: int, most: int) -> None:
    _soft, hard = resource.getrlimit(what)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (most, most))
