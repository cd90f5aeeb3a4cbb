"""A command run from a terminal: what a person can mend is said in a sentence, not in a traceback."""

import gc
import sys
from collections.abc import Sequence

from django.core.exceptions import ImproperlyConfigured
from django.core.management import BaseCommand, ManagementUtility
from django.db import OperationalError

from crawlctl.postgres.errors import EmbeddedPostgresError
from nodes.settings.declaration import InvalidSettings, SettingError

_USAGE = 2


class _Utility(ManagementUtility):
    """Django's, which ends the loading that `manage.py` began without garbage collection."""

    def fetch_command(self, subcommand: str) -> BaseCommand:
        command = super().fetch_command(subcommand)
        # What was loaded stays for good: no collection of a daemon's life looks at it again.
        gc.freeze()
        gc.enable()
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
