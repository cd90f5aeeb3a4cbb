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
                                           A redirect of a seed to another host of its domain extends the scope
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

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from jobs.connectors.metadata import Metadata
from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.base import Document, hash_of
from jobs.connectors.repository.kind import Pace
from jobs.connectors.repository.shared import SeedRedirect
from jobs.connectors.repository.web.ended_redirects import ended_with
from jobs.connectors.repository.web.fetch import Fetcher, Fetches, FetchFailed, IsWanted, Response
from jobs.connectors.repository.web.limits import DEFAULT_LIMITS, Limits
from jobs.connectors.repository.web.links import LinkTable
from jobs.connectors.repository.web.location import location_of
from jobs.connectors.repository.web.login import Login
from jobs.connectors.repository.web.reading import PageReader
from jobs.connectors.repository.web.recording import RecordedFetches
from jobs.connectors.repository.web.retry import back_off, retry_or_fail
from jobs.connectors.repository.web.robots import RobotsTable
from jobs.connectors.repository.web.robots_check import RobotsCheck
from jobs.connectors.repository.web.sessions import KnownSession, Sessions
from jobs.connectors.repository.web.specification import WebSpecification
from jobs.connectors.repository.web.urls import BadUrl, bin_of, canonical, origin_of, without_parameters
from jobs.connectors.repository.web.validators import conditions_of, validators_of
from jobs.reading.text import Kind, kind_of, media_type
from jobs.traps.quarantine import TrapGuard

logger = logging.getLogger(__name__)

_ACCEPT: Final = "text/html,application/xhtml+xml,application/xml;q=0.9,text/plain;q=0.8,*/*;q=0.1"
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_GONE: Final = frozenset({404, 410})
_BUSY: Final = frozenset({429, 503})
# Failures that may end without a repair by a person. An error of TLS is none of these, because only a person can repair
# a certificate.
_PASSING_STATUSES: Final = frozenset({408, 425})
_PASSING_FAILURES: Final = frozenset({"DNS", "REFUSED", "RESET", "INCOMPLETE", "DEADLINE", "PROTOCOL"})


class WebConnector:
    """
    The connector of one web job in one worker process.

    `fetcher` must allow private networks exactly if the specification does. The jobs of the process share `robots`. If
    it `keeps_exchanges`, outcomes have the raw exchange of the document's own request.
    """

    def __init__(
        self,
        specification: WebSpecification,
        *,
        fetcher: Fetcher,
        robots: RobotsTable,
        limits: Limits = DEFAULT_LIMITS,
        keeps_exchanges: bool = False,
    ) -> None:
        self._keeps_exchanges = keeps_exchanges
        self._specification = specification
        self._fetcher = fetcher
        self._robots = robots
        self._limits = limits
        self._scope = specification.scope_around_seeds()
        self._index_rules = specification.index_rules()
        self._reader = PageReader(
            LinkTable(
                admits=self._scope.admits,
                is_near=self._scope.is_near,
                limits=limits,
                keeps_rejected=True,
                dropped=specification.dropped_parameters,
            ),
            robots_name=specification.robots_name_asked,
            limits=limits,
        )
        self._seeds = frozenset(canonical(seed) for seed in specification.seeds)
        # Redirects of seeds that earlier runs found and that still exist: the target by the source.
        self._redirects = dict(specification.redirects)
        self._robots_name = specification.robots_name_asked
        self._headers = {"User-Agent": specification.user_agent}
        self._robots_check = RobotsCheck(robots, specification)
        self._sessions = Sessions(user_agent=specification.user_agent, limits=limits)

    @property
    def max_depth(self) -> int | None:
        return self._specification.max_depth

    @property
    def trap_guard(self) -> TrapGuard:
        return self._specification.trap_guard

    def interval_of(self, identifier: str) -> float | None:
        """Return the crawl-delay of the document's host; None if its robots.txt is unknown or has none."""
        return self._robots.crawl_delay(origin_of(identifier), name=self._robots_name)

    def admits(self, identifier: str) -> bool:
        """True if the job's rules let a stored link name this address."""
        return self._scope.may_admit(identifier)

    async def process(self, document: Document, activity: Activity, pace: Pace) -> None:
        await self._learn_scope_of(document, activity)
        if not self._belongs(document):
            activity.refuse(code="OUT_OF_SCOPE")
            return
        try:
            fetcher = RecordedFetches(self._fetcher, activity, pace, seconds=self._limits.document_seconds)
            if not await self._robots_check.allows(document, activity, pace, fetcher):
                return
            asked = await self._ask_logged_in(document, activity, pace, fetcher)
            if asked is None:
                return
            response, conditional = asked
            activity.keep_exchange(response.exchange)
            activity.note_headers(response.headers)
        except FetchFailed as failure:
            logger.info("fetch of %s failed: %s", document.identifier, failure)
            activity.keep_exchange(failure.exchange)
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
        """
        False for a document that the job's rules refuse: the rules may have changed since the document was referenced.
        """
        return self._scope.admits(document.identifier)

    async def _learn_scope_of(self, document: Document, activity: Activity) -> None:
        """
        Read the redirects that brought the document's host into the scope, including redirects that other workers met.
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

    async def _ask_logged_in(
        self, document: Document, activity: Activity, pace: Pace, fetcher: Fetches
    ) -> tuple[Response, bool] | None:
        """
        Return the result of `_ask`, with a session if the document needs one; None if its ending has been reported.
        """
        login = next((login for login in self._specification.logins if login.guards(document.identifier)), None)
        if login is None:
            return await self._ask(document, activity, pace, fetcher)
        session = await self._sessions.known(login, activity)
        while True:
            asked = await self._ask(document, activity, pace, fetcher, login=login, session=session)
            if not login.is_asked_for(document.identifier, asked[0]):
                return asked
            if session is not None and session.is_own:
                activity.failed(code="LOGIN")
                return None
            session = await self._sessions.another(login, session, document, activity, pace, fetcher)
            if session is None:
                return None

    async def _ask(
        self,
        document: Document,
        activity: Activity,
        pace: Pace,
        fetcher: Fetches,
        *,
        login: Login | None = None,
        session: KnownSession | None = None,
    ) -> tuple[Response, bool]:
        """Return the response to a request for the document, and True if the request was conditional."""
        headers = {**self._headers, "Accept": self._accept_of(document)}
        is_wanted: IsWanted = partial(self._is_wanted, document, activity)
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
        response = await fetcher.fetch(
            document.identifier, headers=headers, is_wanted=is_wanted, keeps_exchange=self._keeps_exchanges
        )
        activity.record_bytes(response.bytes_read)
        return response, bool(conditions)

    def _accept_of(self, document: Document) -> str:
        return _ACCEPT

    def _conditions(self, document: Document, activity: Activity) -> dict[str, str]:
        """
        Return the headers that make a request conditional; no headers if the document must be read even if it has not
        changed.
        """
        return conditions_of(document.validators) if activity.may_be_conditional else {}

    def _is_wanted(
        self, document: Document, activity: Activity, status: int, headers: Mapping[str, str], first: bytes
    ) -> bool:
        """True if the body is needed: the answer is a success, and the body is text or the job's pipeline reads it."""
        if not 200 <= status < 300:
            return False
        content_type = headers.get("Content-Type", "")
        if kind_of(content_type, first) is not Kind.OTHER:
            return True
        return activity.reads(media_type(content_type), length=_length_in(headers))

    def _end_without_response(self, code: str, document: Document, activity: Activity) -> None:
        if code in _PASSING_FAILURES:
            retry_or_fail(code, document, activity, limits=self._limits)
        else:
            activity.failed(code=code)

    async def _end_with_response(
        self, response: Response, document: Document, activity: Activity, *, conditional: bool
    ) -> None:
        status = response.status
        if document.identifier in self._redirects and _is_page(status, conditional=conditional):
            await self._forget_redirects(document, activity)
        if 200 <= status < 300:
            await self._end_success(response, document, activity)
        elif status == 304 and conditional:
            self._end_not_modified(response, document, activity)
        elif status == 304 or status < 100:
            # Here the status is 304 although the request had no condition, or the number is no valid status.
            activity.failed(code="PROTOCOL")
        elif status in _REDIRECTS:
            await self._end_redirect(response, document, activity)
        elif status in _GONE:
            activity.delete(code=str(status))
        elif status in _BUSY:
            back_off(response, document, activity, limits=self._limits)
        elif status in _PASSING_STATUSES or 500 <= status < 600:
            retry_or_fail(str(status), document, activity, limits=self._limits)
        else:
            activity.failed(code=str(status))

    def _end_not_modified(self, response: Response, document: Document, activity: Activity) -> None:
        activity.unchanged(code="304", validators=validators_of(response) or None, read=False)

    async def _end_redirect(self, response: Response, document: Document, activity: Activity) -> None:
        try:
            target = without_parameters(
                canonical(location_of(response), document.identifier, limits=self._limits),
                self._specification.dropped_parameters,
            )
        except BadUrl:
            activity.no_document(code="BAD_REDIRECT")
            return
        if target == document.identifier:
            activity.no_document(code="REDIRECT_LOOP")
        elif document.redirects >= self._limits.redirects:
            activity.no_document(code="TOO_MANY_REDIRECTS")
        elif not await self._admits_redirect(document, target, activity):
            activity.note_rejected([target])
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

    async def _forget_redirects(self, document: Document, activity: Activity) -> None:
        """
        Forget the stored redirect of a document that answers with a page now, and the redirects that follow it in its
        chain.

        Later runs begin without the hosts that these redirects brought into the scope. This run keeps these hosts
        (decision 0177).
        """
        ended = ended_with(document.identifier, self._redirects, seeds=self._seeds)
        if activity.shared is not None:
            await activity.shared.forget_redirects(ended)
        self._redirects = {source: target for source, target in self._redirects.items() if source not in ended}

    async def _end_success(self, response: Response, document: Document, activity: Activity) -> None:
        if response.status == 206:
            retry_or_fail("INCOMPLETE", document, activity, limits=self._limits)
            return
        follows_links = not self._is_at_the_end(document)
        page = self._reader.read(response, document, follows_links=follows_links, reads=activity.reads)
        if page is None:
            activity.no_document(code="NOT_TEXT")
            return
        activity.reference_all(page.references)
        activity.note_rejected(page.rejected)
        if page.robots.noindex:
            activity.no_document(code="NOINDEX")
            return
        if (refused := self._index_rules.why_not(page.content, length=len(response.body))) is not None:
            activity.no_document(code=refused)
            return
        content = page.content
        if more := self._more_metadata(activity):
            content = replace(content, metadata={**content.metadata, **more})
        version = activity.version_of(activity.fingerprint_of(content, page.body))
        validators = validators_of(response)
        if activity.needs_indexing(version):
            activity.ingest(
                content,
                code=str(response.status),
                version=version,
                validators=validators,
                body=page.body,
                charset=page.charset,
            )
        else:
            activity.unchanged(code="OK_UNCHANGED", validators=validators, read=True)

    def _more_metadata(self, activity: Activity) -> Metadata:
        """Return metadata that does not come from the page. A derived class overrides this method."""
        return {}

    def _is_at_the_end(self, document: Document) -> bool:
        most = self._specification.max_depth
        return most is not None and document.depth >= most


def _is_page(status: int, *, conditional: bool) -> bool:
    """True for an answer that proves that the address has a page now. A partial answer or an error may be temporary."""
    return (200 <= status < 300 and status != 206) or (status == 304 and conditional)


def _length_in(headers: Mapping[str, str]) -> int | None:
    said = headers.get("Content-Length", "")
    return int(said) if said.isascii() and said.isdigit() and len(said) < 16 else None


def _is_text(_status: int, headers: Mapping[str, str], first: bytes) -> bool:
    return kind_of(headers.get("Content-Type", ""), first) is not Kind.OTHER
