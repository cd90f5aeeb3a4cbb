"""Scheduled reports by e-mail: their checks, and the task that sends one."""

import csv
import datetime as dt
import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from django.db import transaction
from rest_framework import serializers

from jobs.api.downloads import safe_cell
from jobs.api.reports import views as reports
from jobs.notices.channels.email import problems_of_addresses
from jobs.notices.channels.letter import Attachment, Letter, NotSent
from jobs.notices.models import NotificationChannel, NotificationMessage, ReportMailing
from jobs.notices.sending import deliver
from jobs.partitions import this_partition
from nodes.database.clock import read_clock
from nodes.errors import Invalid, Refused, Unknown
from nodes.membership.changes import record_change
from nodes.tasks import verbs
from nodes.tasks.context import TaskContext
from nodes.tasks.models import TaskTemplate
from nodes.tasks.names import is_group

REPORTS: Final[Mapping[str, type[reports.ReportView]]] = {
    "documents": reports.DocumentStatusView,
    "queue": reports.QueueStatusView,
    "history": reports.HistoryView,
    "results": reports.HistogramView,
    "activity": reports.BusyView,
    "bandwidth": reports.BandwidthView,
}
# Largest number of rows in the text of a mail, and in its attached file.
_SHOWN: Final = 50
_MOST_ROWS: Final = 10_000
_PAGE: Final = 500
_MOST_HOURS: Final = 366 * 24
# Parameters of a report that cannot be stored, because their values follow from the moment of sending.
_OF_THE_MOMENT: Final = frozenset({"since", "until", "now", "cursor", "limit"})
_FACTS: Final = ("name", "report", "filter", "hours", "channel_id", "recipients", "as_html", "attaches_csv")


class MailingRefused(Refused):
    """The action is impossible in the present state."""

    code = "mailing_refused"


@transaction.atomic
def put_mailing(
    *,
    name: object,
    report: object,
    channel: object,
    schedule: object,
    filter: object = None,  # noqa: A002 (the word of the API)
    hours: object = 24,
    recipients: object = None,
    as_html: bool = True,
    attaches_csv: bool = True,
    made_by: str,
) -> ReportMailing:
    """
    Create the mailing of this name with its template, or update it.

    Raises:
        Invalid: a part is invalid.
    """
    problems: dict[str, list[str]] = {}
    if not isinstance(name, str) or not is_group(name):
        raise Invalid({"name": ["A name has 1 to 64 letters, digits, dots, dashes and underscores."]})
    filter = {} if filter is None else filter  # noqa: A001 (the word of the API)
    recipients = [] if recipients is None else recipients
    if report not in REPORTS:
        problems["report"] = [f"Write one of {', '.join(REPORTS)}."]
    else:
        problems |= _problems_of_filter(str(report), filter)
    if not isinstance(hours, int) or isinstance(hours, bool) or not 1 <= hours <= _MOST_HOURS:
        problems["hours"] = [f"Write a whole number of hours from 1 to {_MOST_HOURS}."]
    if said := problems_of_addresses(recipients, least=0):
        problems["recipients"] = said
    found = NotificationChannel.objects.filter(pk=channel, kind="email").first() if isinstance(channel, int) else None
    if found is None:
        problems["channel"] = ["Choose a channel of the kind email."]
    if problems or found is None:
        raise Invalid(problems)
    stored = ReportMailing.objects.select_for_update().filter(name=name).first()
    before = _facts(stored) if stored else {}
    mailing = stored or ReportMailing(name=name, created_by=made_by)
    mailing.report, mailing.filter, mailing.hours = str(report), filter, int(str(hours))
    mailing.channel, mailing.recipients = found, list(map(str, recipients)) if isinstance(recipients, list) else []
    mailing.as_html, mailing.attaches_csv = as_html, attaches_csv
    mailing.save()
    mailing.refresh_from_db()
    # The schedule is stored in the template only.
    verbs.put_template(
        urn=mailing.template_urn,
        kind="mail_report",
        arguments={"mailing": name},
        schedule=schedule,
        unique=True,
        made_by=made_by,
    )
    record_change(f"report mailing {name}", before=before, after=_facts(mailing), made_by=made_by)
    return mailing


@transaction.atomic
def remove_mailing(name: str, *, made_by: str) -> None:
    """
    Remove a mailing with its template.

    Raises:
        Unknown: the mailing does not exist.
    """
    mailing = ReportMailing.objects.select_for_update().filter(name=name).first()
    if mailing is None:
        raise Unknown("mailing", name, f"There is no report mailing {name!r}.")
    if TaskTemplate.objects.filter(urn=mailing.template_urn).exists():
        verbs.remove_template(mailing.template_urn, made_by=made_by)
    record_change(f"report mailing {name}", before=_facts(mailing), after={}, made_by=made_by)
    mailing.delete()


def mail_report(context: TaskContext, arguments: Mapping[str, Any]) -> str:
    """
    Send a report by e-mail; return the answer of the mail server.

    Raises:
        NotSent: another attempt follows by the policy of the task.
    """
    mailing = ReportMailing.objects.select_related("channel").filter(name=arguments["mailing"]).first()
    if mailing is None:
        raise NotSent(f"there is no report mailing {arguments['mailing']}")
    if not mailing.channel.is_enabled:
        raise NotSent(f"the channel {mailing.channel.name} is disabled")
    now = read_clock()
    rows, is_whole, silent = read_rows(mailing, now=now)
    names = [field.replace("_", " ") for field in rows[0]] if rows else []
    cells = [[_text(value) for value in row.values()] for row in rows[:_SHOWN]]
    number = f"{len(rows):,} rows" if is_whole else f"the first {len(rows):,} rows"
    lead = f"Report “{mailing.report}” of {now:%Y-%m-%d %H:%M} UTC: {number}."
    if partition := this_partition.only_name():
        lead += f" It is about partition {partition} only."
    if silent:
        lead += f" Rows of partition {', '.join(silent)} are missing: it did not answer."
    if len(rows) > _SHOWN:
        lead += f" This mail shows {_SHOWN} of them."
    text = "\n".join([lead, "", *("\t".join(row) for row in ([names, *cells] if rows else []))])
    message = _message_of(context, mailing, lead=lead, now=now)
    if message.state == NotificationMessage.State.SENT:
        # An earlier attempt sent the mail, and its process was killed before the task ended.
        return message.answer
    letter = Letter(
        # The id is the same in each attempt of a task.
        id=f"report_crawlctl_{context.task}",
        about=message.about,
        topic="report",
        rule=mailing.name,
        subject=f"[crawlctl] {message.subject}",
        text=text,
        link="",
        at=now,
        html=_as_html(lead, names, cells) if mailing.as_html else "",
        recipients=mailing.recipients,
        attachments=[Attachment(name=f"{mailing.name}-{now:%Y%m%d-%H%M}.csv", content=_as_csv(rows))]
        if mailing.attaches_csv
        else [],
    )
    return deliver(message, letter, is_last=context.is_last_retry)


def _message_of(context: TaskContext, mailing: ReportMailing, *, lead: str, now: dt.datetime) -> NotificationMessage:
    """Return the message of a task. All attempts of a task have the same message."""
    about = NotificationMessage.About.REPORT
    known = None
    if context.retry_number:
        known = NotificationMessage.objects.filter(task=context.task, about=about).order_by("pk").last()
    if known is None:
        return NotificationMessage.objects.create(
            channel=mailing.channel,
            about=about,
            subject=f"Report {mailing.name}",
            text=lead,
            at=now,
            task=context.task,
        )
    if known.state != NotificationMessage.State.SENT:
        known.text, known.at = lead, now
        known.save(update_fields=["text", "at"])
    return known


def read_rows(mailing: ReportMailing, *, now: dt.datetime) -> tuple[list[Mapping[str, Any]], bool, list[str]]:
    """
    Return the rows of a report up to a limit, True if there are no further rows, and the partitions whose rows are
    missing.
    """
    view = REPORTS[mailing.report]()
    query = view.query_class(data={**mailing.filter, **_moments(view, hours=mailing.hours, now=now), "limit": _PAGE})
    query.is_valid(raise_exception=True)
    wanted = dict(query.validated_data)
    rows: list[Mapping[str, Any]] = []
    silent: dict[str, None] = {}
    while True:
        page = view.read(wanted)
        silent |= dict.fromkeys(one.name for one in page.silent)
        rows += view.line_class(page.lines, many=True).data
        if page.next is None or len(rows) >= _MOST_ROWS:
            return rows[:_MOST_ROWS], page.next is None, list(silent)
        wanted["cursor"] = page.next


def _problems_of_filter(report: str, wanted: object) -> dict[str, list[str]]:
    if not isinstance(wanted, Mapping):
        return {"filter": ["A filter is an object with parameters of the report."]}
    if set(wanted) & _OF_THE_MOMENT:
        names = ", ".join(sorted(set(wanted) & _OF_THE_MOMENT))
        return {"filter": [f"The moment of sending decides these parameters: {names}."]}
    view = REPORTS[report]()
    query = view.query_class(data=dict(wanted))
    try:
        query.is_valid(raise_exception=True)
    except serializers.ValidationError as invalid:
        detail: Any = invalid.detail
        return {f"filter.{name}": [str(one) for one in _flat(said)] for name, said in detail.items()}
    return {}


def _flat(said: object) -> Sequence[object]:
    if isinstance(said, Mapping):
        return [inner for one in said.values() for inner in _flat(one)]
    return said if isinstance(said, list) else [said]


def _moments(view: reports.ReportView, *, hours: int, now: dt.datetime) -> dict[str, str]:
    if "since" not in view.query_class().fields:
        return {"now": now.isoformat()}
    return {"since": (now - dt.timedelta(hours=hours)).isoformat(), "until": now.isoformat()}


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    if rows:
        writer.writerow(rows[0])
    writer.writerows([safe_cell(value) for value in row.values()] for row in rows)
    return text.getvalue()


def _as_html(lead: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th align=left>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<p>{escape(lead)}</p><table cellpadding=4><tr>{head}</tr>{body}</table>"


def _text(value: object) -> str:
    return "" if value is None else " ".join(str(value).split())


def _facts(mailing: ReportMailing) -> dict[str, Any]:
    return {name: getattr(mailing, name) for name in _FACTS}
