"""
A site behind a login form: /index links to /page/0 to /page/99, which require a session.

A visitor without a session is redirected to /login, whose form has a hidden token that belongs to a cookie of the form
page. The form with the right password gives a session. The site notes every request.
"""

import threading
import time
import uuid
from contextlib import contextmanager
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

PAGES = 100
PASSWORD = "open, sesame & more"


class GuardedSite:
    """
    The state and the notes of the site.

    `logins` are the posted forms, `pages` the shown pages, and `told` the Cookie headers of all requests. `agents` are
    their User-Agents, each with its moment.

    After `ends_after` pages it forgets its sessions. `forbidden` pages redirect to the form even with a session. While
    it is `is_closed`, the form is answered with 503. It answers a form only while `answers` is set, as at the start.
    """

    def __init__(self):
        self.lock = threading.Lock()
        self.sessions, self.tokens = set(), {}
        self.logins, self.pages, self.told, self.agents = [], [], [], []
        self.ends_after = None
        self.forbidden, self.is_closed = frozenset(), False
        self.answers = threading.Event()
        self.answers.set()

    @property
    def login(self):
        """Return the login as a connection configures it."""
        return {
            "name": "the door",
            "pages": "/page/",
            "page": "/login$",
            "hosts": ["127.0.0.1"],
            "fields": [{"name": "user", "value": "ali"}, {"name": "password", "secret": PASSWORD}],
        }

    def url(self, path):
        return f"{self.origin}{path}"


@contextmanager
def serve_guarded():
    site = GuardedSite()

    class Handler(_Handler):
        guarded = site

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        site.origin = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield site
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        site = self.guarded
        site.told.append((self.path, self.headers.get("Cookie")))
        site.agents.append((time.monotonic(), self.headers["User-Agent"]))
        if self.path == "/index":
            self.reply("".join(f"<a href=/page/{n}>{n}</a>" for n in range(PAGES)))
        elif self.path.startswith("/page/"):
            with site.lock:
                is_in = self.cookie("session") in site.sessions and self.path not in site.forbidden
                if is_in:
                    site.pages.append(self.path)
                    if site.ends_after is not None and len(site.pages) >= site.ends_after:
                        site.sessions.clear()
                        site.ends_after = None
            if is_in:
                self.reply(f"<p>Treasure {self.path}")
            else:
                self.redirect("/login")
        elif self.path == "/login":
            self.form()
        elif self.path == "/welcome":
            self.reply("<p>Welcome")
        else:
            self.reply("", status=404)

    def do_POST(self):
        site = self.guarded
        sent = {
            name: values[0]
            for name, values in parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()).items()
        }
        with site.lock:
            site.logins.append(sent)
            is_right = (
                self.path == "/login"
                and (sent.get("user"), sent.get("password")) == ("ali", PASSWORD)
                and sent.get("token") == site.tokens.get(self.cookie("visit"))
            )
            session = uuid.uuid4().hex
            if is_right:
                site.sessions.add(session)
        site.answers.wait(60)
        if site.is_closed:
            self.reply("", status=503)
        elif is_right:
            self.redirect("/welcome", f"session={session}; Path=/; HttpOnly")
        else:
            self.form()

    def form(self):
        visit, token = uuid.uuid4().hex, uuid.uuid4().hex
        with self.guarded.lock:
            self.guarded.tokens[visit] = token
        self.reply(
            f"<form method=post action=/login><input type=hidden name=token value={token}>"
            "<input name=user><input type=password name=password><button name=go value=1>Enter</button></form>",
            cookie=f"visit={visit}; Path=/",
        )

    def cookie(self, name):
        found = SimpleCookie(self.headers.get("Cookie", "")).get(name)
        return found.value if found else None

    def redirect(self, path, cookie=None):
        self.reply("", status=302, location=path, cookie=cookie)

    def reply(self, body, *, status=200, location=None, cookie=None):
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        if location:
            self.send_header("Location", location)
        if cookie:
            self.send_header("Set-Cookie", cookie)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_arguments):
        pass
