"""`manage.py notification VERB`: channels, rules and messages of notifications."""

import argparse
import getpass
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from django.core.management.base import BaseCommand, CommandError

from jobs.models import Job
from jobs.notices import mailings, verbs
from jobs.notices.channels.registry import KINDS
from jobs.notices.models import NotificationChannel, NotificationMessage, NotificationRule, ReportMailing
from jobs.notices.topics import TOPICS
from nodes.api.parsing import json_in
from nodes.errors import Invalid, NotDone
from nodes.management.database import check_database
from nodes.management.numbers import whole_number

_T = TypeVar("_T", NotificationChannel, NotificationRule)
_MOST_LISTED: Final = 100_000


class Command(BaseCommand):
    # Standard output carries only the answer, without the warnings of checks.
    requires_system_checks: list[str] = []
    help = "Show, test, mute and change channels and rules of notifications (docs/notifications.md)."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add = parser.add_subparsers(dest="verb", required=True).add_parser
        add("channels", help="list the channels")
        add("rules", help="list the rules")
        add("topics", help="list the topics of rules")
        log = add("messages", help="list the last messages")
        log.add_argument(
            "--limit", type=whole_number(1, _MOST_LISTED), default=20, help="number of messages (default: %(default)s)"
        )
        for verb, said in (("test", "send a test message"), ("delete-channel", "delete a channel")):
            add(verb, help=said).add_argument("name", help="name of the channel")
        add("mailings", help="list the scheduled reports")
        self._add_mailing(add("put-mailing", help="store a scheduled report, or replace the one of this name"))
        add("remove-mailing", help="remove a scheduled report").add_argument("name", help="name of the report")
        add("delete-rule", help="delete a rule").add_argument("name", help="name of the rule")
        for noun in ("channel", "rule"):
            mute = add(f"mute-{noun}", help=f"mute a {noun} for some minutes")
            mute.add_argument("name", help=f"name of the {noun}")
            mute.add_argument("minutes", type=int, help="minutes; 0 ends the muting")
        for verb in ("add-channel", "change-channel"):
            channel = add(verb, help=f"{verb.partition('-')[0]} a channel; its secrets are read from a file")
            channel.add_argument("name", help="name of the channel")
            if verb == "add-channel":
                channel.add_argument("kind", choices=tuple(KINDS), help="kind of the channel")
            channel.add_argument(
                "configuration", type=argparse.FileType(), help="JSON file of its fields; - reads standard input"
            )
            channel.add_argument("--most-an-hour", type=int, help="messages an hour")
        for verb in ("add-rule", "change-rule"):
            rule = add(verb, help=f"{verb.partition('-')[0]} a rule")
            rule.add_argument("name", help="name of the rule")
            rule.add_argument("--topic", action="append", help="topic; repeatable")
            rule.add_argument("--channel", action="append", help="name of a channel; repeatable")
            rule.add_argument("--job", help="name of a job: only this one")
            rule.add_argument("--minutes", type=int, help="limit of no_documents and runs_long")
            rule.add_argument("--remind-after", type=int, help="minutes until a reminder")

    @staticmethod
    def _add_mailing(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", help="name of the scheduled report")
        parser.add_argument("--report", required=True, choices=tuple(mailings.REPORTS), help="report to send")
        parser.add_argument("--channel", required=True, help="name of a channel of the kind email")
        parser.add_argument("--cron", help="cron expression, such as '0 7 * * 1'")
        parser.add_argument("--time-zone", help="time zone of the cron expression (default: UTC)")
        parser.add_argument("--every-minutes", type=int, help="minutes between two mails, instead of --cron")
        parser.add_argument("--filter", default="{}", help="parameters of the report, as a JSON object")
        parser.add_argument("--hours", type=int, default=24, help="hours before the mail (default: %(default)s)")
        parser.add_argument("--recipient", action="append", default=[], help="address; repeatable")
        parser.add_argument("--only-text", action="store_true", help="send no HTML")
        parser.add_argument("--no-csv", action="store_true", help="attach no file")

    def handle(self, *_args: Any, verb: str, **given: Any) -> None:
        check_database()
        perform: Callable[[dict[str, Any]], Iterator[str]] = getattr(self, "_" + verb.replace("-", "_"))
        try:
            for line in perform(given):
                self.stdout.write(line)
        except Invalid as invalid:
            raise CommandError(invalid.by_field, returncode=2) from invalid
        except NotDone as refused:
            raise CommandError(str(refused), returncode=1) from refused

    @staticmethod
    def _channels(_given: dict[str, Any]) -> Iterator[str]:
        for channel in NotificationChannel.objects.all():
            error = f", last error: {channel.last_error}" if channel.last_error else ""
            yield f"{channel.name}: {channel.kind}{_muted(channel)}{error}"

    @staticmethod
    def _rules(_given: dict[str, Any]) -> Iterator[str]:
        for rule in NotificationRule.objects.prefetch_related("channels"):
            topics = ", ".join(rule.topics) or "all of the attention list"
            channels = ", ".join(channel.name for channel in rule.channels.all()) or "no channel"
            yield f"{rule.name}: {topics} → {channels}{_muted(rule)}"

    @staticmethod
    def _topics(_given: dict[str, Any]) -> Iterator[str]:
        yield from (f"{name}: {title}" for name, title in TOPICS.items())

    @staticmethod
    def _messages(given: dict[str, Any]) -> Iterator[str]:
        for message in NotificationMessage.objects.select_related("channel")[: given["limit"]]:
            said = f" ({message.answer})" if message.answer else ""
            yield f"{message.at:%Y-%m-%d %H:%M:%S}Z {message.channel.name} {message.state}: {message.subject}{said}"

    @staticmethod
    def _put_mailing(given: dict[str, Any]) -> Iterator[str]:
        try:
            filter_ = json_in(given["filter"], name="The filter")
        except ValueError as error:
            raise CommandError(str(error), returncode=2) from error
        schedule = {name: given[name] for name in ("cron", "time_zone", "every_minutes") if given[name] is not None}
        mailings.put_mailing(
            name=given["name"],
            report=given["report"],
            channel=_find(NotificationChannel, given["channel"]).pk,
            schedule=schedule,
            filter=filter_,
            hours=given["hours"],
            recipients=given["recipient"],
            as_html=not given["only_text"],
            attaches_csv=not given["no_csv"],
            made_by=getpass.getuser(),
        )
        yield f"The report {given['name']} is stored. Send it now:"
        yield f"crawlctl task run mail_report --argument mailing={given['name']}"

    @staticmethod
    def _mailings(_given: dict[str, Any]) -> Iterator[str]:
        for mailing in ReportMailing.objects.select_related("channel"):
            recipients = mailing.recipients or mailing.channel.configuration.get("recipients", [])
            yield f"{mailing.name}: {mailing.report} to {', '.join(recipients)}, task template {mailing.template_urn}"

    @staticmethod
    def _remove_mailing(given: dict[str, Any]) -> Iterator[str]:
        mailings.remove_mailing(given["name"], made_by=getpass.getuser())
        yield f"The scheduled report {given['name']} is removed."

    @staticmethod
    def _test(given: dict[str, Any]) -> Iterator[str]:
        message = verbs.send_test_message(_find(NotificationChannel, given["name"]).pk, made_by=getpass.getuser())
        yield f"Task {message.task} sends a test message to {given['name']}."

    @staticmethod
    def _mute_channel(given: dict[str, Any]) -> Iterator[str]:
        channel = _find(NotificationChannel, given["name"])
        yield _in_words(verbs.mute_channel(channel.pk, minutes=given["minutes"], made_by=getpass.getuser()))

    @staticmethod
    def _mute_rule(given: dict[str, Any]) -> Iterator[str]:
        rule = _find(NotificationRule, given["name"])
        yield _in_words(verbs.mute_rule(rule.pk, minutes=given["minutes"], made_by=getpass.getuser()))

    @staticmethod
    def _delete_channel(given: dict[str, Any]) -> Iterator[str]:
        verbs.delete_channel(_find(NotificationChannel, given["name"]).pk, made_by=getpass.getuser())
        yield f"The channel {given['name']} is deleted."

    @staticmethod
    def _delete_rule(given: dict[str, Any]) -> Iterator[str]:
        verbs.delete_rule(_find(NotificationRule, given["name"]).pk, made_by=getpass.getuser())
        yield f"The rule {given['name']} is deleted."

    @staticmethod
    def _add_channel(given: dict[str, Any]) -> Iterator[str]:
        facts = {"kind": given["kind"], "name": given["name"], **_parts(given)}
        verbs.create_channel(**facts, made_by=getpass.getuser())
        yield f"The channel {given['name']} is stored. Test it: crawlctl notification test {given['name']}"

    @staticmethod
    def _change_channel(given: dict[str, Any]) -> Iterator[str]:
        channel = _find(NotificationChannel, given["name"])
        verbs.change_channel(channel.pk, **_parts(given), made_by=getpass.getuser())
        yield f"The channel {given['name']} is changed."

    @staticmethod
    def _add_rule(given: dict[str, Any]) -> Iterator[str]:
        verbs.create_rule(name=given["name"], **_parts_of_rule(given), made_by=getpass.getuser())
        yield f"The rule {given['name']} is stored."

    @staticmethod
    def _change_rule(given: dict[str, Any]) -> Iterator[str]:
        rule = _find(NotificationRule, given["name"])
        verbs.change_rule(rule.pk, **_parts_of_rule(given), made_by=getpass.getuser())
        yield f"The rule {given['name']} is changed."


def _find(model: type[_T], name: str) -> _T:
    found = model._default_manager.filter(name=name).first()  # noqa: SLF001 (Django's own word)
    if found is None:
        noun = model.__name__.removeprefix("Notification").lower()
        raise CommandError(f"No {noun} has the name {name!r}.", returncode=2)
    return found


def _parts(given: dict[str, Any]) -> dict[str, Any]:
    with given["configuration"] as file:
        try:
            configuration = json_in(file.read(), name="The configuration")
        except UnicodeError as error:
            raise CommandError("The configuration is not a text.", returncode=2) from error
        except ValueError as error:
            raise CommandError(str(error), returncode=2) from error
    parts = {"configuration": configuration}
    return parts if given["most_an_hour"] is None else {**parts, "most_an_hour": given["most_an_hour"]}


def _parts_of_rule(given: dict[str, Any]) -> dict[str, Any]:
    parts: dict[str, Any] = {name: given[name] for name in ("minutes", "remind_after") if given[name] is not None}
    if given["topic"] is not None:
        parts["topics"] = given["topic"]
    if given["channel"] is not None:
        parts["channels"] = [_find(NotificationChannel, name).pk for name in given["channel"]]
    if given["job"] is not None:
        job = Job.objects.filter(name=given["job"]).first()
        if job is None:
            raise CommandError(f"No job has the name {given['job']!r}.", returncode=2)
        parts["job"] = job.pk
    return parts


def _muted(thing: NotificationChannel | NotificationRule) -> str:
    return f", muted until {thing.muted_until:%Y-%m-%d %H:%M}Z" if thing.muted_until else ""


def _in_words(thing: NotificationChannel | NotificationRule) -> str:
    return f"{thing.name}{_muted(thing) or ', not muted'}"
