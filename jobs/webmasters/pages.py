"""The pages for webmasters, which need no login."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs.settings.webmasters import KEEP_LIMITS, PAGES
from jobs.ui.webmasters_views import limit_in_words
from jobs.verbs.hosts import name_meant
from jobs.webmasters import checking, limit_requests
from jobs.webmasters.figures import are_public, read_figures
from jobs.webmasters.screens import crawler, figures_shown
from nodes.errors import Invalid, NotDone, TooSlow
from nodes.settings.running import current

# Longest name that is read (characters): the DNS allows 253, and a port follows.
LONGEST_NAME = 300


def public(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """A decorator that opens a page to every visitor, or answers 404 if the pages for webmasters are switched off."""

    @wraps(view)
    def if_on(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not current()[PAGES]:
            raise Http404(_("The pages for webmasters are switched off."))
        return view(request, *args, **kwargs)

    return if_on


@public
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Show the crawler and a field for the name of a host. If a name was sent, redirect to the page of the host."""
    asked = request.GET.get("host", "")
    problems: list[str] = []
    if asked:
        try:
            return redirect(address_of(host_meant(asked)))
        except Invalid as invalid:
            problems = invalid.problems["name"]
    return render(
        request,
        "webmasters/index.html",
        {"crawler": crawler(), "asked": asked[:LONGEST_NAME], "problems": problems, "is_public": True},
        status=400 if problems else 200,
    )


@public
@require_safe
def host(request: HttpRequest, host: str) -> HttpResponse:
    """Show the page of one host. Without permission by the settings, a known host looks like an unknown one."""
    name = _name_or_404(host)
    return _host_page(request, name) if name == host else redirect(address_of(name))


@public
@require_POST
def ask(request: HttpRequest, host: str) -> HttpResponse:
    """Sign a request for another limit, and redirect to the page that shows how to prove control of the host."""
    name = _name_or_404(host)
    try:
        wanted = _limit_request_of(request.POST, name)
    except Invalid as invalid:
        return _host_page(request, name, problems=invalid.problems, asked=request.POST)
    return redirect(_address_of_request(wanted))


@public
@require_http_methods(["GET", "HEAD", "POST"])
def prove(request: HttpRequest, host: str) -> HttpResponse:
    """
    Show the ways to prove control of the host. POST checks the proof, and applies the requested limit if the proof is
    valid.
    """
    name = _name_or_404(host)
    try:
        wanted = limit_requests.read(request.GET.get("request", ""), host=name)
    except limit_requests.InvalidLimitRequest:
        return redirect(address_of(name))
    context: dict[str, Any] = {"problem": "", "is_done": False}
    status = 200
    if request.method == "POST":
        proof = checking.Proof.FILE if request.POST.get("proof") == "file" else checking.Proof.DNS
        try:
            context["problem"] = checking.check(wanted, proof)
            context["is_done"] = not context["problem"]
        except checking.TooOften as too_often:
            context["problem"], status = str(too_often), 429
        except NotDone as refused:
            context["problem"], status = str(refused), 409
    facts = {
        "name": name,
        "limit_request": wanted,
        "wanted": _("no limit of your own") if wanted.lifts else limit_in_words(wanted.gap),
        "days": current()[KEEP_LIMITS],
        "record_line": limit_requests.record_line(wanted),
        "file": f"https://{name}{limit_requests.file_path(wanted)}",
        "is_public": True,
    }
    return render(request, "webmasters/prove.html", {**facts, **context}, status=status)


def _host_page(
    request: HttpRequest,
    name: str,
    *,
    problems: Mapping[str, Sequence[str]] | None = None,
    asked: Mapping[str, str] | None = None,
) -> HttpResponse:
    """Show the page of a host, with the problems of a form that was sent."""
    context: dict[str, Any] = {"name": name, "crawler": crawler(), "is_public": True, "problems": problems or {}}
    context["asked"] = asked or {}
    status = 400 if problems else 200
    headers = {}
    try:
        if are_public(name):
            context["figures"] = figures_shown(read_figures(name))
            context["chart"] = context["figures"]["chart"]
    except TooSlow as slow:
        context["problem"], status, headers = str(slow), 503, {"Retry-After": "10"}
    answer = render(request, "webmasters/host.html", context, status=status)
    for header, value in headers.items():
        answer.headers[header] = value
    return answer


def _limit_request_of(sent: Mapping[str, str], name: str) -> limit_requests.LimitRequest:
    """Return the request of a form that was sent."""
    wanted = sent.get("limit", "")
    if wanted not in {"gap", "stop", "none"}:
        raise Invalid({"gap": [_("Choose a limit.")]})
    gap = _gap(sent.get("gap", "")) if wanted == "gap" else None
    return limit_requests.make(name, gap=gap, lifts=wanted == "none")


def _gap(typed: str) -> float:
    try:
        return float(typed)
    except ValueError:
        raise Invalid({"gap": [_("Write a number of seconds.")]}) from None


def _name_or_404(host: str) -> str:
    try:
        return host_meant(host)
    except Invalid as invalid:
        raise Http404(str(invalid)) from None


def _address_of_request(wanted: limit_requests.LimitRequest) -> str:
    return f"{reverse('webmaster-prove', args=[wanted.host])}?{urlencode({'request': wanted.text})}"


def host_meant(typed: str) -> str:
    """
    Return the stored name of the host that a visitor typed.

    Raises:
        Invalid: the text is not a host name.
    """
    if len(typed) > LONGEST_NAME:
        raise Invalid({"name": [_("The name is too long.")]})
    return name_meant(typed)


def address_of(name: str) -> str:
    """Return the address of the page of a host."""
    return reverse("webmaster", args=[name])
