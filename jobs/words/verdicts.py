"""Verdicts in words, for pages, the API and commands: the cause, its author, its end, and its remedy."""

import datetime as dt

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.models import Bin
from jobs.queries.hosts.limits import SourceLine
from jobs.queries.hosts.lines import HostStatus, ParentLine, set_by_of
from jobs.throttling.limits import UNLIMITED_REQUESTS
from jobs.throttling.sources import Origin
from jobs.verdicts.causes import Cause, Verdict, is_of_job
from jobs.verdicts.requests import Requests
from jobs.words.limits import limits_in_words, share_in_words
from nodes.web import formats

# The tone of each cause that stops or delays work; other causes let work continue.
_TONES = {
    Cause.DISK: "failed",
    Cause.NOT_RUNNING: "quiet",
    Cause.STARTING: "waiting",
    Cause.ENDING: "waiting",
    Cause.ABORTING: "excluded",
    Cause.PAUSED: "excluded",
    Cause.OUTPUT: "failed",
    Cause.ARCHIVE: "failed",
    Cause.SLOTS: "waiting",
    Cause.WINDOW: "excluded",
    Cause.CONNECTOR: "failed",
    Cause.GUARD: "failed",
    Cause.GATE: "waiting",
    Cause.BUDGET: "excluded",
    Cause.RETRY: "waiting",
    Cause.OTHER_JOB: "waiting",
    Cause.NO_MANAGER: "failed",
    Cause.NO_WORKER: "failed",
    Cause.NO_TAG: "failed",
    Cause.NO_OWNER: "waiting",
    Cause.GROUP_FAILS: "failed",
    Cause.STOPPED: "denied",
    Cause.DENIED: "denied",
    Cause.CLOSED: "denied",
    Cause.BACK_OFF: "excluded",
    Cause.TRIAL: "excluded",
    Cause.JOBS_HELD: "excluded",
    Cause.NOT_DUE: "waiting",
    Cause.NEXT: "waiting",
    Cause.NOTHING_WAITS: "quiet",
}


def tone(verdict: Verdict) -> str:
    return "failed" if verdict.failing is not None else _TONES.get(verdict.cause, "working")


def brief(verdict: Verdict) -> str:
    """Return the verdict in a word or two."""
    if verdict.failing is not None:
        return _("failing")
    return cause_in_brief(verdict.cause)


def cause_in_brief(cause: Cause) -> str:
    return {
        Cause.DISK: _("waits for free disk"),
        Cause.NOT_RUNNING: _("not running"),
        Cause.STARTING: _("starting"),
        Cause.ENDING: _("ending"),
        Cause.ABORTING: _("aborting"),
        Cause.PAUSED: _("paused"),
        Cause.OUTPUT: _("waits for its output"),
        Cause.ARCHIVE: _("waits for its archive"),
        Cause.SLOTS: _("slots move"),
        Cause.WINDOW: _("waits for its window"),
        Cause.CONNECTOR: _("connector missing"),
        Cause.GUARD: _("waits for approval"),
        Cause.GATE: _("waits for a login"),
        Cause.BUDGET: _("document limit reached"),
        Cause.RETRY: _("waits for a retry"),
        Cause.OTHER_JOB: _("read by another job"),
        Cause.IN_PROGRESS: _("in progress"),
        Cause.NO_MANAGER: _("no manager"),
        Cause.NO_WORKER: _("no worker"),
        Cause.NO_TAG: _("no worker with the tag"),
        Cause.NO_OWNER: _("waits for a manager"),
        Cause.GROUP_FAILS: _("cannot be handed out"),
        Cause.WORKERS: _("held by workers"),
        Cause.STOPPED: _("stopped"),
        Cause.DENIED: _("denied"),
        Cause.CLOSED: _("denied now"),
        Cause.BACK_OFF: _("backing off"),
        Cause.TRIAL: _("recovering"),
        Cause.RAMPING: _("ramping up"),
        Cause.PARENT: _("held by a shared limit"),
        Cause.GAP: _("held by policy"),
        Cause.CRAWL_DELAY: _("held by crawl-delay"),
        Cause.BYTES: _("held by bytes"),
        Cause.REQUESTS: _("held by connections"),
        Cause.JOBS_HELD: _("jobs are held"),
        Cause.NOT_DUE: _("not due"),
        Cause.NEXT: _("next in line"),
        Cause.NOTHING_WAITS: _("nothing waits"),
    }[cause]


def source(set_by: SourceLine) -> str:
    """Return the policy, person or file that sets a limit."""
    match set_by.source.origin:
        case Origin.ROBOTS:
            return _("its robots.txt")
        case Origin.STOP:
            return _("an operator")
        case Origin.USUAL:
            return _("the default without a policy")
        case _ if set_by.source.rule is not None:
            return _("rule %(n)d of policy “%(policy)s”") % {"n": set_by.source.rule, "policy": set_by.policy}
        case _:
            return _("policy “%(policy)s”") % {"policy": set_by.policy}


def parent(above: ParentLine) -> str:
    """Return the name of a parent of a host. The limits of a parent apply to several hosts together."""
    if above.namespace == Bin.ADDRESS:
        return _("all hosts at %(address)s") % {"address": above.name}
    if above.is_everywhere:
        return _("the whole cluster (policy “%(policy)s”)") % {"policy": above.name}
    return _("all hosts of policy “%(policy)s” together") % {"policy": above.name}


def failures(requests: Requests) -> str:
    """Return the share of requests that failed, and their most frequent code."""
    return _("%(failed)s of the last %(ended)s requests failed (%(code)s).") % {
        "failed": formats.number(requests.failed),
        "ended": formats.number(requests.ended),
        "code": requests.code,
    }


def sentence_of_host(line: HostStatus, *, now: dt.datetime) -> str:
    """Return the verdict on a host: the cause, its author, and its end if that is known."""
    return _with_failures(line.verdict, _of_host(line, now=now))


def sentence(verdict: Verdict, *, now: dt.datetime, line: HostStatus | None = None) -> str:
    """Return the verdict on a job, or on a document at the host that `line` describes, as a sentence."""
    if line is not None and not is_of_job(verdict.cause):
        said = _of_host(line, now=now, verdict=verdict)
    else:
        said = _of_job(verdict, now=now)
    return _with_failures(verdict, said or _brief_sentence(verdict))


def _with_failures(verdict: Verdict, said: str) -> str:
    return f"{failures(verdict.failing)} {said}" if verdict.failing is not None else said


def _brief_sentence(verdict: Verdict) -> str:
    brief_ = cause_in_brief(verdict.cause)
    return _sentence(f"{brief_[:1].upper()}{brief_[1:]}")


def _sentence(said: str, detail: str = "") -> str:
    """Return words as a sentence, with the full stop of the user's language."""
    return _("%(said)s: %(why)s.") % {"said": said, "why": detail} if detail else _("%(said)s.") % {"said": said}


def _of_job(verdict: Verdict, *, now: dt.datetime) -> str:
    """
    Return a sentence for a cause that concerns a job, a document or the cluster; '' for a cause that concerns a host.
    """
    facts = {
        "by": verdict.by or _("crawlctl"),
        "age": formats.age(verdict.since, now=now) if verdict.since else "",
        "detail": verdict.detail.rstrip("."),
        "when": formats.time_until(verdict.until, now=now) if verdict.until else "",
    }
    match verdict.cause:
        case Cause.DISK:
            return _("No worker takes work: %(detail)s.") % facts
        case Cause.NOT_RUNNING:
            return _sentence(_("The job is not running"), facts["detail"])
        case Cause.STARTING:
            return _("The run is being prepared.")
        case Cause.ENDING:
            return _("No document waits. The run is being closed.")
        case Cause.ABORTING:
            return _("The run is being aborted.")
        case Cause.PAUSED:
            said = _("%(by)s paused the job %(age)s") % facts if verdict.since else _("The job is paused")
            return _sentence(said, facts["detail"])
        case Cause.OUTPUT:
            return _("The job was paused %(age)s since an output refused: %(detail)s.") % facts
        case Cause.ARCHIVE:
            return _("The job was held %(age)s, because its archive is full: %(detail)s.") % facts
        case Cause.SLOTS:
            return _("The job waits while slots move between partitions.")
        case Cause.WINDOW:
            if verdict.until:
                return _("The job waits for its window, which opens %(when)s.") % facts
            return _("The job is %(detail)s.") % facts if verdict.detail else _("The job waits for its window.")
        case Cause.CONNECTOR:
            return _sentence(_("The job cannot use a connector"), facts["detail"])
        case Cause.GUARD:
            return _sentence(_("Removals wait for an operator's approval"), facts["detail"])
        case Cause.GATE:
            return _("It waits for %(detail)s, which %(by)s closed %(age)s.") % facts
        case Cause.BUDGET:
            return _("The run has used up its document limit.")
        case Cause.RETRY:
            return _("It is retried %(when)s.") % facts
        case Cause.OTHER_JOB:
            return _("Job %(detail)s has claimed the same document. Two jobs never read it at the same time.") % facts
        case Cause.NOT_DUE if verdict.until:
            return _("No document is due. The next one is read again %(when)s.") % facts
        case Cause.IN_PROGRESS:
            return _("Worker %(detail)s reads it now.") % facts if verdict.detail else _("Workers read it now.")
        case Cause.NO_MANAGER:
            return _("No manager is running. Start one with “crawlctl runmanager”.")
        case Cause.NO_WORKER:
            return _("No worker is running. Start one with “crawlctl runworker”.")
        case _:
            return ""


def _of_host(line: HostStatus, *, now: dt.datetime, verdict: Verdict | None = None) -> str:
    verdict = verdict or line.verdict
    set_by = set_by_of(line, verdict)
    host, by = line.name, source(set_by) if set_by else ""
    when = formats.time_until(verdict.until, now=now) if verdict.until else ""
    match verdict.cause:
        case Cause.STOPPED:
            return _("%(by)s stopped %(host)s %(age)s: %(why)s.") % {
                "host": host,
                "by": line.stopped_by,
                "age": formats.age(line.stopped_at or now, now=now),
                "why": line.stopped_why.rstrip("."),
            }
        case Cause.DENIED:
            return _("Nothing is fetched from %(host)s: %(by)s denies it.") % {"host": host, "by": by}
        case Cause.CLOSED:
            return _(
                "Nothing is fetched from %(host)s now: %(by)s denies it at this time. Requests start again %(when)s."
            ) % {"host": host, "by": by, "when": when}
        case Cause.BACK_OFF:
            return _("%(host)s asked for fewer requests (level %(level)d). The next request starts %(when)s.") % {
                "host": host,
                "level": line.back_off_level,
                "when": when,
            }
        case Cause.TRIAL:
            return ngettext(
                "%(host)s asked for fewer requests and recovers: one document at a time, until %(n)d more good answer.",
                "%(host)s asked for fewer requests and recovers: one document at a time, until %(n)d more good answers.",
                line.back_off_level,
            ) % {"host": host, "n": line.back_off_level}
        case Cause.NOTHING_WAITS:
            return _("No document waits for %(host)s.") % {"host": host}
        case Cause.IN_PROGRESS:
            return _("No document waits. Workers have the last ones.")
        case Cause.JOBS_HELD:
            return ngettext(
                "%(n)s document waits, and its job is paused or waits for its window.",
                "%(n)s documents wait, and their jobs are paused or wait for their windows.",
                line.waiting,
            ) % {"n": formats.number(line.waiting)}
        case Cause.NO_WORKER:
            return _("No running worker may take documents of %(host)s. Start a worker with “crawlctl runworker”.") % {
                "host": host
            }
        case Cause.NO_TAG:
            return _("No running worker has the tag “%(tag)s”. Start one with “crawlctl runworker --tag %(tag)s”.") % {
                "tag": verdict.detail
            }
        case Cause.NO_OWNER:
            return _("No manager has the seeds of these documents yet.")
        case Cause.GROUP_FAILS:
            return _("The manager cannot hand out documents of %(host)s: %(why)s.") % {
                "host": host,
                "why": verdict.detail.rstrip("."),
            }
        case Cause.WORKERS:
            return (
                _("All workers are busy. Start more workers, or let each claim more.")
                if line.known.workers_are_full
                else _("The workers read as fast as they can; no limit is reached.")
            )
        case Cause.NOT_DUE:
            said = _("The documents of %(host)s are due %(when)s.") if when else _("No document of %(host)s is due.")
            return said % {"host": host, "when": when}
        case Cause.RAMPING:
            return (
                _("The first request to %(host)s reads robots.txt. Requests for documents follow after it.")
                if not line.known.is_known
                else _("Requests to %(host)s speed up: %(by)s allows one start every %(gap)s s.")
            ) % {"host": host, "gap": formats.decimal(line.limits.gap), "by": by}
        case Cause.PARENT:
            above = line.parent_of(verdict)
            assert above is not None
            return _("%(host)s shares %(limits)s with %(parent)s.") % {
                "host": host,
                "limits": share_in_words(above.limits, above.whole),
                "parent": parent(above),
            }
        case Cause.GAP | Cause.CRAWL_DELAY:
            return _("At most one start every %(gap)s s: %(by)s.") % {"gap": formats.decimal(line.limits.gap), "by": by}
        case Cause.BYTES:
            most = formats.size(int(line.limits.bytes_per_second or 0))
            return _("At most %(bytes)s a second: %(by)s.") % {"bytes": most, "by": by}
        case Cause.REQUESTS:
            return _connections(verdict, by=by)
        case Cause.NEXT:
            return _("The next document of %(host)s is handed out within seconds.") % {"host": host}
        case _:
            return _of_job(verdict, now=now)


def _connections(verdict: Verdict, *, by: str) -> str:
    facts = {"n": verdict.places, "by": by}
    if verdict.busy is not None:
        facts["busy"] = min(verdict.busy, verdict.places or verdict.busy)
        said = _("%(busy)s of %(n)s connections are busy") % facts
    else:
        said = _("At most %(n)s open requests") % facts
    if verdict.seconds:
        said += _("; an answer takes %(seconds)s s") % {"seconds": formats.decimal(verdict.seconds, digits=2)}
    return f"{said}: {by}." if by else f"{said}."


def remedy(verdict: Verdict) -> str:
    """Return the step that would end the cause of a verdict; '' if none is needed."""
    if verdict.failing is not None:
        return _("Check that the host works. Pause the job, or stop the host, while it does not.")
    return {
        Cause.DISK: _("Free disk space. Crawling continues by itself."),
        Cause.NOT_RUNNING: _("Start the job."),
        Cause.PAUSED: _("Resume the job."),
        Cause.OUTPUT: _("Repair the output, then resume the job."),
        Cause.ARCHIVE: _("Repair the stores of archives. The job continues by itself."),
        Cause.SLOTS: _("You need to do nothing: the job continues by itself. See the move on the page of partitions."),
        Cause.WINDOW: _("Change the windows of the job to continue it now."),
        Cause.CONNECTOR: _("Install the connector."),
        Cause.GUARD: _("Allow or refuse the removals."),
        Cause.BUDGET: _("Raise the document limit of the job."),
        Cause.NO_MANAGER: _("Start a manager."),
        Cause.NO_WORKER: _("Start a worker."),
        Cause.NO_TAG: _("Start a worker with this tag, or remove the tag from the seed."),
        Cause.GROUP_FAILS: _("See the log of the manager."),
        Cause.WORKERS: _("Start more workers."),
        Cause.STOPPED: _("Release the host."),
        Cause.DENIED: _("Remove the rule that denies it from the policy."),
        Cause.CLOSED: _("Change the times of the rule that denies it."),
        Cause.BACK_OFF: _("End the back-off if the host works."),
        Cause.TRIAL: _("End the back-off if the host works."),
        Cause.PARENT: _("Raise the shared limit."),
        Cause.GAP: _("Raise the rate in the policy, or reduce its minimum gap."),
        Cause.BYTES: _("Raise the limit of bytes per second in the policy."),
        Cause.REQUESTS: _("Raise the limit of open requests in the policy."),
    }.get(verdict.cause, "")


def allowed(line: HostStatus) -> str:
    """Return the limits of a host as a phrase."""
    return limits_in_words(line.limits)


def requests(number: int) -> str:
    return _("any number") if number >= UNLIMITED_REQUESTS else formats.number(number)


def open_requests(line: HostStatus) -> str:
    """Return the number of requests that are open at the host now."""
    return formats.UNKNOWN if line.open_requests is None else formats.number(line.open_requests)


def next_start(line: HostStatus, *, now: dt.datetime) -> str:
    if line.next_start_at is not None:
        return formats.time_until(line.next_start_at, now=now)
    return _("in progress") if line.in_progress or (line.waiting and line.known.open_turns) else formats.UNKNOWN
