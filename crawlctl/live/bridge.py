"""
The bridge between the database and the open pages of this process.

It listens for control events on a separate connection, and reads screens in one thread with one connection, however
many pages are open. It runs from the first page (or from the start of a server with lifespan events) until the server
stops, and survives outages of the database. During an outage it is `stalled`, pages show that, and it recovers by
itself.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from django.db import Error as DatabaseError
from django.db import connections
from psycopg.abc import PQGen

from crawlctl.languages import speaking
from crawlctl.live.changes import changes
from crawlctl.live.session_permissions import Judge
from crawlctl.live.topics import View, read_screen
from jobs.queries.hosts.lines import observe_busiest_hosts
from jobs.queries.jobs.lines import observe_rates
from jobs.state import channels
from nodes.database.address import database_dsn
from nodes.database.clock import read_clock
from nodes.database.shared_results import Moment
from nodes.web.screens import Record
from nodes.web.topics import TopicUnknown

_T = TypeVar("_T")

# Shortest time between two screens of a page (seconds), and so the interval of reading. Numbers must show within 2 s.
# Shorter intervals would cost the crawl more and show a person no more.
_AT_MOST_EVERY: Final = 1.6
# Interval of reading rates while no page is open (seconds), so that the next page shows their history.
_UNWATCHED: Final = 5.0
# Pause after a reading, in multiples of its duration: readings of up to 2.5 s take at most a fifth of the time. On a
# huge crawl the pages get slower, not the database.
_REST: Final = 4.0
# Share of one processor that reading and sending screens and checking sessions may use. The crawl loses this
# computing time, so screens come less often if more kinds of pages are open. Unused time is kept, up to a limit
# (seconds). Changes of a job are still shown immediately.
_OF_A_PROCESSOR: Final = 0.006
_KEPT: Final = 0.2
# Longest pause between two readings (seconds).
_LONGEST_REST: Final = 10.0
# Time that counts as one moment: pages that are read within it share their query results (seconds).
_MOMENT: Final = 0.5
# Interval of beats to pages, and of checking their sessions (seconds).
_BEAT: Final = 2.0
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 2.0

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Topic:
    """
    The state of a topic in one language. `screen` is None before the topic was first read (version 0), or after the
    topic has ended. `frame` is the message with the whole screen. `changes` is the message for pages that show the
    version before. Each message is encoded once for all pages, and the whole screen only if a page needs it.
    """

    view: View
    watchers: set[asyncio.Event] = field(default_factory=set)
    screen: Record | None = None
    frame: str = ""
    changes: str = ""
    version: int = 0
    changed_at: float = 0.0


class Page(Protocol):
    """An open page of a session."""

    session: str

    def beat(self, refusal: int) -> None:
        """Receive a beat. `refusal` is 0, or the close code with which the page must be closed."""


class _Listening(psycopg.AsyncConnection[Any]):
    """
    A connection that sleeps until a message arrives: psycopg's own wakes ten times a second to check for interrupts.
    """

    async def wait(self, gen: PQGen[_T], interval: float = 60.0, timeout: float | None = None) -> _T:  # noqa: ASYNC109 (psycopg's own)
        return await super().wait(gen, interval, timeout)


class Bridge:
    """One bridge for each event loop. Use it from that loop only."""

    def __init__(self) -> None:
        self._topics: dict[View, _Topic] = {}
        self._pages: set[Page] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="screens")
        self._woken = asyncio.Event()
        # True if something changed, or may have changed, since all topics were last read.
        self._has_news = False
        self._judge = Judge(self._run_counted)
        self._allowed = _KEPT
        self._moment, self._moment_began = Moment(), float("-inf")
        self.is_stalled = False

    def start(self) -> None:
        """Begin to listen and to read. Do nothing if already started."""
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(self._listen(), name="listening"),
                asyncio.create_task(self._keep_reading(), name="reading screens"),
                asyncio.create_task(self._keep_beating(), name="beating"),
            ]

    async def stop(self) -> None:
        """Stop all tasks and close all connections of the bridge."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await asyncio.get_running_loop().run_in_executor(self._thread, connections.close_all)
        self._thread.shutdown()

    async def run(self, work: Callable[[], _T]) -> _T:
        """Return the result of `work`, called in the thread that has this process's connection for live pages."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, _with_connection, work)

    async def _run_counted(self, work: Callable[[], _T]) -> _T:
        done, used = await self.run(lambda: _measured(work))
        self.count_use(used)
        return done

    def attach(self, page: Page) -> None:
        """Send beats to the page until `detach`."""
        self._pages.add(page)

    def detach(self, page: Page) -> None:
        self._pages.discard(page)

    def watch(self, view: View, news: asyncio.Event) -> None:
        """Set `news` whenever there is a newer screen of the topic, until `unwatch`."""
        topic = self._topics.setdefault(view, _Topic(view))
        topic.watchers.add(news)
        # No page watched the topic meanwhile, so the kept screen may be old.
        if len(topic.watchers) == 1:
            topic.screen, topic.changed_at = None, 0.0
        self._woken.set()

    def unwatch(self, view: View, news: asyncio.Event) -> None:
        topic = self._topics.get(view)
        if topic is not None:
            topic.watchers.discard(news)
            if not topic.watchers:
                del self._topics[view]

    def count_use(self, seconds: float) -> None:
        """Count processor time that was used for open pages."""
        self._allowed -= seconds

    async def judge(self, session: str) -> int:
        """Return the close code for a session, 0 if its owner may stay."""
        return await self._judge.judge(session)

    def frame_of(self, view: View, *, shown: int) -> tuple[int, str]:
        """
        Return the newest version of a watched topic (0 if it was not read yet), and the message that brings a page from
        the version `shown` to it.
        """
        topic = self._topics.get(view)
        if topic is None or not topic.version:
            return 0, ""
        if shown == topic.version - 1 and topic.changes:
            return topic.version, topic.changes
        if not topic.frame:
            topic.frame = _frame(topic.screen)
        return topic.version, topic.frame

    async def _keep_reading(self) -> None:
        observed_at = 0.0
        began = time.monotonic()
        while True:
            self._allowed = min(_KEPT, self._allowed + (time.monotonic() - began) * _OF_A_PROCESSOR)
            began = time.monotonic()
            self._woken.clear()
            has_news, self._has_news = self._has_news, False
            self._begin_moment()
            early: list[float] = []
            try:
                for topic in list(self._topics.values()):
                    if (waits := topic.changed_at + _AT_MOST_EVERY * 0.95 - began) <= 0:
                        await self._read(topic)
                    else:
                        early.append(waits)
                if began - observed_at >= _UNWATCHED:
                    observed_at = began
                    _done, used = await self._read_now(_observe)
                    self.count_use(used)
                self.is_stalled = False
            except (DatabaseError, psycopg.Error) as error:
                if not self.is_stalled:
                    logger.warning("the content of live pages cannot be read: %s", error)
                self.is_stalled = True
            took = time.monotonic() - began
            most = max(
                _AT_MOST_EVERY if self._topics else _UNWATCHED, min(-self._allowed / _OF_A_PROCESSOR, _LONGEST_REST)
            )
            if has_news and early:
                # These pages got their last screens just before the change, so they must wait for the interval of
                # screens.
                self._has_news = True
                most = min(early)
            await self._rest(max(_AT_MOST_EVERY / 4, min(took * _REST, _LONGEST_REST)), most)

    def _begin_moment(self) -> None:
        self._moment, self._moment_began = Moment(), time.monotonic()

    async def _read_now(self, read: Callable[[], _T]) -> tuple[_T, float]:
        """
        Return the result of `read` and its processor time (seconds). Query results of other pages at this moment are
        used again.
        """
        if time.monotonic() - self._moment_began > _MOMENT:
            self._begin_moment()
        return await self.run(lambda: _measured(lambda: _at(self._moment, read)))

    async def _keep_beating(self) -> None:
        while True:
            await asyncio.sleep(_BEAT)
            if not self._pages:
                continue
            try:
                refusals = await self._judge.judge_all({page.session for page in self._pages})
            except (DatabaseError, psycopg.Error):
                # No screens are sent while the database is down, so open pages may stay until it answers.
                refusals = {}
            for page in list(self._pages):
                page.beat(refusals.get(page.session, 0))

    def _note_news(self) -> None:
        self._has_news = True
        self._woken.set()

    async def _rest(self, least: float, most: float) -> None:
        """Sleep `least` seconds, and then until something happens, `most` in all."""
        await asyncio.sleep(least)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), max(0.0, most - least))

    async def _read(self, topic: _Topic) -> None:
        try:
            screen, used = await self._read_now(lambda: _read_in_its_language(topic.view))
        except TopicUnknown:
            screen, used = None, 0.0
        # The first reading fills all caches. Its cost must not delay other topics.
        if topic.version:
            self.count_use(used)
        if topic.version and screen == topic.screen:
            return
        before = topic.screen
        if before is not None and screen is not None:
            topic.changes, used = _measured(lambda: _frame(changes(before, screen)))
            self.count_use(used)
        else:
            topic.changes = ""
        topic.screen, topic.version, topic.changed_at, topic.frame = screen, topic.version + 1, time.monotonic(), ""
        for news in topic.watchers:
            news.set()

    async def _listen(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                dsn = await self.run(database_dsn)
                async with await _Listening.connect(
                    dsn, autocommit=True, application_name="crawlctl live", keepalives_idle=5, connect_timeout=5
                ) as connection:
                    await connection.execute(f"LISTEN {channels.CONTROL}")
                    pause = _FIRST_PAUSE
                    # A change may have been missed before.
                    self._note_news()
                    async for _notification in connection.notifies():
                        self._note_news()
            except (DatabaseError, psycopg.Error, OSError) as error:
                logger.info("not listening for control events, trying again in %s s: %s", pause, error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)


_bridges: WeakKeyDictionary[asyncio.AbstractEventLoop, Bridge] = WeakKeyDictionary()


def bridge() -> Bridge:
    """Return the started bridge of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _bridges:
        _bridges[loop] = Bridge()
    _bridges[loop].start()
    return _bridges[loop]


async def stop_bridge() -> None:
    """Stop the bridge of the running event loop, if there is one."""
    running = _bridges.pop(asyncio.get_running_loop(), None)
    if running is not None:
        await running.stop()


def _measured(work: Callable[[], _T]) -> tuple[_T, float]:
    """Return the result of `work`, and its processor time (seconds)."""
    began = time.thread_time()
    return work(), time.thread_time() - began


def _at(moment: Moment, read: Callable[[], _T]) -> _T:
    with moment.present():
        return read()


def _read_in_its_language(view: View) -> Record:
    with speaking(view.language):
        return read_screen(view.topic)


def _frame(cells: Record | None) -> str:
    frame = {"type": "gone"} if cells is None else {"type": "screen", "cells": cells}
    return json.dumps(frame, ensure_ascii=False)


def _observe() -> None:
    """Record the progress of running jobs and of the busiest hosts."""
    now = read_clock()
    observe_rates(now=now)
    observe_busiest_hosts(now=now)


def _with_connection(work: Callable[[], _T]) -> _T:
    """Call `work` with this thread's kept connection. After an error the next call gets a new connection."""
    try:
        return work()
    except DatabaseError:
        connections.close_all()
        raise
