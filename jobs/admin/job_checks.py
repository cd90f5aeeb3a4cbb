"""
Answers two requests of the form of a new job, before the job is stored. The first one returns the next starts for the
entered times. The second one checks the entered seed.
"""

import threading
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from django.http import HttpRequest, JsonResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.admin.first_job import TimesForm
from jobs.connectors.repository import registry
from jobs.connectors.repository.kind import SourceSettings
from jobs.connectors.repository.web.kind import bad_addresses, specification_of
from jobs.connectors.repository.web.scope import BadPattern
from jobs.connectors.repository.web.seed_check import SeedCheck, run_check
from jobs.connectors.repository.web.urls import bin_of, canonical
from jobs.connectors.schema import BadSpecification
from jobs.lifecycle.schedule import next_openings
from jobs.models import Bin, RepositoryConnection
from jobs.throttling.patterns import matches, patterns_of
from jobs.verbs import deny_list
from jobs.verbs.first_job import with_schemes
from jobs.words.codes import explain_code
from jobs.words.schedules import show_opening
from nodes.database.clock import read_clock

_STARTS: Final = 5
# Largest number of checks of seeds that a process runs at the same time.
_CHECKS_AT_ONCE: Final = threading.BoundedSemaphore(2)


def coming_starts(request: HttpRequest) -> JsonResponse:
    """Return the next starts of a job, as text. The parameters of the request are the times of the form."""
    form = TimesForm(request.GET)
    if not form.is_valid():
        return JsonResponse({"starts": [], "problems": [said for each in form.errors.values() for said in each]})
    window = form.window()
    coming = islice(next_openings([window], after=read_clock()), _STARTS) if window else ()
    return JsonResponse({"starts": [show_opening(*one) for one in coming], "problems": []})


def check_seed(request: HttpRequest) -> JsonResponse:
    """
    Return lines about the first address of the form: the answer to a request now, and the links that a job would
    follow.
    """
    address = next((line.strip() for line in request.POST.get("addresses", "").splitlines() if line.strip()), "")
    kind = registry.installed()["web"]
    (address,) = with_schemes([address], kind)
    if problems := bad_addresses([address]):
        return _lines(problem=problems[0])
    if (refusal := _why_not_asked(bin_of(canonical(address)))) is not None:
        return _lines(problem=refusal)
    try:
        wanted = specification_of(_source_settings(request, address))
        wanted.scope_around_seeds()
    except (BadSpecification, BadPattern) as bad:
        return _lines(problem=str(bad))
    if not _CHECKS_AT_ONCE.acquire(blocking=False):
        return _lines(problem=_("Two addresses are being checked now. Try again in a few seconds."))
    try:
        return _lines(checked=run_check(wanted))
    finally:
        _CHECKS_AT_ONCE.release()


def _source_settings(request: HttpRequest, address: str) -> SourceSettings:
    """Return the job of the form, with only those fields that decide which documents belong to it."""
    sent = request.POST
    specification: dict[str, Any] = {"scope": sent["specification_scope"]} if sent.get("specification_scope") else {}
    for name in ("include", "exclude"):
        lines = [line.strip() for line in sent.get(f"specification_{name}", "").splitlines() if line.strip()]
        specification |= {name: lines} if lines else {}
    if sent.get("specification_allow_private_networks"):
        specification["allow_private_networks"] = True
    named = sent.get("repository", "")
    repository = (
        RepositoryConnection.objects.filter(pk=int(named), connector="web").first()
        if named.isdecimal() and len(named) < 19
        else None
    )
    return SourceSettings(
        configuration=repository.configuration if repository else {},
        specification=specification,
        seeds=[address],
        is_confined=True,
    )


def _why_not_asked(host: str) -> str | None:
    """Return the reason why no request may be sent to a host now; None if a request may be sent."""
    known = Bin.objects.filter(namespace="web", name=host).only("stopped_at", "back_off_until").first()
    if known is not None and known.stopped_at is not None:
        return _("%(host)s is stopped by an operator, so it is not checked.") % {"host": host}
    if known is not None and known.back_off_until is not None and known.back_off_until > read_clock():
        return _("%(host)s backs off now, so it is not checked.") % {"host": host}
    denied = (pattern for one in deny_list.denials() for pattern in patterns_of(one.pattern))
    if any(matches(pattern, host) for pattern in denied):
        return _("%(host)s is on the deny list.") % {"host": host}
    return None


def _lines(*, checked: SeedCheck | None = None, problem: str = "") -> JsonResponse:
    """Return the result as lines (a name and a text), and the tone (colour) of the first line."""
    if checked is None:
        return JsonResponse({"tone": "failed", "lines": [[_("Not checked"), problem]]})
    lines = list(_described(checked).items())
    is_good = checked.code.startswith("2") and bool(checked.in_scope or checked.links)
    return JsonResponse(
        {"tone": "indexed" if is_good else "excluded" if checked.code[:1] in {"2", "3"} else "failed", "lines": lines}
    )


def _described(checked: SeedCheck) -> Mapping[str, str]:
    answer = " ".join(filter(None, (checked.code, explain_code(checked.code), checked.content_type.partition(";")[0])))
    if checked.seconds is not None:
        answer += " " + _("after %(seconds).2f s") % {"seconds": checked.seconds}
    lines = {_("Address"): checked.address, _("Answer"): answer}
    if checked.redirects_to:
        said = (
            _("%(target)s, which the job follows")
            if checked.redirect_is_followed
            else _("%(target)s, which is out of scope: use that address, or a wider scope")
        )
        lines[_("Redirects to")] = said % {"target": checked.redirects_to}
    if checked.title:
        lines[_("Title")] = checked.title
    if checked.code.startswith("2"):
        lines[_("Links")] = ngettext(
            "%(n)d link in scope, of %(all)d on the page",
            "%(n)d links in scope, of %(all)d on the page",
            checked.in_scope,
        ) % {"n": checked.in_scope, "all": checked.links}
        if checked.examples:
            lines[_("For example")] = ", ".join(checked.examples)
    if checked.robots is not None:
        allowed = _("allows the address") if checked.robots else _("disallows the address, so nothing was read")
        delay = _(", one request every %(s)g s") % {"s": checked.crawl_delay} if checked.crawl_delay else ""
        lines["robots.txt"] = allowed + delay
    if checked.code.startswith("2"):
        lines[_("Sitemap")] = ", ".join(checked.sitemaps) or _("none found")
    return lines
