"""The texts of the pages of hosts; see `nodes.web.screens` for the structure of a screen."""

import datetime as dt
from collections.abc import Sequence
from typing import Final

from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.partitions.merged import Placed
from jobs.partitions.this_partition import address_in, key_in
from jobs.queries.hosts.answers import Answers, Refusal
from jobs.queries.hosts.limits import SourceLine
from jobs.queries.hosts.lines import HostStatus, ParentLine
from jobs.queries.hosts.page import HostPage, LaneLine
from jobs.queries.meter import STEP, STEPS
from jobs.throttling.sources import Origin
from jobs.ui.job_rows import documents_address
from jobs.verdicts.results import class_of
from jobs.words import charges, verdicts
from jobs.words.codes import explain_code
from jobs.words.limits import limits_in_brief, share_in_words
from nodes.web import formats
from nodes.web.screens import Record

# Width and height of the small chart of a row, and of the large chart of a page, in units of SVG. The style sheet
# stretches both.
_SPARK: Final = (60, 16)
_PICTURE: Final = (300, 60)


def hosts_screen(lines: Sequence[Placed[HostStatus]], *, now: dt.datetime) -> Record:
    return {"hosts": [host_row(one.line, partition=one.partition, now=now) for one in lines]}


def host_row(line: HostStatus, *, partition: str = "", now: dt.datetime) -> Record:
    """Return the row of a host. `partition` is the partition that has it, "" for this one."""
    points, _top = _points(line.history, *_SPARK)
    since = line.limited_since
    return {
        "key": key_in(partition, line.id),
        "name": line.name,
        "partition": _("In partition %(name)s") % {"name": partition} if partition else "",
        "address": host_address(line.id, partition=partition),
        "cause": verdicts.brief(line.verdict),
        "tone": verdicts.tone(line.verdict),
        "says": verdicts.sentence_of_host(line, now=now),
        "remedy": verdicts.remedy(line.verdict),
        "since": _("Since %(moment)s UTC.") % {"moment": formats.moment(since, now=now)} if since else "",
        "allowed": verdicts.allowed(line),
        "allowed_in_brief": limits_in_brief(line.limits),
        "rate": formats.rate(line.starts_per_second),
        "read": _read(line.bytes_per_second),
        "spark": points,
        "open": verdicts.open_requests(line),
        "in_progress": formats.number(line.in_progress),
        "waiting": formats.number(line.waiting),
        "next": verdicts.next_start(line, now=now),
    }


def host_address(host_id: int, *, partition: str = "") -> str:
    """Return the address of the page of a host. `partition` is the partition that has it, "" for this one."""
    return address_in(partition, reverse("host", args=[host_id]))


def host_screen(page: HostPage, *, now: dt.datetime) -> Record:
    line = page.host
    return {
        **host_row(line, now=now),
        **_picture(line),
        "rate_says": _("starts per second"),
        "back_off": _back_off(line, now=now),
        "limits": _limits(line, now=now),
        **charges.cells(page.charges),
        "parents": [_parent_row(above, now=now) for above in line.parents],
        "lanes": [_lane_row(line, lane, now=now) for lane in page.lanes],
        **_answers(page.answers, now=now),
    }


def _answers(answers: Answers, *, now: dt.datetime) -> Record:
    return {
        "answers_since": _("%(n)s answers since %(moment)s UTC")
        % {"n": formats.number(answers.count), "moment": formats.moment(answers.since, now=now)}
        if answers.since
        else "",
        "half_within": _seconds(answers.p50),
        "most_within": _seconds(answers.p95),
        "errors": formats.share(answers.failed, answers.count),
        "codes": [
            {
                "key": code,
                "code": code,
                "tone": str(class_of(code)),
                "meaning": explain_code(code),
                "count": formats.number(amount),
                "share": formats.share(amount, answers.count),
            }
            for code, amount in answers.by_code.items()
        ],
        "refusals": [_refusal_row(refusal, now=now) for refusal in answers.refusals],
    }


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return formats.UNKNOWN
    if seconds < 0.9995:
        return _("%(n)s ms") % {"n": formats.decimal(seconds * 1000, digits=3)}
    return _("%(n)s s") % {"n": formats.decimal(seconds, digits=3)}


def _back_off(line: HostStatus, *, now: dt.datetime) -> str:
    """Return the end of the back-off, or the level from which the host recovers."""
    if not line.back_off_level or line.back_off_until is None:
        return formats.UNKNOWN
    if line.back_off_until > now:
        return formats.time_until(line.back_off_until, now=now)
    return _("ended, level %(level)d") % {"level": line.back_off_level}


# --- Pictures ------------------------------------------------------------------------------------


def _points(history: Sequence[float | None], width: int, height: int, *, least_top: float = 0.0) -> tuple[str, float]:
    """
    Return the points of the chart's line through the known rates, and the rate for which the top of the chart stands.
    """
    known = [(step, rate) for step, rate in enumerate(history) if rate is not None]
    top = max([least_top, *(rate for _step, rate in known)])
    scale = (height - 2) / top if top else 0.0
    step_width = width / (STEPS - 1)
    return " ".join(f"{step * step_width:.0f},{height - 1 - rate * scale:.0f}" for step, rate in known), top


def _picture(line: HostStatus) -> Record:
    """Return the chart of the rate in the last minutes, with the line of the allowed rate."""
    width, height = _PICTURE
    # No allowed rate is shown for a host without waiting documents and without documents in progress: its job has
    # ended, and the policy of the job no longer limits the host.
    allowed = line.allowed_starts_per_second if line.waiting or line.in_progress else None
    points, top = _points(line.history, width, height, least_top=1.1 * allowed if allowed else 0.0)
    at = height - 1 - allowed * (height - 2) / top if allowed and top else None
    minutes = round(STEPS * STEP / 60)
    said = (
        _("the last %(minutes)d minutes; allowed: %(allowed)s per second")
        if allowed
        else _("the last %(minutes)d minutes")
    )
    return {
        "line": points,
        "area": f"{points.split(',', 1)[0]},{height} {points} {points.rsplit(' ', 1)[-1].split(',')[0]},{height}"
        if points
        else "",
        "most": f"0,{at:.0f} {width},{at:.0f}" if at is not None else "",
        "picture": said % {"minutes": minutes, "allowed": formats.rate(allowed)},
    }


def _read(rate: float | None) -> str:
    return formats.UNKNOWN if rate is None else formats.size(int(rate))


# --- Limits --------------------------------------------------------------------------------------


def _limits(line: HostStatus, *, now: dt.datetime) -> list[Record]:
    limits, set_by = line.limits, line.set_by
    gap = _("one every %(gap)s s") % {"gap": formats.decimal(limits.gap)}
    rows = [
        (
            _("Open requests"),
            verdicts.open_requests(line),
            verdicts.requests(limits.requests),
            set_by.requests,
        ),
        (
            _("Starts per second"),
            formats.rate(line.starts_per_second),
            gap if limits.gap else _("no limit"),
            set_by.gap,
        ),
        (
            _("Bytes per second"),
            _read(line.bytes_per_second),
            _bytes(limits.bytes_per_second),
            set_by.bytes_per_second,
        ),
    ]
    found = [_limit_row(*row, now=now) for row in rows]
    if set_by.denied is None:
        return found
    by = line.stopped_by if set_by.denied.source.origin == Origin.STOP else ""
    return [_limit_row(_("All requests"), "", _("none"), set_by.denied, now=now, by=by), *found]


def _limit_row(
    what: str, actual: str, most: str, set_by: SourceLine | None, *, now: dt.datetime, by: str = ""
) -> Record:
    since = set_by.since if set_by else None
    until = set_by.source.until if set_by else None
    return {
        "key": what,
        "what": what,
        "actual": actual,
        "most": most,
        "by": by or (verdicts.source(set_by) if set_by else ""),
        "since": formats.moment(since, now=now) if since else "",
        "until": formats.moment(until, now=now) if until else "",
    }


def _bytes(most: float | None) -> str:
    return _("no limit") if most is None else formats.size(int(most))


def _parent_row(above: ParentLine, *, now: dt.datetime) -> Record:
    opens = above.opens_at
    return {
        "key": str(above.id),
        "name": verdicts.parent(above),
        "limits": share_in_words(above.limits, above.whole),
        "open": formats.number(above.open_requests),
        "rate": formats.rate(above.starts_per_second),
        "read": _read(above.bytes_per_second),
        "opens": formats.time_until(opens, now=now) if opens and opens > now else "",
    }


def _lane_row(line: HostStatus, lane: LaneLine, *, now: dt.datetime) -> Record:
    return {
        "key": str(lane.id),
        "job": lane.job_name,
        "job_address": reverse("job", args=[lane.job_id]),
        "seed": lane.seed,
        "tag": _("needs a worker with the tag “%(tag)s”") % {"tag": lane.tag} if lane.tag else "",
        "priority": formats.number(lane.priority),
        "waiting": formats.number(lane.waiting),
        "in_progress": formats.number(lane.in_progress),
        "documents_address": documents_address(job=lane.job_id, host=line.name),
        "served": formats.age(lane.served_at, now=now) if lane.served_at else _("not yet"),
        "owner": lane.owner or formats.UNKNOWN,
        "rests": "" if lane.may_run else _("job not crawling"),
    }


def _refusal_row(refusal: Refusal, *, now: dt.datetime) -> Record:
    return {
        "key": f"{refusal.at.timestamp()} {refusal.address}",
        "at": formats.moment(refusal.at, now=now),
        "address": refusal.address,
        "code": refusal.code,
        "meaning": explain_code(refusal.code),
    }
