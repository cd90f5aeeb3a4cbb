"""Processes that tests start end with pytest, also when pytest is killed."""

from typing import Final

# Prefix of a command. It lets the kernel kill the process when the thread that started the process ends.
ENDS_WITH_PYTEST: Final = ("setpriv", "--pdeathsig", "KILL")
