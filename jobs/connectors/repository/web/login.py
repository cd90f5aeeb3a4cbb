"""
Logins: the pages that need one, the recognition of the login page, and the login itself.

A login is needed when a page answers with the login page: a redirect to its address, a form with a certain target, or a
text. Then the login page is fetched, and its form is sent with the configured values and with the values that the page
has for other fields (also hidden ones). Redirects are followed. The login has succeeded if the result is not the login
page again and matches the success pattern, if there is one.

No field and no cookie is ever sent to a host that the login does not name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from django.utils.translation import gettext_lazy as _

from jobs.connectors.repository.kind import Pace
from jobs.connectors.repository.web.cookies import Cookies
from jobs.connectors.repository.web.fetch import Fetches, FetchFailed, Response
from jobs.connectors.repository.web.forms import Form, forms_of
from jobs.connectors.repository.web.location import location_of
from jobs.connectors.repository.web.scope import BadPattern, Pattern, compile_pattern
from jobs.connectors.repository.web.urls import BadUrl, canonical, host_and_port
from jobs.connectors.schema import BadSpecification, Field, FieldKind, Schema
from jobs.reading.text import Kind, decoded, kind_of

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
# Statuses that may be temporary, like every 5xx.
_PASSING: Final = frozenset({408, 425, 429})
_MOST_REDIRECTS: Final = 10
_MOST_NAME: Final = 100

FORM_FIELDS: Final = Schema(
    (
        Field(name="name", kind=FieldKind.TEXT, label=_("Name of the form's field"), is_required=True),
        Field(name="value", kind=FieldKind.TEXT, label=_("Value")),
        Field(name="secret", kind=FieldKind.SECRET, label=_("Secret value, such as a password")),
    )
)
LOGINS: Final = Field(
    name="logins",
    kind=FieldKind.RECORDS,
    label=_("Logins"),
    help=_("The first login whose addresses match is used. Expressions are RE2."),
    records=Schema(
        (
            Field(name="name", kind=FieldKind.TEXT, label=_("Name"), is_required=True),
            Field(
                name="pages",
                is_destination=True,
                kind=FieldKind.TEXT,
                label=_("Addresses that need the login"),
                is_required=True,
            ),
            Field(
                name="hosts",
                is_destination=True,
                kind=FieldKind.LINES,
                label=_("Hosts that receive the cookies"),
                is_required=True,
            ),
            Field(name="page", is_destination=True, kind=FieldKind.TEXT, label=_("Login page: pattern of its address")),
            Field(
                name="form",
                is_destination=True,
                kind=FieldKind.TEXT,
                label=_("Login page: pattern of its form's target"),
            ),
            Field(name="text", is_destination=True, kind=FieldKind.TEXT, label=_("Login page: pattern of its text")),
            Field(name="fields", kind=FieldKind.RECORDS, label=_("Form values"), records=FORM_FIELDS),
            Field(name="success", kind=FieldKind.TEXT, label=_("Text on the page after a successful login")),
        )
    ),
)


class LoginFailed(Exception):
    """A login failed, and will fail until a person acts. The message has the reason, and no secret."""


class LoginInterrupted(Exception):
    """A login is impossible now. `code` is the result code of the request that failed."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


@dataclass(frozen=True, slots=True)
class Login:
    """
    One login of a connection. `values` are the values to send, including secrets.

    Each of the patterns `page`, `form` and `text` identifies the login page. A pattern that is None is not checked.
    """

    name: str
    pages: Pattern
    hosts: frozenset[str]
    page: Pattern | None
    form: Pattern | None
    text: Pattern | None
    success: Pattern | None
    values: Mapping[str, str] = field(repr=False)

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> Self:
        """
        Return the login of values that `LOGINS` has read.

        Raises:
            BadSpecification: a pattern is invalid, or no pattern identifies the login page.
        """
        name = said["name"]
        patterns: dict[str, Pattern | None] = {}
        for about in ("pages", "page", "form", "text", "success"):
            try:
                patterns[about] = compile_pattern(said[about]) if said.get(about) else None
            except BadPattern as error:
                raise BadSpecification("logins", f"{name}: {about}: {error}") from None
        pages = patterns.pop("pages")
        if not name.strip() or len(name) > _MOST_NAME or not name.isprintable():
            raise BadSpecification("logins", f"a name must be printable and have 1 to {_MOST_NAME} characters")
        if pages is None or not said["hosts"]:
            raise BadSpecification("logins", f"{name}: pages and hosts must not be empty")
        if not (patterns["page"] or patterns["form"] or patterns["text"]):
            raise BadSpecification(
                "logins", f"{name}: give page, form or text, so that its login page can be recognized"
            )
        return cls(
            name=name,
            pages=pages,
            hosts=frozenset(host.strip().lower() for host in said["hosts"]),
            values={given["name"]: given.get("secret") or given.get("value", "") for given in said.get("fields", ())},
            **patterns,
        )

    def guards(self, url: str) -> bool:
        """True if the page of this address needs the login. False for the login page itself."""
        return self.pages.search(url) is not None and not self._is_its_page(url)

    def is_asked_for(self, url: str, response: Response) -> bool:
        """True if the response is the login page, or a redirect to it."""
        if (target := _target_of(url, response)) is not None:
            return self._is_its_page(target)
        if self._is_its_page(url):
            return True
        if self.form is None and self.text is None:
            return False
        html = _text_of(response)
        if self.text is not None and self.text.search(html):
            return True
        return self.form is not None and any(self._is_its_form(form, url) for form in forms_of(html))

    def may_know(self, url: str) -> bool:
        """True if cookies and fields may be sent to this address."""
        return host_and_port(url)[0] in self.hosts

    def form_on(self, url: str, html: str) -> Form:
        """
        Return the form of the login page that the login must fill in.

        Raises:
            LoginFailed: the page has no such form.
        """
        forms = forms_of(html)
        for form in forms:
            if self._is_its_form(form, url) or (
                self.form is None and form.is_posted and self.values.keys() & form.values
            ):
                return form
        raise LoginFailed("its login page has no form that can be filled in")

    def _is_its_page(self, url: str) -> bool:
        return self.page is not None and self.page.search(url) is not None

    def _is_its_form(self, form: Form, url: str) -> bool:
        return self.form is not None and self.form.search(_resolved(form.action, url)) is not None


async def log_in(login: Login, url: str, *, fetcher: Fetches, headers: Mapping[str, str], pace: Pace) -> Cookies:
    """
    Log in for the page at `url`, and return the cookies of the new session.

    Raises:
        LoginFailed: the login did not succeed, and a retry does not help.
        LoginInterrupted: a request failed. A retry may help.
    """
    browser = _Browser(login, fetcher, headers, pace)
    at, response = await browser.open(url)
    form = login.form_on(at, _text_of(response))
    if not form.is_posted:
        raise LoginFailed("its form is not sent by POST")
    at, response = await browser.open(_resolved(form.action, at), form={**form.values, **login.values})
    if login.is_asked_for(at, response):
        raise LoginFailed("the login page came again; check the user and the password")
    if not 200 <= response.status < 400:
        raise LoginFailed(f"the server answered {response.status}")
    if login.success is not None and not login.success.search(_text_of(response)):
        raise LoginFailed("the page after the login does not match the pattern of success")
    if not browser.cookies.held:
        raise LoginFailed("no cookie was set")
    return browser.cookies


class _Browser:
    """
    Sends the requests of a login one after the other, at the pace of the document, with the cookies that it has so far.
    """

    def __init__(self, login: Login, fetcher: Fetches, headers: Mapping[str, str], pace: Pace) -> None:
        self._login, self._fetcher, self._headers, self._pace = login, fetcher, headers, pace
        self.cookies = Cookies()
        # After a request over TLS, a form is sent over TLS only.
        self._is_secure = False

    async def open(self, url: str, *, form: Mapping[str, str] | None = None) -> tuple[str, Response]:
        """Return the answer, after redirects, and its address."""
        for _hop in range(_MOST_REDIRECTS):
            if not url:
                raise LoginFailed("its form leads to no web address")
            if not self._login.may_know(url):
                raise LoginFailed(f"it leads to {host_and_port(url)[0]}, which is not one of its hosts")
            self._is_secure = self._is_secure or url.startswith("https:")
            if form is not None and self._is_secure and not url.startswith("https:"):
                raise LoginFailed("its form would be sent without TLS")
            cookies = self.cookies.header_for(url)
            await self._pace.before_request()
            try:
                response = await self._fetcher.fetch(
                    url,
                    headers={**self._headers, **({"Cookie": cookies} if cookies else {})},
                    is_wanted=lambda _status, found, first: (
                        kind_of(found.get("Content-Type", ""), first) is not Kind.OTHER
                    ),
                    form=form,
                )
            except FetchFailed as failure:
                raise LoginInterrupted(failure.code) from failure
            if response.status in _PASSING or 500 <= response.status < 600:
                raise LoginInterrupted(str(response.status))
            self.cookies = self.cookies.with_those_of(url, response.set_cookies)
            target = _target_of(url, response)
            if target is None:
                return url, response
            if response.status not in {307, 308}:
                form = None
            url = target
        raise LoginFailed(f"it redirects more than {_MOST_REDIRECTS - 1} times")


def _target_of(url: str, response: Response) -> str | None:
    """Return the target of a redirect; None if the response is not a redirect."""
    if response.status not in _REDIRECTS:
        return None
    try:
        return canonical(location_of(response), url)
    except BadUrl:
        return None


def _resolved(action: str, url: str) -> str:
    """Return the target address of a form; "" if that is not a web address."""
    try:
        return canonical(action, url) if action else url
    except BadUrl:
        return ""


def _text_of(response: Response) -> str:
    return decoded(response.body, response.headers.get("Content-Type", ""))
