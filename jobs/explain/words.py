"""Gates, their status and their reasons in sentences."""

import datetime as dt
from collections.abc import Mapping
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.explain.explaining import Section
from jobs.explain.facts import COUNTED_IN_LINE
from jobs.explain.gates import Gate, Judgement, Reason, Status
from jobs.queries.hosts.lines import HostStatus
from jobs.throttling.bins import is_limited
from jobs.words import verdicts
from jobs.words.codes import explain_code
from jobs.words.explanations import explain_holding
from jobs.words.limits import limits_in_words
from nodes.web import formats

GATES: Final[Mapping[Gate, str | Promise]] = {
    Gate.FORM: gettext_lazy("Normal form"),
    Gate.KNOWN: gettext_lazy("Known"),
    Gate.DENY_LIST: gettext_lazy("Deny list"),
    Gate.SCOPE: gettext_lazy("Scope"),
    Gate.DEPTH: gettext_lazy("Depth"),
    Gate.TRAP: gettext_lazy("Trap guard"),
    Gate.ROBOTS: gettext_lazy("robots.txt"),
    Gate.JOB: gettext_lazy("Job"),
    Gate.WINDOW: gettext_lazy("Window"),
    Gate.LOGIN: gettext_lazy("Login"),
    Gate.POLICY: gettext_lazy("Policy"),
    Gate.HOST: gettext_lazy("Host"),
    Gate.LINE: gettext_lazy("Place in line"),
    Gate.CLAIM: gettext_lazy("Claim"),
    Gate.RESULT: gettext_lazy("Result and retry"),
    Gate.NEXT_LOOK: gettext_lazy("Next look"),
    Gate.CANONICAL: gettext_lazy("Canonical address"),
    Gate.OUTPUT: gettext_lazy("Output"),
}
STATUSES: Final[Mapping[Status, str | Promise]] = {
    Status.PASSED: gettext_lazy("passed"),
    Status.BLOCKED: gettext_lazy("blocked"),
    Status.NOT_REACHED: gettext_lazy("not reached"),
}
# Statuses of gates in a forecast.
FORECASTS: Final[Mapping[Status, str | Promise]] = {
    Status.PASSED: gettext_lazy("would pass"),
    Status.BLOCKED: gettext_lazy("would be blocked"),
    Status.NOT_REACHED: gettext_lazy("would not be reached"),
}
TONES: Final[Mapping[Status, str]] = {
    Status.PASSED: "indexed",
    Status.BLOCKED: "failed",
    Status.NOT_REACHED: "quiet",
}
REASONS: Final[Mapping[Reason, str | Promise]] = {
    Reason.NORMAL: gettext_lazy("%(identifier)s"),
    Reason.SEED: gettext_lazy("A seed of the job names it."),
    Reason.FOUND: gettext_lazy("First found on %(page)s. Links from a seed on that path: %(steps)s."),
    Reason.FOUND_LATER: gettext_lazy("First found on %(page)s. The path from a seed to that page was not recorded."),
    Reason.FOUND_BEFORE: gettext_lazy("The job knows it. The page on which it was found was not recorded."),
    Reason.UNKNOWN: gettext_lazy("The job does not know it: no page that was read links to it, and no seed names it."),
    Reason.NOT_DENIED: gettext_lazy("Its host is neither denied nor stopped."),
    Reason.IN_SCOPE: gettext_lazy("The rules admit it: %(rule)s."),
    Reason.OUT_OF_SCOPE: gettext_lazy("The rules refuse it: %(rule)s."),
    Reason.SCOPE_AT_READING: gettext_lazy("A worker checks the rules when it reads the document."),
    Reason.RULES_INVALID: gettext_lazy("The rules of the job cannot be used: %(why)s."),
    Reason.NO_DEPTH: gettext_lazy("The job has no limit of depth."),
    Reason.WITHIN_DEPTH: gettext_lazy("%(depth)s links from a seed, at most %(most)s."),
    Reason.LAST_DEPTH: gettext_lazy("%(depth)s links from a seed, at most %(most)s. Its own links are not followed."),
    Reason.DEPTH_OF_REFERRER: gettext_lazy("It is read if a page with a depth below %(most)s links to it."),
    Reason.TOO_FAR: gettext_lazy("More hops from a seed than the job allows (%(limits)s)."),
    Reason.NO_TRAP: gettext_lazy("Neither too long nor too deep."),
    Reason.OVER_LIMIT: gettext_lazy("No job follows such an address: %(why)s."),
    Reason.TRAP_HELD: gettext_lazy(
        "The trap guard holds back new documents of the group %(template)s: %(new)s of %(fetched)s had new content."
    ),
    Reason.NO_ROBOTS: gettext_lazy("No robots.txt applies."),
    Reason.ROBOTS_NOT_READ: gettext_lazy("%(origin)s/robots.txt is not read yet. The first request reads it."),
    Reason.ROBOTS_ALLOWS: gettext_lazy("%(origin)s/robots.txt allows %(name)s."),
    Reason.ROBOTS_FORBIDS: gettext_lazy("%(origin)s/robots.txt does not allow %(name)s."),
    Reason.ROBOTS_UNREACHABLE: gettext_lazy("%(origin)s/robots.txt could not be read, so nothing was fetched."),
    Reason.RUNS: gettext_lazy("Run %(run)s is active."),
    Reason.IN_WINDOW: gettext_lazy("The job is inside its window, or was started by hand."),
    Reason.NO_LOGIN: gettext_lazy("It waits for no login."),
    Reason.LIMITED: gettext_lazy("Within the limits: %(limits)s."),
    Reason.LIMITED_IN_RUN: gettext_lazy("While the job runs, these policies apply: %(policies)s."),
    Reason.HOST_READY: gettext_lazy("%(host)s accepts requests."),
    Reason.HOST_NEW: gettext_lazy("No request was sent to %(host)s yet. The first request reads robots.txt."),
    Reason.IN_LINE: gettext_lazy("Documents before it: %(before)s."),
    Reason.PASSED_BEFORE: gettext_lazy("Passed at the last attempt."),
    Reason.OFFERED: gettext_lazy("In batch %(batch)s, which no worker has taken yet."),
    Reason.TAKEN: gettext_lazy("Worker %(worker)s has it, in batch %(batch)s."),
    Reason.REMOVED_NOW: gettext_lazy("It is being removed from the outputs, in batch %(batch)s."),
    Reason.NOT_CLAIMED: gettext_lazy("The next free worker takes it."),
    Reason.NO_RESULT: gettext_lazy("No result in this run yet."),
    Reason.GOOD_RESULT: gettext_lazy("%(code)s"),
    Reason.BAD_RESULT: gettext_lazy("%(code)s"),
    Reason.DUE: gettext_lazy("Due in this run."),
    Reason.READ_IN_RUN: gettext_lazy("Read in run %(document_run)s. The next run reads it again."),
    Reason.READ_LATER: gettext_lazy("Read in run %(document_run)s. It is read again when its interval has passed."),
    Reason.EXPIRES: gettext_lazy("It is not read again before it expires."),
    Reason.NOT_REACHED_IN_RUN: gettext_lazy(
        "Last reached in run %(document_run)s. No page that run %(run)s has read links to it."
    ),
    Reason.OWN_ADDRESS: gettext_lazy("It redirects nowhere."),
    Reason.REDIRECTS: gettext_lazy("It redirects to %(target)s, which is a document of its own."),
    Reason.HELD: gettext_lazy("Holds version %(version)s."),
    Reason.NOT_HELD: gettext_lazy("Does not hold it."),
    Reason.KEEPS_NOTHING: gettext_lazy("Keeps nothing by design."),
    Reason.NO_OUTPUT: gettext_lazy("The job has no output that holds documents."),
}


def sentence(judgement: Judgement, *, host: HostStatus | None, now: dt.datetime) -> str:
    """Return the reason of a gate as a sentence."""
    if judgement.verdict is not None:
        return verdicts.sentence(judgement.verdict, now=now, line=host)
    if not isinstance(judgement.reason, Reason):
        return ""
    facts = {**judgement.facts, "host": host.name if host is not None else _("Its host")}
    match judgement.reason:
        case Reason.LIMITED if host is None:
            return _("No limits apply.")
        case Reason.LIMITED:
            facts["limits"] = _limits(host)
        case Reason.IN_LINE if "before" not in facts:
            return _("It gets a place in line as soon as it is due.")
        case Reason.IN_LINE if int(facts["before"]) > COUNTED_IN_LINE:
            facts["before"] = _("more than %(n)s") % {"n": formats.number(COUNTED_IN_LINE)}
    said = str(REASONS[judgement.reason]) % facts
    return f"{said} {_rest(judgement)}".rstrip()


def _rest(judgement: Judgement) -> str:
    """Return the text that follows the reason: the meaning of a result code, or the rule of robots.txt that decides."""
    facts = judgement.facts
    match judgement.reason:
        case Reason.GOOD_RESULT | Reason.BAD_RESULT:
            return explain_code(facts["code"])
        case Reason.ROBOTS_ALLOWS | Reason.ROBOTS_FORBIDS if facts["line"]:
            return _("Line %(line)s: %(rule)s.") % facts
        case Reason.ROBOTS_ALLOWS:
            return _("No line of robots.txt matches this address.")
        case _:
            return ""


def _limits(host: HostStatus | None) -> str:
    assert host is not None
    set_by = host.set_by.gap or host.set_by.bytes_per_second or host.set_by.requests
    said = limits_in_words(host.limits)
    return f"{said} ({verdicts.source(set_by)})" if set_by is not None and is_limited(host.limits) else said


def name(judgement: Judgement) -> str:
    """Return the name of a gate. The gate of an output has the name of the output."""
    gate = str(GATES[judgement.gate])
    return f"{gate} “{judgement.subject}”" if judgement.subject else gate


def status(judgement: Judgement, *, is_forecast: bool) -> str:
    """Return the status of a gate in a word or two."""
    if is_forecast and judgement.gate == Gate.KNOWN:
        return _("unknown")
    return str((FORECASTS if is_forecast and judgement.gate != Gate.FORM else STATUSES)[judgement.status])


def headline(section: Section, *, now: dt.datetime) -> list[str]:
    """Return the answer in one or two sentences: where the document is, and the gate that decides."""
    deciding = section.deciding
    why = "" if deciding is None else sentence(deciding, host=section.host, now=now)
    if section.is_forecast:
        if deciding is None:
            return [_("The job would read this address as soon as a page of it links there, or a seed names it.")]
        return [_("The job would not read this address now."), why]
    said = explain_holding(section.held_by)
    if deciding is not None:
        return [said, why]
    return [said, _("No gate is closed: the document is on its way.")]


def remedy(judgement: Judgement) -> str:
    """Return the step by which an operator opens a gate; "" if no step is possible or needed."""
    if judgement.status != Status.BLOCKED:
        return ""
    if judgement.verdict is not None:
        return verdicts.remedy(judgement.verdict)
    return {
        Reason.OUT_OF_SCOPE: _("Change the scope, include and exclude rules of the job."),
        Reason.RULES_INVALID: _("Repair the rules of the job."),
        Reason.TOO_FAR: _("Raise the hop limits of the job."),
        Reason.ROBOTS_FORBIDS: _("Ask the owner of the site."),
        Reason.ROBOTS_UNREACHABLE: _("Fetch it again when the host works."),
        Reason.BAD_RESULT: _("Repair the cause, then fetch it again."),
        Reason.READ_IN_RUN: _("Fetch it again now, or wait for the next run."),
        Reason.READ_LATER: _("Fetch it again now, or wait."),
        Reason.NOT_REACHED_IN_RUN: _("Add it to the seeds, or wait for a page that links to it."),
        Reason.UNKNOWN: _("Add it to the seeds."),
        Reason.NOT_HELD: _("Verify the output, or fetch the document again."),
    }.get(judgement.reason if isinstance(judgement.reason, Reason) else Reason.DUE, "")
