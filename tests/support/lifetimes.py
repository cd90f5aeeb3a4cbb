"""Processes that tests start end with pytest, also when pytest is killed."""

from typing import Final

# Prefix of a command. The kernel kills the process when the thread that started it ends.
ENDS_WITH_PYTEST: Final = ("setpriv", "--pdeathsig", "KILL")
