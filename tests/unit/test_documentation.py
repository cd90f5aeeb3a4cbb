"""Proves that the documentation compiles, is complete, and needs no other server."""

import re
import runpy
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

ROOT = Path(__file__).resolve().parents[2]
AT_THE_ROOT = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "UPGRADING.md", "SECURITY.md")


def compile_site(source, directory):
    """Compile these sources to a directory, as `make docs` does."""
    return subprocess.run(
        [
            *(sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"),
            *("-c", source / "docs" / "site", "-d", directory / "doctrees", source, directory / "html"),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    directory = tmp_path_factory.mktemp("site")
    compiled = compile_site(ROOT, directory)
    assert compiled.returncode == 0, compiled.stderr
    return directory / "html"


def sources():
    """Return the paths of all documentation pages without their suffix."""
    below_docs = [path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")]
    return {str(path.with_suffix("")) for path in (*below_docs, *map(Path, AT_THE_ROOT))}


class Page(HTMLParser):
    """A page's references, its anchors, and its active content."""

    def __init__(self, path):
        super().__init__()
        self.loads, self.links, self.anchors, self.own_code = [], [], set(), []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors.add(values.get("id"))
        if tag in {"script", "img", "iframe"}:
            self.loads.append(values.get("src"))
        elif tag == "link":
            self.loads.append(values["href"])
        elif tag == "a" and "href" in values:
            self.links.append(values["href"])
        self.own_code += [name for name in values if name == "style" or name.startswith("on")]
        self.own_code += ["style"] * (tag == "style")


def pages_of(site):
    return {path: Page(path) for path in site.rglob("*.html")}


def test_each_decision_record_has_a_unique_number():
    records = sorted((ROOT / "docs/decisions").glob("*.md"))
    numbers = [record.name[:4] for record in records]
    titles = [record.read_text(encoding="utf-8").partition(":")[0] for record in records]

    assert numbers == sorted(set(numbers))
    assert titles == [f"# {number}" for number in numbers]


def test_every_page_of_the_documentation_is_in_the_site(site):
    compiled = {str(path.relative_to(site).with_suffix("")) for path in site.rglob("*.html")}

    assert compiled == sources() | {"search"}


def test_every_page_is_in_the_navigation_once():
    navigation = runpy.run_path(str(ROOT / "docs" / "site" / "conf.py"))["NAVIGATION"]

    named = [page for pages in navigation.values() for page in pages]
    assert sorted(named) == sorted(sources())


def test_pages_load_nothing_from_other_servers_and_have_no_scripts(site):
    for path, page in pages_of(site).items():
        assert None not in page.loads, path
        assert not [address for address in page.loads if re.match(r"[a-z]+:|//", address)], path
        assert page.own_code == [], path


def test_every_link_leads_to_an_existing_page_and_heading(site):
    pages = pages_of(site)
    for path, page in pages.items():
        for address in (*page.links, *page.loads):
            target, anchor = urldefrag(unquote(address))
            if re.match(r"[a-z]+:", target) or target == "/":
                continue
            found = (path.parent / target).resolve() if target else path
            assert found.is_file(), f"{path.name}: {address}"
            if anchor and found in pages:
                assert anchor in pages[found].anchors, f"{path.name}: {address}"


def test_a_link_to_a_missing_page_fails_and_is_named(tmp_path):
    source = tmp_path / "source"
    (source / "docs").mkdir(parents=True)
    shutil.copytree(ROOT / "docs" / "site", source / "docs" / "site")
    shutil.copytree(ROOT / "static" / "css", source / "static" / "css")
    # Compile two pages with our configuration. The test above proves that the configuration causes no other warning.
    (source / "docs" / "operating.md").write_text("# Operating\n")
    (source / "docs" / "index.md").write_text(
        "# Start\n\nSee [nothing](nowhere.md), [no heading](operating.md#of-nothing) and [a heading](operating.md#operating).\n"
    )

    compiled = compile_site(source, tmp_path)

    assert compiled.returncode != 0
    assert "nowhere.md" in compiled.stderr
    assert "of-nothing" in compiled.stderr
    assert compiled.stderr.count("WARNING") == 2
