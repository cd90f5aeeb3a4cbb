"""The compiled documentation, at the web server."""

import pytest
from django.test import Client

from tests.api import client_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def client():
    """Somebody who can log in, and may see nothing."""
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
def test_nothing_else_is_served(path, compiled, client):
    answer = client.get(f"/manual/{path}")

    assert answer.status_code == 404
    assert b"of the machine" not in answer.content


def test_where_it_was_not_compiled_the_page_says_how(settings, tmp_path, client):
    settings.DOCUMENTATION_DIR = tmp_path / "absent"

    answer = client.get("/manual/")

    assert answer.status_code == 404
    assert "make docs" in answer.content.decode()


def test_nobody_reads_it_without_a_login(compiled):
    answer = Client().get("/manual/docs/index.html")

    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/login/")
