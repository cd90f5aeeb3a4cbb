"""Real receivers of messages on loopback: an SMTP server, and an HTTP server that records what it gets."""

import email
import email.policy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from tests.support.metrics import free_port


@dataclass
class Mailbox:
    """An SMTP server on loopback. It takes the password `right` only, and no mail for an address in `refused`."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)

    async def handle_RCPT(  # noqa: N802 (the name of aiosmtpd)
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        if address in self.refused:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802 (the name of aiosmtpd)
        self, server: Any, session: Any, envelope: Any
    ) -> str:
        self.mails.append(email.message_from_bytes(envelope.content, policy=email.policy.default))
        self.recipients.append(list(envelope.rcpt_tos))
        return "250 OK"


def _authenticate(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
    return AuthResult(success=data.password == b"right", handled=False)


@contextmanager
def mailbox() -> Iterator[Mailbox]:
    """Run an SMTP server."""
    # The controller connects to its own port once, so it must know the port.
    box = Mailbox(port=free_port())
    controller = Controller(
        box, hostname="127.0.0.1", port=box.port, authenticator=_authenticate, auth_require_tls=False, ready_timeout=30
    )
    controller.start()
    try:
        yield box
    finally:
        controller.stop()


@dataclass
class Request:
    """A request that a receiver got."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """An HTTP server on loopback. It answers with `answers` in their order, and then with 200."""

    url: str = ""
    requests: list[Request] = field(default_factory=list)
    answers: list[tuple[int, bytes, dict[str, str]]] = field(default_factory=list)


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Run an HTTP server."""
    box = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            box.requests.append(Request(self.path, headers, body))
            status, content, more = box.answers.pop(0) if box.answers else (200, b"ok", {})
            self.send_response(status)
            for name, value in {**more, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    box.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield box
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
