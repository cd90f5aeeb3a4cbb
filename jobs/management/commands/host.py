"""`manage.py host NAME VERB`: the actions of a host's page and of the deny list."""

import argparse
import getpass
from collections.abc import Callable
from typing import Any, Final, TypeVar

from django.core.management.base import BaseCommand, CommandError

from jobs.queries.hosts.lines import HostStatus, read_host_statuses
from jobs.verbs import deny_list, hosts, webmasters
from jobs.verbs.hosts import HostsUnknown
from jobs.words import verdicts
from nodes.database.clock import read_clock
from nodes.errors import Invalid, NotDone, Unknown
from nodes.management.database import check_database

_T = TypeVar("_T")

_ARE_PATTERNS: Final = ("deny", "allow")
# This verb accepts an unknown host, because a webmaster can set a limit before the first crawl reaches the host.
_WITHDRAW: Final = "withdraw-limit"
_NEED_A_REASON: Final = ("stop", "deny")


class Command(BaseCommand):
    # Standard output carries only the answer, without the warnings of checks.
    requires_system_checks: list[str] = []
    help = (
        "Show the state of a host, or change it. stop: send no requests; documents wait until they are released. deny: documents end as DENIED until "
        "allow. end-back-off: resume requests immediately. withdraw-limit: end the limit that its webmaster asked for."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "name",
            help="host name, or an address there; without a port, every port is meant; deny and allow also take a pattern such as *.example.com",
        )
        parser.add_argument(
            "verb",
            nargs="?",
            choices=("stop", "release", "end-back-off", _WITHDRAW, *_ARE_PATTERNS),
            help="action to perform",
        )
        parser.add_argument("--reason", help="reason for the stop or the denial")
        parser.add_argument("--confirm", action="store_true", help="stop or deny a host that no crawl has reached")

    def handle(
        self, *_args: Any, name: str, verb: str | None, reason: str | None, confirm: bool, **_options: Any
    ) -> None:
        check_database()
        if (reason is not None or confirm) and verb not in _NEED_A_REASON:
            raise CommandError("--reason and --confirm need the action stop or deny.", returncode=2)
        made_by = getpass.getuser()
        if verb == "deny":
            _do(lambda: deny_list.deny(name, reason=reason or "", confirm=confirm, made_by=made_by, now=read_clock()))
        elif verb == "allow":
            _do(lambda: deny_list.allow_everywhere(name, made_by=made_by))
        elif verb == _WITHDRAW:
            _do(lambda: webmasters.withdraw(hosts.name_meant(name), made_by=made_by))
            self.stdout.write(f"The limit of {name} is withdrawn.")
            return
        if verb in _ARE_PATTERNS:
            self._print_denied()
            return

        def perform() -> str:
            if verb == "stop":
                hosts.stop_named(name, reason=reason or "", confirm=confirm, made_by=made_by, now=read_clock())
            elif verb == "release":
                hosts.release(hosts.find_named(name).pk, made_by=made_by, now=read_clock())
            elif verb == "end-back-off":
                hosts.end_back_off(hosts.find_named(name).pk, made_by=made_by, now=read_clock())
            found = hosts.find_named(name)
            return "\n".join(_line_of_host(line) for line in read_host_statuses([found.pk], now=read_clock()))

        done = _do(lambda: hosts.where_it_is(perform))
        self.stdout.write(f"{done.line} (partition {done.partition})" if done.partition else done.line)

    def _print_denied(self) -> None:
        denials = deny_list.denials()
        self.stdout.write("Denied:" if denials else "No hosts are denied.")
        for denial in denials:
            at_times = "" if denial.is_always else ", at times"
            why = f": {denial.reason}, says {denial.denied_by}" if denial.reason else ""
            self.stdout.write(f"  {denial.pattern} ({denial.policy}, rule {denial.rule}{at_times}){why}")


def _do(action: Callable[[], _T]) -> _T:
    """
    Perform an action on a host.

    Raises:
        CommandError: with code 2 if an object does not exist or is invalid, with code 1 if the action is impossible
        now.
    """
    try:
        return action()
    except HostsUnknown as unknown:
        raise CommandError(f"{unknown} To do it anyway, add --confirm.", returncode=2) from unknown
    except (Unknown, Invalid) as wrong:
        raise CommandError(str(wrong), returncode=2) from wrong
    except NotDone as refused:
        raise CommandError(str(refused), returncode=1) from refused


def _line_of_host(line: HostStatus) -> str:
    counts = f"{line.in_progress} documents in progress, {line.waiting} waiting"
    return f"{line.name}: {verdicts.brief(line.verdict)}, {counts}. {verdicts.sentence_of_host(line, now=line.read_at)}"
