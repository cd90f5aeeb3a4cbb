"""Sessions of the connection's logins: shared by all workers, created by the first document that needs one."""

import time
from dataclasses import dataclass, replace
from typing import Self

from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.base import Document
from jobs.connectors.repository.kind import Pace
from jobs.connectors.repository.shared import Session
from jobs.connectors.repository.web.cookies import Cookies
from jobs.connectors.repository.web.fetch import Fetches
from jobs.connectors.repository.web.limits import Limits
from jobs.connectors.repository.web.login import Login, LoginFailed, LoginInterrupted, log_in
from jobs.connectors.repository.web.retry import retry_or_fail


@dataclass(frozen=True, slots=True)
class KnownSession:
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


class Sessions:
    """The last session that this worker knew, for each login."""

    def __init__(self, *, user_agent: str, limits: Limits) -> None:
        self._headers = {"User-Agent": user_agent}
        self._limits = limits
        self._known: dict[str, KnownSession] = {}

    async def known(self, login: Login, activity: Activity) -> KnownSession | None:
        """Return the last session of the login, perhaps another worker's; None if there is none."""
        if login.name not in self._known:
            assert activity.shared is not None
            stored = await activity.shared.session(login.name)
            if stored is None:
                return None
            self._known[login.name] = KnownSession.of(stored)
        return self._known[login.name]

    async def another(
        self,
        login: Login,
        refused: KnownSession | None,
        document: Document,
        activity: Activity,
        pace: Pace,
        fetcher: Fetches,
    ) -> KnownSession | None:
        """
        Return a session other than the `refused` one. Log in if no other worker has done so meanwhile.

        Return None if the document has to wait: for another worker's login, or for a person after a failed login. In
        this case, the ending of the document has been reported.
        """
        shared = activity.shared
        assert shared is not None
        async with shared.close_gate(f"login {login.name}") as gate:
            if not gate.is_mine:
                activity.wait_for(gate.name, code="LOGIN")
                return None
            stored = await shared.session(login.name)
            if stored is not None and (refused is None or stored.number != refused.number):
                self._known[login.name] = KnownSession.of(stored)
                return self._known[login.name]
            began = time.monotonic()
            activity.record("begin login sequence", began=began, seconds=0.0, entity=login.name, result_code="OK")
            try:
                cookies = await log_in(login, document.identifier, fetcher=fetcher, headers=self._headers, pace=pace)
            except LoginFailed as failed:
                _record_end(activity, login, began=began, code="FAILED", description=str(failed))
                # The job is paused before the gate opens, so that no other document repeats the failed login.
                await shared.pause_job(f"{shared.connection}: the login {login.name} failed: {failed}")
                activity.wait_for(gate.name, code="LOGIN")
                return None
            except LoginInterrupted as interrupted:
                _record_end(activity, login, began=began, code=interrupted.code)
                retry_or_fail(interrupted.code, document, activity, limits=self._limits)
                return None
            _record_end(activity, login, began=began, code="OK")
            made = KnownSession.of(await shared.keep_session(login.name, cookies.stored()))
            self._known[login.name] = made
            return replace(made, is_own=True)


def _record_end(activity: Activity, login: Login, *, began: float, code: str, description: str = "") -> None:
    activity.record(
        "end login sequence",
        began=began,
        seconds=time.monotonic() - began,
        entity=login.name,
        result_code=code,
        result_description=description,
    )
