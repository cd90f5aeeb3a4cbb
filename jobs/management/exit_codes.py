"""The exit codes of `manage.py crawl`, which are defined only here."""

import enum


class ExitCode(enum.IntEnum):
    """Exit codes of a crawl, for scripts."""

    # Finished, or at its document limit.
    FINISHED = 0
    # The run ended in an error, or no seed could be read.
    FAILED = 1
    # Invalid options: nothing was changed.
    REFUSED = 2
    # The run has finished, but its clean-up waits for approval.
    HELD = 3
    # Interrupted by a signal. `--resume` continues the run.
    INTERRUPTED = 130
