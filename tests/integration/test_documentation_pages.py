"""The web server shows the documentation, compiled or rendered from its sources."""

from html.parser import HTMLParser
from urllib.parse import urldefrag, urljoin

import pytest
from django.test import Client

from tests.support.api import client_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def client():
    """Return the client of a user without any role."""
    return client_of()


@pytest.fixture
def compiled(settings, tmp_path):
    settings.DOCUMENTATION_DIR = tmp_path / "docs"
    (tmp_path / "secret").write_text("of the machine")
    for name, text in {"docs/index.html": "<h1>Documentation</h1>", "_static/site.css": "main {}"}.items():
        path = settings.DOCUMENTATION_DIR / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return settings.DOCUMENTATION_DIR


def test_the_help_leads_to_its_first_page(compiled, client):
    answer = client.get("/manual/", follow=True)

    assert answer.redirect_chain == [("/manual/docs/index.html", 302)]
    assert answer.content == b"<h1>Documentation</h1>"
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "script-src 'self';" in answer.headers["Content-Security-Policy"]


def test_a_file_that_the_browser_has_is_not_sent_again(compiled, client):
    first = client.get("/manual/_static/site.css")
    again = client.get("/manual/_static/site.css", headers={"if-modified-since": first.headers["Last-Modified"]})

    assert first.headers["Content-Type"].startswith("text/css")
    assert again.status_code == 304


@pytest.mark.parametrize(
    "path", ["docs/absent.html", "docs/", "../secret", "%2e%2e/secret", "docs/../../secret", "docs/%00", "a" * 300]
)
def test_paths_outside_of_the_compiled_documentation_are_not_found(path, compiled, client):
    answer = client.get(f"/manual/{path}")

    assert answer.status_code == 404
    assert b"of the machine" not in answer.content


@pytest.fixture
def not_compiled(settings, tmp_path):
    settings.DOCUMENTATION_DIR = tmp_path / "absent"


def test_help_also_works_if_the_documentation_was_not_compiled(not_compiled, client):
    answer = client.get("/manual/", follow=True)

    assert answer.redirect_chain == [("/manual/docs/index.html", 302)]
    assert answer.status_code == 200
    assert "<h1" in answer.content.decode()
    assert "make docs" in answer.content.decode()


class Links(HTMLParser):
    """The addresses that a page links to or loads, and the anchors of the page."""

    def __init__(self, html):
        super().__init__()
        self.addresses, self.anchors = [], set()
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors.add(values.get("id"))
        self.addresses += [values[name] for name in ("href", "src") if values.get(name)]


def test_every_link_of_rendered_pages_leads_to_an_existing_page(not_compiled, client):
    waiting, read = ["/manual/docs/index.html"], {}
    while waiting:
        page = waiting.pop()
        answer = client.get(page)
        assert answer.status_code == 200, page
        is_page = answer.headers["Content-Type"].startswith("text/html")
        links = read[page] = Links(answer.content.decode() if is_page else "")
        found = {urljoin(page, urldefrag(address)[0]) for address in links.addresses}
        waiting += {address for address in found if address.startswith("/manual/d")} - {*read, *waiting}

    assert "/manual/docs/operating.html" in read
    for page, links in read.items():
        for address in links.addresses:
            target, anchor = urldefrag(urljoin(page, address))
            if anchor and target in read:
                assert anchor in read[target].anchors, f"{page}: {address}"


@pytest.mark.parametrize(
    "path", ["crawlctl/settings.py", "var/secret", "docs/../manage.py", "manage.html", "docs/%00.html"]
)
def test_no_file_outside_of_the_documentation_is_rendered(path, not_compiled, client):
    assert client.get(f"/manual/{path}").status_code == 404


def test_the_documentation_is_not_readable_without_a_login(compiled):
    answer = Client().get("/manual/docs/index.html")

    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/login/")
