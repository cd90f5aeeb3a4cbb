"""Proves that live pages receive changed cells in time, only for permitted users, and survive a database outage."""

import asyncio
import json
import time
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import Group
from django.contrib.sessions.models import Session
from django.db import connections
from django.test import Client
from django.utils import timezone

from crawlctl.asgi import application
from crawlctl.live import bridge as bridge_module
from crawlctl.live import session_permissions
from crawlctl.live.bridge import stop_bridge
from crawlctl.live.consumers import NOT_ALLOWED, NOT_LOGGED_IN, TOO_BIG, TOO_MUCH
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Phase
from jobs.models import CounterDelta, Job
from jobs.verbs import control
from tests.support.api import make_job, make_user, set_phase
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

OURS = b"http://127.0.0.1"
# Generous limit for a busy machine (seconds). Frames usually arrive immediately.
PATIENCE = 30.0


@pytest_asyncio.fixture(autouse=True)
async def bridge_ends():
    yield
    await stop_bridge()
    await sync_to_async(connections.close_all)()


def _log_in(*roles):
    client = Client()
    user = make_user(*roles)
    client.force_login(user)
    return user, client.cookies["sessionid"].value


def _log_in_as(name):
    client = Client()
    client.force_login(make_user("viewer", name=name))
    return client.cookies["sessionid"].value


log_in = sync_to_async(_log_in)
in_thread = sync_to_async


class Socket(ApplicationCommunicator):
    """
    The browser's end of a web socket. (The communicator that the package channels has for web sockets needs another
    server.)
    """

    async def open(self):
        """Open the web socket. Return True if the server accepted it."""
        await self.send_input({"type": "websocket.connect"})
        return (await self.receive_output(timeout=PATIENCE))["type"] == "websocket.accept"

    async def send_text(self, text):
        await self.send_input({"type": "websocket.receive", "text": text})

    async def send_frame(self, frame):
        await self.send_text(json.dumps(frame))

    async def receive_frame(self, within=PATIENCE):
        message = await self.receive_output(timeout=within)
        assert message["type"] == "websocket.send", message
        return json.loads(message["text"])

    async def close(self):
        if not self.future.done():
            await self.send_input({"type": "websocket.disconnect", "code": 1001})
            await self.wait(timeout=PATIENCE)


@asynccontextmanager
async def opened(session="", *, origin=OURS):
    """Yield the socket of a page, and close it at the end."""
    headers = [(b"host", b"127.0.0.1"), (b"cookie", f"sessionid={session}".encode())]
    headers += [(b"origin", origin)] if origin else []
    socket = Socket(application, {"type": "websocket", "path": "/live/", "query_string": b"", "headers": headers})
    socket.is_accepted = await socket.open()
    yield socket
    await socket.close()


async def follow(socket, topic, *, visible=True, **more):
    await socket.send_frame({"type": "follow", "topic": topic, "visible": visible, **more})


async def next_frame(socket, kind, *, within=PATIENCE):
    """Return the next frame of this kind. Skip other frames."""
    async with asyncio.timeout(within):
        while True:
            frame = await socket.receive_frame(within)
            if frame["type"] == kind:
                return frame


async def cells_where(socket, condition, *, within):
    async with asyncio.timeout(within):
        while True:
            cells = (await next_frame(socket, "screen", within=within))["cells"]
            if condition(cells):
                return cells


async def close_code(socket, *, within=PATIENCE):
    """Return the code with which the server closes the socket. Skip frames before it."""
    async with asyncio.timeout(within):
        while True:
            message = await socket.receive_output(timeout=within)
            if message["type"] == "websocket.close":
                return message["code"]


@sync_to_async
def add_documents(job, amount):
    CounterDelta.objects.create(
        job_id=job.pk,
        lane_id=1,
        run_no=job.run_no,
        measure="stage",
        stage=Stage.DONE,
        outcome=1,
        code="200",
        amount=amount,
    )


@sync_to_async
def running_job(name="manual"):
    job = make_job(name)
    set_phase(job, phase=Phase.ACTIVE)
    return job


# --- Frames --------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["overview", "nodes", "cluster"])
async def test_a_subscriber_gets_the_whole_screen(topic):
    _, session = await log_in("viewer")

    async with opened(session) as socket:
        await follow(socket, topic)

        assert (await next_frame(socket, "screen"))["cells"]


async def test_each_page_gets_the_screen_of_a_topic_in_its_language():
    _, session = await log_in("viewer")

    async with opened(session) as german, opened(session) as english:
        await follow(german, "overview", language="de")
        await follow(english, "overview")

        assert (await next_frame(german, "screen"))["cells"]["headline"] == "Kein Job läuft"
        assert (await next_frame(english, "screen"))["cells"]["headline"] == "No job is running"


async def test_a_number_arrives_within_two_seconds_of_its_change():
    _, session = await log_in("viewer")
    job = await running_job()

    async with opened(session) as socket:
        await follow(socket, f"job-{job.pk}")
        await next_frame(socket, "screen")
        took = []
        for shown in ("1,000", "2,000", "3,000"):
            changed_at = time.monotonic()
            await add_documents(job, 1000)
            await cells_where(socket, lambda cells, shown=shown: cells.get("indexed") == shown, within=PATIENCE)
            took.append(time.monotonic() - changed_at)

    # A change right after a screen waits longest for the next screen. The minimum excludes delays of a busy machine.
    assert min(took[1:]) < 2


async def test_screens_are_at_least_a_second_and_a_half_apart():
    _, session = await log_in("viewer")
    job = await running_job()

    async with opened(session) as socket:
        await follow(socket, "overview")
        # The first screen of a process fills its caches.
        await next_frame(socket, "screen", within=PATIENCE)
        arrived = []
        until = time.monotonic() + PATIENCE
        while len(arrived) < 3 and time.monotonic() < until:
            await add_documents(job, 1)
            while not socket.output_queue.empty():
                if (await socket.receive_frame())["type"] == "screen":
                    arrived.append(time.monotonic())

    assert len(arrived) >= 3
    # If a busy machine delays a screen, less time passes before the next screen.
    assert all(later - earlier > 1.3 for earlier, later in pairwise(arrived))


async def test_only_changes_are_sent_after_the_whole_screen():
    _, session = await log_in("viewer")
    job = await running_job()

    async with opened(session) as socket:
        await follow(socket, f"job-{job.pk}")
        whole = (await next_frame(socket, "screen"))["cells"]
        await add_documents(job, 1000)
        changed = await cells_where(socket, lambda cells: cells.get("indexed") == "1,000", within=PATIENCE)

    assert whole.keys() > changed.keys()
    assert "name" in whole.keys() - changed.keys()


async def test_screens_that_are_expensive_to_read_are_read_rarely(monkeypatch):
    monkeypatch.setattr(bridge_module, "_KEPT", 0.0)
    monkeypatch.setattr(bridge_module, "_measured", lambda work: (work(), 0.03))
    monkeypatch.setattr(bridge_module, "read_screen", lambda _: {"status": str(time.monotonic())})
    _, session = await log_in("viewer")

    async with opened(session) as socket:
        await follow(socket, "overview")
        arrived = [(await next_frame(socket, "screen")) and time.monotonic() for _ in range(4)]

    # Ignore the first screen, and the second screen, which follows soon. A read
    # of 0.03 s at a share of 0.006 of a processor allows one screen in 5 s.
    assert arrived[3] - arrived[2] > 4


async def test_a_hidden_page_gets_no_frames_and_a_whole_screen_when_shown():
    _, session = await log_in("viewer")
    job = await running_job()

    async with opened(session) as socket:
        await follow(socket, "overview")
        await next_frame(socket, "screen")
        await socket.send_frame({"type": "hidden"})
        await asyncio.sleep(0.3)
        while not socket.output_queue.empty():
            await socket.receive_frame()
        await add_documents(job, 77)

        assert await socket.receive_nothing(timeout=3)
        await socket.send_frame({"type": "visible"})
        await cells_where(socket, lambda cells: cells.get("indexed") == "77", within=PATIENCE)


async def test_two_pages_of_one_topic_share_each_read_of_their_screen(monkeypatch):
    reads = []
    read_screen = bridge_module.read_screen
    monkeypatch.setattr(bridge_module, "read_screen", lambda name: (reads.append(name), read_screen(name))[1])
    _, session = await log_in("viewer")

    async with opened(session) as one, opened(session) as two:
        await follow(one, "nodes")
        await next_frame(one, "screen")
        await follow(two, "nodes")
        await next_frame(two, "screen")
        began, before = time.monotonic(), len(reads)
        await asyncio.sleep(3)

    assert len(reads) - before <= (time.monotonic() - began) + 1


@pytest.fixture
def rare_readings(monkeypatch):
    """Let pages use more than their share of a processor, so that the next screen is minutes away."""
    monkeypatch.setattr(bridge_module, "_measured", lambda work: (work(), PATIENCE))
    monkeypatch.setattr(bridge_module, "_LONGEST_REST", 10 * PATIENCE)


@pytest.mark.usefixtures("rare_readings")
async def test_a_control_event_is_shown_before_the_next_regular_screen():
    _, session = await log_in("viewer")
    job = await in_thread(make_job)()

    async with opened(session) as socket:
        await follow(socket, f"job-{job.pk}")
        await next_frame(socket, "screen")
        # A quiet second passes first, so that no other change delays this one.
        await next_frame(socket, "beat")
        await in_thread(control.start)(job.pk, made_by="a test", now=timezone.now())

        cells = await cells_where(socket, lambda cells: cells.get("status") == "Starting up", within=PATIENCE)

    assert [step["key"] for step in cells["steps"]] == ["abort", "restart", "restart-minimal"]


@pytest.mark.usefixtures("rare_readings")
async def test_a_control_event_soon_after_a_screen_is_shown_before_the_next_screen():
    _, session = await log_in("viewer")
    job = await in_thread(make_job)()

    async with opened(session) as socket:
        await follow(socket, f"job-{job.pk}")
        await next_frame(socket, "screen", within=PATIENCE)
        await next_frame(socket, "beat")
        await in_thread(control.start)(job.pk, made_by="a test", now=timezone.now())
        await cells_where(socket, lambda cells: cells.get("status") == "Starting up", within=PATIENCE)
        await in_thread(control.abort)(job.pk, made_by="a test", now=timezone.now())

        await cells_where(socket, lambda cells: cells.get("status") not in (None, "Starting up"), within=PATIENCE)


async def test_live_pages_get_a_heartbeat_every_two_seconds():
    _, session = await log_in("viewer")

    async with opened(session) as socket:
        last_beat_at = [time.monotonic()]
        for _ in range(2):
            assert not (await next_frame(socket, "beat", within=PATIENCE))["stalled"]
            last_beat_at.append(time.monotonic())

    assert min(later - earlier for earlier, later in pairwise(last_beat_at)) < 3


async def test_one_query_checks_the_sessions_of_all_pages_at_a_heartbeat(monkeypatch):
    looks = []
    judge_sessions = session_permissions.judge_sessions
    monkeypatch.setattr(
        session_permissions, "judge_sessions", lambda keys: (looks.append(set(keys)), judge_sessions(keys))[1]
    )
    _, ours = await log_in("viewer")
    theirs = await in_thread(_log_in_as)("somebody else")

    async with opened(ours) as one, opened(ours) as two, opened(theirs) as three:
        for socket in (one, two, three):
            await next_frame(socket, "beat")
        looks.clear()
        await next_frame(three, "beat")
        await next_frame(three, "beat")

    assert looks
    assert all(look == {ours, theirs} for look in looks)


async def test_a_page_of_a_deleted_job_is_notified():
    _, session = await log_in("viewer")
    job = await in_thread(make_job)()

    async with opened(session) as socket:
        await follow(socket, f"job-{job.pk}")
        await next_frame(socket, "screen")
        await in_thread(Job.objects.filter(pk=job.pk).delete)()

        assert await next_frame(socket, "gone")


async def test_live_pages_continue_after_the_database_has_cut_every_connection(connection):
    _, session = await log_in("viewer")
    job = await running_job()

    async with opened(session) as socket:
        await follow(socket, "overview")
        await next_frame(socket, "screen")
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        connection.execute(cut)
        # This uses the plain connection, because the connection of the ORM was cut, too.
        connection.execute(
            "INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)"
            " VALUES (%s, 1, 0, 'stage', 2, 1, '200', 9)",
            [job.pk],
        )

        await cells_where(socket, lambda cells: cells.get("indexed") == "9", within=10.0)


# --- Permissions ---------------------------------------------------------------------------------


async def test_without_a_login_the_socket_closes():
    async with opened() as socket:
        assert await close_code(socket) == NOT_LOGGED_IN


async def test_without_a_role_the_socket_closes():
    _, session = await log_in()

    async with opened(session) as socket:
        assert await close_code(socket) == NOT_ALLOWED


@pytest.mark.parametrize("origin", [b"http://elsewhere.test", b"", b"null"])
async def test_a_socket_of_a_foreign_page_is_refused(origin):
    _, session = await log_in("viewer")

    async with opened(session, origin=origin) as socket:
        assert not socket.is_accepted


async def test_another_port_of_our_host_is_a_foreign_page():
    _, session = await log_in("viewer")

    async with opened(session, origin=b"http://127.0.0.1:9999") as socket:
        assert await close_code(socket) == NOT_ALLOWED


async def test_after_a_logout_the_socket_closes():
    _, session = await log_in("viewer")

    async with opened(session) as socket:
        await follow(socket, "overview")
        await next_frame(socket, "screen")
        await in_thread(Session.objects.all().delete)()

        assert await close_code(socket) == NOT_LOGGED_IN


async def test_a_socket_closes_with_the_loss_of_its_role():
    user, session = await log_in("viewer")

    async with opened(session) as socket:
        await follow(socket, "overview")
        await next_frame(socket, "screen")
        await in_thread(user.groups.remove)(await in_thread(Group.objects.get)(name="viewer"))

        assert await close_code(socket) == NOT_ALLOWED


# --- Invalid frames ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        "{",
        "[]",
        "7",
        '{"type": "follow"}',
        '{"type": "follow", "topic": "job-0", "visible": true}',
        '{"type": "follow", "topic": "job-1;--", "visible": true}',
        '{"type": "follow", "topic": ["overview"], "visible": true}',
        '{"type": "follow", "topic": "overview", "visible": "yes"}',
        '{"type": "follow", "topic": "overview", "visible": true, "language": "xx"}',
        '{"type": "follow", "topic": "overview", "visible": true, "language": ["de"]}',
        '{"type": "screen.changed"}',
        "\ud7ff\u0000",
    ],
)
async def test_an_invalid_frame_gets_an_error_and_the_socket_stays_open(frame):
    _, session = await log_in("viewer")

    async with opened(session) as socket:
        await socket.send_text(frame)
        assert await next_frame(socket, "error")

        await follow(socket, "overview")
        assert await next_frame(socket, "screen")


@pytest.mark.parametrize("facts", [{"text": json.dumps({"type": "x" * 2000})}, {"bytes": b"{}"}])
async def test_a_frame_that_is_too_long_or_not_text_closes_the_socket(facts):
    _, session = await log_in("viewer")

    async with opened(session) as socket:
        await socket.send_input({"type": "websocket.receive", **facts})

        assert await close_code(socket) == TOO_BIG


async def test_a_deeply_nested_frame_gets_an_error_and_the_socket_stays_open():
    _, session = await log_in("viewer")

    async with opened(session) as socket:
        await socket.send_input({"type": "websocket.receive", "text": "[" * 1_024})

        assert await next_frame(socket, "error")
        await follow(socket, "overview")
        assert await next_frame(socket, "screen")


async def test_a_flood_of_frames_closes_the_socket():
    _, session = await log_in("viewer")

    async with opened(session) as socket:
        for _ in range(50):
            await socket.send_frame({"type": "visible"})

        assert await close_code(socket) == TOO_MUCH


async def test_the_page_of_an_unknown_job_gets_an_error():
    _, session = await log_in("viewer")

    async with opened(session) as socket:
        await follow(socket, "job-4242")

        assert await next_frame(socket, "gone")


async def test_the_web_server_starts_and_stops_its_listener(connection):
    started, stopped = asyncio.Event(), asyncio.Event()
    messages = asyncio.Queue()
    await messages.put({"type": "lifespan.startup"})

    async def answer(message):
        (started if message["type"] == "lifespan.startup.complete" else stopped).set()

    server = asyncio.create_task(application({"type": "lifespan"}, messages.get, answer))
    await asyncio.wait_for(started.wait(), PATIENCE)
    listening = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE application_name = 'crawlctl live' AND datname = current_database()"
    )
    await in_thread(wait_until)(lambda: connection.execute(listening).fetchone() == (1,))
    await messages.put({"type": "lifespan.shutdown"})
    await asyncio.wait_for(stopped.wait(), PATIENCE)
    await server

    await in_thread(wait_until)(lambda: connection.execute(listening).fetchone() == (0,))
