"""
Commands in a terminal: errors that the operator can repair appear as a sentence, not as a traceback, and control
characters in texts from outside appear as escapes.
"""

import argparse
import difflib
import gc
import getpass
import os
import signal
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NoReturn

from django.core.exceptions import ImproperlyConfigured
from django.core.management import BaseCommand, CommandParser, ManagementUtility, get_commands
from django.core.management.base import OutputWrapper
from django.db import OperationalError

from crawlctl import __version__
from crawlctl.logs.json_lines import use_json_lines
from crawlctl.postgres.errors import EmbeddedPostgresError
from jobs.partitions.placement import BadPartitions
from jobs.settings.table import TABLE
from nodes.database.poolers import SharedSession
from nodes.settings.declaration import InvalidSettings, SettingError

_USAGE = 2
# Prefixes of the variables of settings, and of variables that only tests read.
_OURS: Final = "CRAWLCTL_"
_OF_TESTS: Final = ("CRAWLCTL_TEST_", "CRAWLCTL_CHAOS", "CRAWLCTL_REQUIRE_")
# Modules of Django's commands, which write their own colours.
_COLOURED: Final = (
    "django.core.management.commands",
    "django.contrib",
    "django_q",
    "drf_spectacular",
    "channels",
    "knox",
)
# Number of new objects that starts a garbage collection. With Python's default of 700, collections took 4 % of a
# worker's time: a worker remembers many links, which are not garbage.
_NEW_OBJECTS = 5_000


class _Utility(ManagementUtility):
    """
    Django's utility, which also ends the loading phase of `crawlctl.__main__`. During that phase, garbage collection
    and Ctrl-C are off.
    """

    def fetch_command(self, subcommand: str) -> BaseCommand:
        if self.settings_exception is not None:
            # Django would ignore the error, know only its own commands, and report ours as unknown.
            raise self.settings_exception
        if subcommand not in get_commands():
            near = difflib.get_close_matches(subcommand, get_commands(), n=1)
            hint = f"Did you mean {near[0]}?" if near else "crawlctl help lists them."
            _refuse(f"Unknown command {subcommand!r}. {hint}")
        command = without_control_characters(_OneLine.applied_to(super().fetch_command(subcommand)))
        # Loaded modules stay until the end: no collection in a daemon's life needs to visit them again.
        gc.freeze()
        gc.set_threshold(_NEW_OBJECTS)
        gc.enable()
        if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return command


class _OfTerminal(OutputWrapper):
    """
    Output of a command. In a terminal, control characters appear as escapes.

    Names and addresses come from strangers. A terminal obeys control characters in them: it clears lines, sets its
    title, or shows a text in another order. A file or another program receives the texts unchanged.
    """

    def write(  # type: ignore[override]
        self, msg: str = "", style_func: Callable[[str], str] | None = None, ending: str | None = None
    ) -> None:
        super().write(visible(msg) if self.isatty() else msg, style_func, ending)


def visible(text: str) -> str:
    """Return the text with an escape for each control character, except for tabs and ends of lines."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"\\u{ord(one):04x}" if _is_control(one) else one for one in text)


def _is_control(character: str) -> bool:
    # Cf has marks that change the direction of a text, Zl and Zp end a line.
    return character not in "\t\n" and unicodedata.category(character) in {"Cc", "Cf", "Zl", "Zp"}


def without_control_characters(command: BaseCommand) -> BaseCommand:
    """
    Let a command of crawlctl write to a terminal without control characters. Commands of Django write their own
    colours.
    """
    if any(kind.__module__.startswith(_COLOURED) for kind in type(command).__mro__):
        return command
    style = command.stderr.style_func
    command.stdout, command.stderr = _OfTerminal(sys.stdout), _OfTerminal(sys.stderr)
    command.stderr.style_func = style
    return command


class _OneLine:
    """Makes a command refuse its arguments in one line, without the usage that `--help` prints."""

    @staticmethod
    def applied_to(command: BaseCommand) -> BaseCommand:
        create_parser = command.create_parser

        def create(*names: str, **options: Any) -> CommandParser:
            parser = create_parser(*names, **options)
            for one in _with_subparsers(parser):
                one.print_usage = lambda file=None: None  # type: ignore[method-assign]
            return parser

        command.create_parser = create  # type: ignore[method-assign]
        return command


def _with_subparsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and the parsers of its actions, such as `crawlctl task show`."""
    yield parser
    for action in parser._actions:  # noqa: SLF001 (Python has no public name)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for below in action.choices.values():
                yield from _with_subparsers(below)


def name_operator() -> None:
    """
    If the user ID of this process has no name, as in many containers, set a name under which the journal can note
    changes.
    """
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["USERNAME"] = f"uid-{os.getuid()}"


def unknown_variables(names: Iterable[str]) -> list[str]:
    """Return a sentence for each of these variables that looks like a setting but is not one."""
    known = {
        setting.environment.removeprefix(_OURS) for setting in TABLE.settings if setting.environment.startswith(_OURS)
    }
    sentences = []
    for name in sorted(names):
        word = name.removeprefix(_OURS)
        if word != name and word not in known and not name.startswith(_OF_TESTS):
            near = difflib.get_close_matches(word, sorted(known), n=1)
            hint = f"Did you mean {_OURS}{near[0]}?" if near else "crawlctl settings lists all settings."
            sentences.append(f"Warning: {name} is an unknown setting and has no effect. {hint}")
    return sentences


def run(arguments: Sequence[str]) -> None:
    """
    Run one of Django's commands.

    Raises:
        SystemExit: 2 with a sentence on stderr, for an unusable setting or database.
    """
    if arguments[1:] in (["--version"], ["version"]):
        # Django would print Django's version here.
        sys.stdout.write(f"{__version__}\n")
        return
    use_json_lines(arguments)
    # The command that starts an attached process has the same environment, and has already warned.
    if "--attached" not in arguments:
        for sentence in unknown_variables(os.environ):
            sys.stderr.write(f"{sentence}\n")
    name_operator()
    try:
        _Utility(list(arguments)).execute()
    except (SettingError, InvalidSettings, BadPartitions, ImproperlyConfigured, EmbeddedPostgresError) as error:
        _refuse(str(error))
    except OperationalError as error:
        if isinstance(error.__cause__, SharedSession):
            _refuse(str(error))
        _refuse(f"The database cannot be reached: {_first_line(error)}. DATABASE_URL says where it is.")
    except UnicodeEncodeError:
        # A file name may contain any bytes, but a row of the database may not.
        invalid = [
            argument for argument in arguments if any("\ud800" <= character <= "\udfff" for character in argument)
        ]
        if not invalid:
            raise
        _refuse(f"The argument {invalid[0]!a} is not valid UTF-8.")
    except BrokenPipeError:
        # The reader has closed our output, as `head` does.
        sys.stderr.close()


def _refuse(sentence: str) -> NoReturn:
    sys.stderr.write(f"{sentence}\n")
    sys.exit(_USAGE)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].removeprefix("connection failed: ") if str(error).strip() else "no answer"
