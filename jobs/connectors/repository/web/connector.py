"""
The web as a source: one document is one address, and every answer of a server is one ending.

    the job's rules refuse it              OUT_OF_SCOPE, not requested
    robots.txt forbids it                  ROBOTS, not requested
    robots.txt answers 5xx or 429          retried for `robots_wait`, then ROBOTS_UNREACHABLE
    2xx with text                          its status; OK_UNCHANGED if the outputs hold exactly this text
    2xx with anything else, 204, 205       NOT_TEXT (a body of no bytes is an empty text)
    206, an unrequested partial answer     INCOMPLETE
    2xx with a noindex directive           NOINDEX; its links count unless it says nofollow
    2xx that the job does not index        EXCLUDED_TYPE, EXCLUDED_LENGTH, EXCLUDED_TEXT; its links count
    304                                    304 if the request was conditional, else PROTOCOL
    301, 302, 303, 307, 308                REDIRECT and a reference, REDIRECT_LOOP to itself, BAD_REDIRECT,
                                           OUT_OF_SCOPE, TOO_MANY_REDIRECTS; other 3xx: their status.
                                           One of a seed to another host of its domain extends the scope
    404, 410                               their status; removed from the outputs
    408, 425, 5xx, DNS, REFUSED, RESET,    retried after a second and after five, then failed
    INCOMPLETE, DEADLINE, PROTOCOL
    429, 503                               the host waits for its Retry-After, or 1, 2, 4 … 256 seconds
    other statuses and network failures    failed; the outputs keep it
    the login page of the connection       another session, or the document waits behind the gate of the login;
                                           LOGIN if the login did not help

The version of a document is that of its content for an output (title, description, text, type, language). A page in
which only a counter in a script has changed is unchanged.
"""

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self

from jobs.connectors.repository.base import Activity, Content, Document, RetryLimit, hash_of
from jobs.connectors.repository.kind import Pace
from jobs.connectors.repository.shared import SeedRedirect, Session
from jobs.connectors.repository.web.cookies import Cookies
from jobs.connectors.repository.web.fetch import Fetcher, Fetches, FetchFailed, IsWanted, Response
from jobs.connectors.repository.web.limits import DEFAULT_LIMITS, Limits
from jobs.connectors.repository.web.links import LinkTable
from jobs.connectors.repository.web.login import Login, LoginFailed, LoginInterrupted, log_in
from jobs.connectors.repository.web.page import RobotsWishes, read_page, wishes_of_headers
from jobs.connectors.repository.web.recording import RecordedFetches
from jobs.connectors.repository.web.retry import retry_after_of
from jobs.connectors.repository.web.robots import RobotsAnswer, RobotsKind, RobotsTable
from jobs.connectors.repository.web.specification import WebSpecification
from jobs.connectors.repository.web.text import Kind, decoded, kind_of, media_type
from jobs.connectors.repository.web.urls import BadUrl, bin_of, canonical, origin_of

logger = logging.getLogger(__name__)

_ACCEPT: Final = "text/html,application/xhtml+xml,application/xml;q=0.9,text/plain;q=0.8,*/*;q=0.1"
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_GONE: Final = frozenset({404, 410})
_BUSY: Final = frozenset({429, 503})
_NO_CONTENT: Final = frozenset({204, 205})
# Failures that may pass by themselves. TLS is not among them: only a person can repair a certificate.
_PASSING_STATUSES: Final = frozenset({408, 425})
_PASSING_FAILURES: Final = frozenset({"DNS", "REFUSED", "RESET", "INCOMPLETE", "DEADLINE", "PROTOCOL"})
_MOST_VALIDATOR: Final = 1024


class WebConnector:
    """
    The web as one job requests it, in one worker process.

    `fetcher` must allow private networks exactly if the specification does. The jobs of the process share `robots`.
    """

    def __init__(
        self,
        specification: WebSpecification,
        *,
        fetcher: Fetcher,
        robots: RobotsTable,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._specification = specification
        self._fetcher = fetcher
        self._robots = robots
        self._limits = limits
        self._scope = specification.scope_around_seeds()
        self._index_rules = specification.index_rules()
        self._links = LinkTable(admits=self._scope.admits, is_near=self._scope.is_near, limits=limits)
        self._seeds = frozenset(canonical(seed) for seed in specification.seeds)
        self._robots_name = specification.robots_name_asked
        self._headers = {"User-Agent": specification.user_agent}
        # The last session that this worker knew, by the name of the login.
        self._sessions: dict[str, _KnownSession] = {}

    @property
    def max_depth(self) -> int | None:
        return self._specification.max_depth

    def interval_of(self, identifier: str) -> float | None:
        """Return the crawl-delay of the document's host, if its robots.txt is known and has one."""
        return self._robots.crawl_delay(origin_of(identifier), name=self._robots_name)

    def admits(self, identifier: str) -> bool:
        """True if the job's rules let a stored link name this address."""
        return self._scope.may_admit(identifier)

    async def process(self, document: Document, activity: Activity, pace: Pace) -> None:
        await self._know_scope_of(document, activity)
        if not self._belongs(document):
            activity.no_document(code="OUT_OF_SCOPE")
            return
        try:
            fetcher = RecordedFetches(self._fetcher, activity, pace, seconds=self._limits.document_seconds)
            if not await self._may_ask(document, activity, pace, fetcher):
                return
            asked = await self._ask_logged_in(document, activity, pace, fetcher)
            if asked is None:
                return
            response, conditional = asked
        except FetchFailed as failure:
            logger.info("fetch of %s failed: %s", document.identifier, failure)
            self._end_without_response(failure.code, document, activity)
            return
        try:
            await self._end_with_response(response, document, activity, conditional=conditional)
        except Exception:
            # A page that breaks a parser ends with an error. The crawl continues.
            logger.exception("defect while reading %s", document.identifier)
            if activity.outcome is None:
                activity.failed(code="PROTOCOL")

    def _belongs(self, document: Document) -> bool:
        """False for a document that the job's rules refuse: they may have changed since it was referenced."""
        return self._scope.admits(document.identifier)

    async def _know_scope_of(self, document: Document, activity: Activity) -> None:
        """
        Read the redirects, even redirects that other workers met, by which the document's host came into the scope.
        """
        redirects: dict[str, str] = {}
        unknown = [document.identifier]
        while activity.shared is not None and unknown and len(redirects) < self._limits.redirects:
            url = unknown.pop()
            if not self._scope.holds(url):
                followed = await activity.shared.followed_to(bin_of(url))
                unknown += [redirect.source for redirect in followed if redirect.source not in redirects]
                redirects |= {redirect.source: redirect.target for redirect in followed}
        self._scope.follow(redirects.items())

    async def _may_ask(self, document: Document, activity: Activity, pace: Pace, fetcher: Fetches) -> bool:
        """True if robots.txt allows a request for the document. Otherwise its ending has been reported."""
        origin = origin_of(document.identifier)
        try:
            answer = await self._robots.ask(origin, fetcher=fetcher, headers=self._headers, pace=pace)
        except FetchFailed as failure:
            if failure.code != "TOO_SLOW":
                raise
            # The document itself was not requested. A slow robots.txt is retried, like one that does not arrive.
            raise FetchFailed("DEADLINE", f"robots.txt: {failure.detail}") from failure
        if answer.kind is RobotsKind.UNREACHABLE:
            self._wait_for_robots(answer, origin, document, activity)
            return False
        try:
            allowed = self._robots.rules(origin, name=self._robots_name).allows(document.identifier)
        except Exception:
            # The site's rules are unknown, so the document is not requested.
            logger.exception("defect while reading robots.txt of %s", origin)
            activity.failed(code="PROTOCOL")
            return False
        if not allowed:
            activity.no_document(code="ROBOTS")
        return allowed

    def _wait_for_robots(self, answer: RobotsAnswer, origin: str, document: Document, activity: Activity) -> None:
        waited = max(document.failing_for, self._robots.unreachable_for(origin))
        left = self._specification.robots_wait - waited
        if left <= 0:
            activity.out_of_reach(code="ROBOTS_UNREACHABLE")
            return
        after = max(answer.retry_after or 0.0, float(2 ** min(document.failures, 4)))
        after = max(min(after, left), 1.0)
        activity.back_off(after)
        activity.retry_later(code="ROBOTS_UNREACHABLE", after=after)

    async def _ask_logged_in(
        self, document: Document, activity: Activity, pace: Pace, fetcher: Fetches
    ) -> tuple[Response, bool] | None:
        """
        Return the result of `_ask`, with a session if the document needs one; None if its ending has been reported.
        """
        login = next((login for login in self._specification.logins if login.guards(document.identifier)), None)
        if login is None:
            return await self._ask(document, activity, pace, fetcher)
        session = await self._session_of(login, activity)
        while True:
            asked = await self._ask(document, activity, pace, fetcher, login=login, session=session)
            if not login.is_asked_for(document.identifier, asked[0]):
                return asked
            if session is not None and session.is_own:
                activity.failed(code="LOGIN")
                return None
            session = await self._another_session(login, session, document, activity, pace, fetcher)
            if session is None:
                return None

    async def _session_of(self, login: Login, activity: Activity) -> "_KnownSession | None":
        if login.name not in self._sessions:
            assert activity.shared is not None
            stored = await activity.shared.session(login.name)
            if stored is None:
                return None
            self._sessions[login.name] = _KnownSession.of(stored)
        return self._sessions[login.name]

    async def _another_session(
        self,
        login: Login,
        refused: "_KnownSession | None",
        document: Document,
        activity: Activity,
        pace: Pace,
        fetcher: Fetches,
    ) -> "_KnownSession | None":
        """
        Return a session other than the `refused` one. Log in if no other worker has done so meanwhile.

        Return None if the document has to wait: for another worker's login, or for a person after a failed login. Its
        ending has been reported then.
        """
        shared = activity.shared
        assert shared is not None
        async with shared.shut(f"login {login.name}") as gate:
            if not gate.is_mine:
                activity.wait_for(gate.name, code="LOGIN")
                return None
            stored = await shared.session(login.name)
            if stored is not None and (refused is None or stored.number != refused.number):
                self._sessions[login.name] = _KnownSession.of(stored)
                return self._sessions[login.name]
            began = time.monotonic()
            activity.record("begin login sequence", began=began, seconds=0.0, entity=login.name, result_code="OK")
            try:
                cookies = await log_in(login, document.identifier, fetcher=fetcher, headers=self._headers, pace=pace)
            except LoginFailed as failed:
                _record_end(activity, login, began=began, code="FAILED", description=str(failed))
                # Before the gate opens, so that no other document repeats the failed login.
                await shared.pause_job(f"{shared.connection}: the login {login.name} failed: {failed}")
                activity.wait_for(gate.name, code="LOGIN")
                return None
            except LoginInterrupted as interrupted:
                _record_end(activity, login, began=began, code=interrupted.code)
                self._retry_or_fail(interrupted.code, document, activity)
                return None
            _record_end(activity, login, began=began, code="OK")
            made = _KnownSession.of(await shared.keep_session(login.name, cookies.stored()))
            self._sessions[login.name] = made
            return replace(made, is_own=True)

    async def _ask(
        self,
        document: Document,
        activity: Activity,
        pace: Pace,
        fetcher: Fetches,
        *,
        login: Login | None = None,
        session: "_KnownSession | None" = None,
    ) -> tuple[Response, bool]:
        """Return the response to a request for the document, and whether the request was conditional."""
        headers = {**self._headers, "Accept": self._accept_of(document)}
        is_wanted: IsWanted = partial(self._is_wanted, document)
        if login is not None:
            # The login page may have any status.
            is_wanted = _is_text
            if session is not None and login.may_know(document.identifier):
                headers = {**headers, **session.headers_for(document.identifier)}
        conditions = self._conditions(document, activity)
        if conditions:
            headers = {**headers, **conditions}
        await pace.before_request()
        activity.record_request()
        response = await fetcher.fetch(document.identifier, headers=headers, is_wanted=is_wanted)
        activity.record_bytes(response.bytes_read)
        return response, bool(conditions)

    def _accept_of(self, document: Document) -> str:
        return _ACCEPT

    def _conditions(self, document: Document, activity: Activity) -> dict[str, str]:
        """Return the headers of a conditional request; none if the document must be read as a whole."""
        return conditions_of(document.validators) if activity.may_be_conditional else {}

    def _is_wanted(self, document: Document, status: int, headers: Mapping[str, str], first: bytes) -> bool:
        """True if the body is needed: only that of a success, and only if it is text."""
        return 200 <= status < 300 and kind_of(headers.get("Content-Type", ""), first) is not Kind.OTHER

    def _end_without_response(self, code: str, document: Document, activity: Activity) -> None:
        if code in _PASSING_FAILURES:
            self._retry_or_fail(code, document, activity)
        else:
            activity.failed(code=code)

    async def _end_with_response(
        self, response: Response, document: Document, activity: Activity, *, conditional: bool
    ) -> None:
        status = response.status
        if 200 <= status < 300:
            await self._end_success(response, document, activity)
        elif status == 304 and conditional:
            self._end_not_modified(response, document, activity)
        elif status == 304 or status < 100:
            # An answer to an unconditional request, or a number that is no status.
            activity.failed(code="PROTOCOL")
        elif status in _REDIRECTS:
            await self._end_redirect(response, document, activity)
        elif status in _GONE:
            activity.delete(code=str(status))
        elif status in _BUSY:
            self._back_off(response, document, activity)
        elif status in _PASSING_STATUSES or 500 <= status < 600:
            self._retry_or_fail(str(status), document, activity)
        else:
            activity.failed(code=str(status))

    def _end_not_modified(self, response: Response, document: Document, activity: Activity) -> None:
        activity.unchanged(code="304", validators=validators_of(response) or None, read=False)

    def _retry_or_fail(self, code: str, document: Document, activity: Activity) -> None:
        delays = self._limits.retry_delays
        if document.failures < len(delays):
            activity.retry_later(code=code, after=delays[document.failures], limit=RetryLimit(attempts=len(delays) + 1))
        else:
            activity.failed(code=code)

    def _back_off(self, response: Response, document: Document, activity: Activity) -> None:
        code = str(response.status)
        asked = retry_after_of(response.headers, most=self._limits.longest_retry_after)
        activity.back_off(asked)
        if document.failures + 1 >= self._limits.back_off_attempts:
            activity.failed(code=code)
            return
        after = float(2**document.failures) if asked is None else asked
        activity.retry_later(code=code, after=after, limit=RetryLimit(attempts=self._limits.back_off_attempts))

    async def _end_redirect(self, response: Response, document: Document, activity: Activity) -> None:
        try:
            target = canonical(_location_of(response), document.identifier, limits=self._limits)
        except BadUrl:
            activity.no_document(code="BAD_REDIRECT")
            return
        if target == document.identifier:
            activity.no_document(code="REDIRECT_LOOP")
        elif document.redirects >= self._limits.redirects:
            activity.no_document(code="TOO_MANY_REDIRECTS")
        elif not await self._admits_redirect(document, target, activity):
            activity.no_document(code="OUT_OF_SCOPE")
        else:
            activity.reference(
                identifier=target, hash=hash_of(target), bin=bin_of(target), redirect=True, link_type="redirect"
            )
            activity.no_document(code="REDIRECT")

    async def _admits_redirect(self, document: Document, target: str, activity: Activity) -> bool:
        """True if the redirect may be followed. A seed's redirect is stored, and may bring its host into the scope."""
        source, shared = document.identifier, activity.shared
        is_admitted = self._scope.admits(target)
        is_of_seed = source in self._seeds
        if shared is not None and not is_of_seed and document.redirects:
            is_of_seed = await shared.is_led_to(source)
        if shared is None or not is_of_seed:
            return is_admitted
        is_followed = is_admitted or self._scope.would_admit(target, after=source)
        await shared.note_redirect(SeedRedirect(source, target, bin_of(target), is_followed))
        if is_followed:
            self._scope.follow([(source, target)])
        return is_followed

    async def _end_success(self, response: Response, document: Document, activity: Activity) -> None:
        status = response.status
        if status == 206:
            self._retry_or_fail("INCOMPLETE", document, activity)
            return
        content_type = response.headers.get("Content-Type", "")
        name = media_type(content_type)
        kind = kind_of(content_type, response.body) if status not in _NO_CONTENT else Kind.OTHER
        if kind is Kind.OTHER or not response.whole:
            activity.no_document(code="NOT_TEXT")
            return
        text = decoded(response.body, content_type)
        wishes = (
            wishes_of_headers(response.robots_tags, robots_name=self._robots_name)
            if response.robots_tags
            else RobotsWishes()
        )
        if kind is Kind.HTML:
            content, wishes = self._read_html(
                text, document, activity, content_type=name if "/" in name else "text/html", wishes=wishes
            )
        else:
            content = Content(
                url=document.identifier,
                title="",
                description="",
                text=text.strip(),
                content_type=name if "/" in name else "text/plain",
                language="",
            )
        if wishes.noindex:
            activity.no_document(code="NOINDEX")
            return
        if (refused := self._index_rules.why_not(content, length=len(response.body))) is not None:
            activity.no_document(code=refused)
            return
        version = activity.version_of(content.fingerprint)
        validators = validators_of(response)
        if activity.needs_indexing(version):
            activity.ingest(content, code=str(status), version=version, validators=validators)
        else:
            activity.unchanged(code="OK_UNCHANGED", validators=validators, read=True)

    def _read_html(
        self, text: str, document: Document, activity: Activity, *, content_type: str, wishes: RobotsWishes
    ) -> tuple[Content, RobotsWishes]:
        """Return the content of a page. Its links are reported to the activity, if they count."""
        page = read_page(text, robots_name=self._robots_name)
        wishes = wishes.joined(page.wishes)
        if not wishes.nofollow and not self._is_at_the_end(document):
            references = self._links.references(page.links, base=self._base_of(page.base, document))
            references.pop(document.hash, None)
            activity.reference_all(references)
        content = Content(
            url=document.identifier,
            title=page.title,
            description=page.description,
            text=page.text,
            content_type=content_type,
            language=page.language,
        )
        return content, wishes

    def _is_at_the_end(self, document: Document) -> bool:
        most = self._specification.max_depth
        return most is not None and document.depth >= most

    def _base_of(self, href: str | None, document: Document) -> str:
        """Return the base of the page's relative links. A base that is not a web address is ignored."""
        if href is None:
            return document.identifier
        try:
            return canonical(href, document.identifier, limits=self._limits)
        except BadUrl:
            return document.identifier


@dataclass(frozen=True, slots=True)
class _KnownSession:
    """A session as a worker knows it; `is_own` if this document has created it."""

    number: int
    cookies: Cookies
    is_own: bool = False

    @classmethod
    def of(cls, stored: Session) -> Self:
        return cls(stored.number, Cookies.read(stored.value))

    def headers_for(self, url: str) -> dict[str, str]:
        sent = self.cookies.header_for(url)
        return {"Cookie": sent} if sent else {}


def _record_end(activity: Activity, login: Login, *, began: float, code: str, description: str = "") -> None:
    activity.record(
        "end login sequence",
        began=began,
        seconds=time.monotonic() - began,
        entity=login.name,
        result_code=code,
        result_description=description,
    )


def _is_text(_status: int, headers: Mapping[str, str], first: bytes) -> bool:
    return kind_of(headers.get("Content-Type", ""), first) is not Kind.OTHER


def validators_of(response: Response) -> str:
    """Return the validators for a later request, as JSON; '' if the server gave none."""
    given = {
        name: value
        for name in ("ETag", "Last-Modified")
        if (value := response.headers.get(name)) and value.isascii() and len(value) <= _MOST_VALIDATOR
    }
    return json.dumps(given) if given else ""


def conditions_of(validators: str) -> dict[str, str]:
    """Return the headers that request the document only if it changed since a response with these validators."""
    given = json.loads(validators)
    asked = {"If-None-Match": given.get("ETag"), "If-Modified-Since": given.get("Last-Modified")}
    return {name: value for name, value in asked.items() if value}


def _location_of(response: Response) -> str:
    """
    Return the Location as it was sent.

    Bytes that are not UTF-8 arrive as lone surrogates. Like a browser, this escapes them one by one.
    """
    location = response.headers.get("Location")
    if not location:
        raise BadUrl("", "no Location")
    return "".join(f"%{ord(c) - 0xDC00:02X}" if "\udc80" <= c <= "\udcff" else c for c in location)
