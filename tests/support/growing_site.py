"""A web site on loopback whose pages a test adds and removes while it runs."""

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class GrowingSite:
    """
    A site whose start page links to all `pages`. A removed page answers 404. `requests` counts the answers by path.
    """

    def __init__(self, port, pages):
        self.start_url, self.pages, self.requests = f"http://127.0.0.1:{port}/", set(pages), {}

    @property
    def documents(self):
        return {self.start_url, *(self.start_url + page for page in self.pages)}

    def answer(self, path):
        self.requests[path] = self.requests.get(path, 0) + 1
        name = path.removeprefix("/")
        if not name:
            return 200, "".join(f'<a href="/{page}">{page}</a>' for page in sorted(self.pages))
        return (200, f"text of {name}") if name in self.pages else (404, "no such page")


@contextlib.contextmanager
def growing_site(*pages):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, text = self.server.site.answer(self.path)
            body = f"<html><body>{text}</body></html>".encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.site = GrowingSite(server.server_port, pages)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
