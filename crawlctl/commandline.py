"""A command run from a terminal: what a person can mend is said in a sentence, not in a traceback."""

import gc
import signal
import sys
from collections.abc import Sequence

from django.core.exceptions import ImproperlyConfigured
from django.core.management import BaseCommand, ManagementUtility
from django.db import OperationalError

from crawlctl.postgres.errors import EmbeddedPostgresError
from nodes.settings.declaration import InvalidSettings, SettingError

_USAGE = 2
# After so many new objects garbage is looked for. Python's own 700 are soon reached by what a worker remembers of links,
# which is no garbage: four of a hundred of its seconds went there.
_NEW_OBJECTS = 5_000


class _Utility(ManagementUtility):
    """Django's, which ends the loading that `manage.py` began: without garbage collection, and to be broken off at once."""

    def fetch_command(self, subcommand: str) -> BaseCommand:
        command = super().fetch_command(subcommand)
        # What was loaded stays for good: no collection of a daemon's life looks at it again.
        gc.freeze()
        gc.set_threshold(_NEW_OBJECTS)
        gc.enable()
        if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return command


def run(arguments: Sequence[str]) -> None:
    """
    Run one of Django's commands.

    Raises:
        SystemExit: 2 with a sentence on stderr, for a setting or a database that cannot be used.
    """
    try:
        _Utility(list(arguments)).execute()
    except (SettingError, InvalidSettings, ImproperlyConfigured, EmbeddedPostgresError) as error:
        _refuse(str(error))
    except OperationalError as error:
        _refuse(f"The database cannot be reached: {_first_line(error)}. DATABASE_URL says where it is.")
    except BrokenPipeError:
        # Whoever read our output has gone, as `head` does.
        sys.stderr.close()


def _refuse(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    sys.exit(_USAGE)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].removeprefix("connection failed: ") if str(error).strip() else "no answer"
