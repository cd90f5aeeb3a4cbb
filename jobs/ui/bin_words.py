"""What limits a bin, in words: on the page of hosts, of one host, of a job, and in the story of a document."""

import datetime as dt

from django.utils.translation import gettext as _

from jobs.limit_words import limits_in_words
from jobs.models import Bin
from jobs.queries.bin_lines import BinLine, ParentLine, SourceLine, said_by_of
from jobs.throttling.limits import UNLIMITED_REQUESTS
from jobs.throttling.sources import Origin
from jobs.throttling.verdict import Cause
from jobs.ui import words

# The tone of each cause that has one.
_TONES = {
    Cause.STOPPED: "failed",
    Cause.DENIED: "failed",
    Cause.CLOSED: "waiting",
    Cause.NO_WORKER: "failed",
    Cause.NO_OWNER: "failed",
    Cause.BACK_OFF: "excluded",
    Cause.TRIAL: "excluded",
    Cause.NOTHING_WAITS: "quiet",
    Cause.NOT_DUE: "waiting",
    Cause.NEXT: "waiting",
}


def tone_of(line: BinLine) -> str:
    return _TONES.get(line.verdict.cause, "working")


def cause(line: BinLine) -> str:
    """What keeps it from being asked for more, in a word or two."""
    return {
        Cause.STOPPED: _("stopped"),
        Cause.DENIED: _("denied"),
        Cause.CLOSED: _("denied now"),
        Cause.BACK_OFF: _("backs off"),
        Cause.NOTHING_WAITS: _("nothing waits"),
        Cause.NO_WORKER: _("no worker"),
        Cause.NO_OWNER: _("no manager"),
        Cause.NOT_DUE: _("not due"),
        Cause.TRIAL: _("coming back"),
        Cause.PARENT: _("limited from above"),
        Cause.GAP: _("its pace"),
        Cause.BYTES: _("its bytes"),
        Cause.REQUESTS: _("its open requests"),
        Cause.NEXT: _("next in line"),
        Cause.HOST: _("the host itself"),
    }[line.verdict.cause]


def source(said_by: SourceLine) -> str:
    """Who says a limit."""
    match said_by.source.origin:
        case Origin.ROBOTS:
            return _("its robots.txt")
        case Origin.STOP:
            return _("an administrator")
        case Origin.USUAL:
            return _("what is usual without a policy")
        case _ if said_by.source.rule is not None:
            return _("rule %(n)d of policy “%(policy)s”") % {"n": said_by.source.rule, "policy": said_by.policy}
        case _:
            return _("policy “%(policy)s”") % {"policy": said_by.policy}


def parent(above: ParentLine) -> str:
    """What stands above a bin."""
    if above.namespace == Bin.ADDRESS:
        return _("all hosts at %(address)s") % {"address": above.name}
    if above.is_everywhere:
        return _("the whole cluster (policy “%(policy)s”)") % {"policy": above.name}
    return _("all hosts of policy “%(policy)s” together") % {"policy": above.name}


def sentence(line: BinLine, *, now: dt.datetime) -> str:
    """What keeps it from being asked for more: what, by whom, and until when if that is known."""
    verdict, said_by = line.verdict, said_by_of(line)
    by = source(said_by) if said_by else ""
    when = words.time_until(verdict.until, now=now) if verdict.until else ""
    match verdict.cause:
        case Cause.STOPPED:
            return _("%(who)s stopped it %(age)s: %(why)s") % {
                "who": line.stopped_by,
                "age": words.age(line.stopped_at or now, now=now),
                "why": line.stopped_why,
            }
        case Cause.DENIED:
            return _("Nothing is fetched from it: %(by)s denies it.") % {"by": by}
        case Cause.CLOSED:
            return _("Nothing is fetched from it now: %(by)s denies it at this time. What waits goes on %(when)s.") % {
                "by": by,
                "when": when,
            }
        case Cause.BACK_OFF:
            return _("It said that it is asked too much (level %(level)d), so it is left alone; next try %(when)s.") % {
                "level": line.back_off_level,
                "when": when,
            }
        case Cause.TRIAL:
            return _(
                "It was asked too much and comes back: one document at a time, until it has answered %(level)d times."
            ) % {"level": line.back_off_level}
        case Cause.NOTHING_WAITS:
            return _("Nothing waits for it.")
        case Cause.NO_WORKER:
            return _("No live worker may have its documents.")
        case Cause.NO_OWNER:
            return _("No manager has the seeds of its documents yet.")
        case Cause.NOT_DUE:
            return _("What waits for it is not due yet.")
        case Cause.PARENT:
            assert line.parent is not None
            return _("It shares %(limits)s with %(parent)s.") % {
                "limits": limits_in_words(line.parent.limits),
                "parent": parent(line.parent),
            }
        case Cause.GAP:
            return _("One start every %(gap)s s at most: %(by)s.") % {"gap": f"{line.limits.gap:.4g}", "by": by}
        case Cause.BYTES:
            most = words.size(int(line.limits.bytes_per_second or 0))
            return _("%(bytes)s a second at most: %(by)s.") % {"bytes": most, "by": by}
        case Cause.REQUESTS:
            return _("As fast as it answers %(n)d requests at a time: %(by)s.") % {"n": line.limits.requests, "by": by}
        case Cause.NEXT:
            return _("Its documents are next.")
        case Cause.HOST:
            return _("Nothing: it is asked as fast as it answers.")


def allowed(line: BinLine) -> str:
    """What it may be asked for, short."""
    return limits_in_words(line.limits)


def requests(number: int) -> str:
    return _("any number") if number >= UNLIMITED_REQUESTS else words.number(number)


def next_start(line: BinLine, *, now: dt.datetime) -> str:
    if line.next_start_at is not None:
        return words.time_until(line.next_start_at, now=now)
    return _("under way") if line.in_work else words.UNKNOWN
