"""A command run from a terminal: what a person can mend is said in a sentence, not in a traceback."""

import sys
from collections.abc import Sequence

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line
from django.db import OperationalError

from crawlctl.postgres.errors import EmbeddedPostgresError
from nodes.settings.declaration import InvalidSettings, SettingError

_USAGE = 2


def run(arguments: Sequence[str]) -> None:
    """
    Run one of Django's commands.

    Raises:
        SystemExit: 2 with a sentence on stderr, for a setting or a database that cannot be used.
    """
    try:
        execute_from_command_line(list(arguments))
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
