"""Proves that the wheel, installed outside of the clone, gives a complete `crawlctl` command."""

import http.server
import json
import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.support.processes import ENDS_WITH_PYTEST, wait_for

ROOT = Path(__file__).resolve().parents[2]
# Longer time limit than usual: packages are fetched and unpacked, which a busy machine delays.
pytestmark = [pytest.mark.debian("chromium-headless-shell"), pytest.mark.timeout(900)]

PASSWORD = "a long phrase of the administrator"


def steps_of_the_image():
    """Return the commands by which `deploy/Containerfile` installs crawlctl into $ENVIRONMENT."""
    lines = (ROOT / "deploy" / "Containerfile").read_text().replace("\\\n", " ").splitlines()
    (steps,) = (line.removeprefix("RUN ") for line in lines if line.startswith("RUN ") and "$ENVIRONMENT" in line)
    return steps


@pytest.fixture
def installed(tmp_path):
    """Install the clone into an empty environment, as the image does, and return the command."""
    environment = tmp_path / "installed"
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(Path(sys.base_prefix) / "bin" / "python3")
    given = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}", "ENVIRONMENT": str(environment)}
    # Only the modules that we use are compiled, when they are imported.
    given["PIP_NO_COMPILE"] = "1"
    done = subprocess.run(
        ["sh", "-c", steps_of_the_image()],
        cwd=ROOT,
        env=given,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return environment / "bin" / "crawlctl"


@pytest.fixture
def user(installed, tmp_path):
    """Return a user of the command, with a home and a project directory that has modules with our names."""
    project = tmp_path / "project"
    for name in ("crawlctl", "jobs", "nodes"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text("raise RuntimeError('this is not a module of crawlctl')")
    return User(installed, home=tmp_path / "home", project=project)


class User:
    def __init__(self, command, *, home, project):
        self.command, self.home, self.project = command, home, project
        home.mkdir()

    @property
    def environment(self):
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LANG") if name in os.environ}
        return {**kept, "HOME": str(self.home), "CRAWLCTL_ADMIN_PASSWORD": PASSWORD}

    def run(self, *arguments):
        return subprocess.run(
            [self.command, *arguments],
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    @contextmanager
    def running(self, *arguments):
        """Run a command until the block ends. Yield the file of its output."""
        log = self.project / "output.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [*ENDS_WITH_PYTEST, self.command, *arguments],
                cwd=self.project,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield log
        finally:
            process.terminate()
            process.wait(60)
        assert process.returncode == 0, log.read_text()


@pytest.fixture
def page(tmp_path):
    """Serve one page on loopback, and return its address."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text("<title>Hello</title><p>One page.")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def crawl_it(user, page):
    crawl = user.run("crawl", page, "--allow-private-networks", "--output", "jsonl:pages.jsonl", "--json")

    assert crawl.returncode == 0, crawl.stderr
    assert json.loads(crawl.stdout)["counts"]["indexed"] == 1
    (line,) = map(json.loads, (user.project / "pages.jsonl").read_text().splitlines())
    assert (line["url"], line["title"]) == (page, "Hello")
    assert (user.home / ".local" / "share" / "crawlctl" / "secret-key").exists()
    assert not (user.project / "var").exists()


def choose_a_language_and_open_the_help(address, chromium):
    """Choose a language, log in, and open a page of the help. Return the addresses that were answered with an error."""
    missing = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        visit = browser.new_page(base_url=address)
        visit.on("response", lambda answer: missing.append(answer.url) if answer.status >= 400 else None)
        visit.goto("/")
        # Only an installation with compiled catalogues has other languages.
        visit.get_by_role("button", name="Deutsch").click()
        expect(visit.get_by_role("heading", level=1)).to_have_text("Anmelden")
        visit.get_by_role("button", name="English").click()
        visit.get_by_label("Username").fill("admin")
        visit.get_by_label("Password").fill(PASSWORD)
        visit.get_by_role("button", name="Log in").click()
        expect(visit.get_by_role("heading", level=1)).to_be_visible()
        visit.get_by_role("link", name="Help").click()
        visit.get_by_role("link", name="Operating", exact=True).first.click()
        expect(visit.get_by_role("heading", level=1)).to_contain_text("Operating")
        # Only the compiled documentation has a search.
        expect(visit.get_by_role("search")).to_be_visible()
        browser.close()
    return missing


# One test, because the installation takes most of its time.
def test_an_installed_crawlctl_crawls_and_shows_its_help(user, page, chromium):
    crawl_it(user, page)
    with user.running("run", "--workers", "1") as log:
        address = wait_for(
            lambda: re.search(r"http://127\.0\.0\.1:\d+", log.read_text()),
            saying="the command prints the address of its pages",
        )[0]
        missing = choose_a_language_and_open_the_help(address, chromium)

    assert missing == []
    assert "Traceback" not in log.read_text()
