"""`manage.py host NAME VERB`: what the buttons of a host's page, and those of the deny list, do."""

import argparse
import getpass
from collections.abc import Callable
from typing import Any, Final, TypeVar

from django.core.management.base import BaseCommand, CommandError

from jobs import bins, verdict_words
from jobs.bins import BinRefused, BinUnknown, InvalidBin
from jobs.management.database import look_at_the_database
from jobs.policies import InvalidPolicy, PolicyNotAllowed, PolicyUnknown
from jobs.queries.bin_lines import BinLine, read_bin_lines
from jobs.queries.clock import read_clock

_T = TypeVar("_T")

_ARE_PATTERNS: Final = ("deny", "allow")


class Command(BaseCommand):
    # Standard output is the answer's: checks and warnings would stand in its way.
    requires_system_checks: list[str] = []
    help = "Show how a host stands; stop it or let it go on; end its back-off; deny the hosts of a pattern or allow them again."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "name", help="of the host, or an address there; a pattern such as *.example.com for deny and allow"
        )
        parser.add_argument(
            "verb", nargs="?", choices=("stop", "go-on", "end-back-off", *_ARE_PATTERNS), help="what is asked"
        )
        parser.add_argument("--reason", help="why it is stopped: others will want to know")

    def handle(self, *_args: Any, name: str, verb: str | None, reason: str | None, **_options: Any) -> None:
        look_at_the_database()
        if reason is not None and verb != "stop":
            raise CommandError("--reason says why a host is stopped; nothing else takes one.", returncode=2)
        made_by = getpass.getuser()
        if verb == "stop":
            _do(lambda: bins.stop_named(name, reason=reason or "", made_by=made_by, now=read_clock()))
        elif verb == "go-on":
            _do(lambda: bins.go_on(bins.find_named(name).pk, made_by=made_by))
        elif verb == "end-back-off":
            _do(lambda: bins.end_back_off(bins.find_named(name).pk, made_by=made_by, now=read_clock()))
        elif verb == "deny":
            _do(lambda: bins.deny(name, made_by=made_by, everywhere=True))
        elif verb == "allow":
            _do(lambda: bins.allow_everywhere(name, made_by=made_by))
        if verb in _ARE_PATTERNS:
            self._tell_what_is_denied()
        else:
            found = _do(lambda: bins.find_named(name))
            for line in read_bin_lines([found.pk], now=read_clock()):
                self.stdout.write(_how_it_stands(line))

    def _tell_what_is_denied(self) -> None:
        denials = bins.denials()
        self.stdout.write("Denied:" if denials else "Nothing is denied.")
        for denial in denials:
            at_times = "" if denial.is_always else ", at times"
            self.stdout.write(f"  {denial.pattern} ({denial.policy}, rule {denial.rule}{at_times})")


def _do(wish: Callable[[], _T]) -> _T:
    """
    Do what is wished.

    Raises:
        CommandError: 2 for what is not there or cannot be, 1 for what cannot be done now.
    """
    try:
        return wish()
    except (BinUnknown, InvalidBin, InvalidPolicy) as wrong:
        raise CommandError(str(wrong), returncode=2) from wrong
    except (BinRefused, PolicyNotAllowed, PolicyUnknown) as refused:
        raise CommandError(str(refused), returncode=1) from refused


def _how_it_stands(line: BinLine) -> str:
    counts = f"{line.in_work} documents in progress, {line.waiting} waiting"
    return f"{line.name}: {verdict_words.brief(line.verdict)}, {counts}. {verdict_words.sentence_of_host(line, now=line.read_at)}"
