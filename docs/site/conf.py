"""
The documentation as a static site, by Sphinx: `make docs` writes it to var/docs, where the web server serves it.

The sources are the Markdown files of the repository, so that their links work in both places.
A link to a missing page fails the build.
Pages load no files from other servers and have no inline scripts (`crawlctl.web.security`).
"""

# ruff: noqa: INP001 - read by Sphinx, by its path

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

_ROOT = Path(__file__).resolve().parents[2]

project = "crawlctl"
language = "en"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "UPGRADING.md",
    "SECURITY.md",
    "docs/**.md",
]
# NAVIGATION contains each page, and a test checks this. Diagrams are shown as code.
suppress_warnings = ["toc.not_included", "misc.highlighting_failure"]
# Links to headings, as they work where the repository is shown.
myst_heading_anchors = 4
myst_enable_extensions: list[str] = []
highlight_language = "none"

html_theme = "basic"
templates_path = ["templates"]
html_static_path = ["../../static/css", "static"]
html_title = "crawlctl"
html_copy_source = False
html_use_index = False
html_domain_indices = False
# A slash in a page's name stands for a folder. The result is the same on each machine and day.
html_last_updated_fmt = None

# Headings of the navigation, and the pages below each.
_DECISIONS = sorted(str(path.relative_to(_ROOT).with_suffix("")) for path in (_ROOT / "docs/decisions").glob("*.md"))
NAVIGATION = {
    "Start": ["docs/index", "README", "docs/glossary"],
    "Use": [
        "docs/operating",
        "docs/commands",
        "docs/settings",
        "docs/limits",
        "docs/schedules",
        "docs/failures",
        "docs/pages",
        "docs/languages",
        "docs/first-job",
        "docs/deploying",
        "docs/scaling",
        "docs/connectors",
        "docs/writing-a-connector",
        "docs/pipelines",
        "docs/api",
        "docs/removals",
        "docs/verification",
        "docs/tasks",
        "docs/extraction",
        "docs/archive",
        "docs/exports",
        "docs/definitions",
        "docs/bulk",
        "docs/explain",
        "docs/rehearsals",
        "docs/freshness",
        "docs/notifications",
        "docs/authorities",
        "docs/access",
        "docs/single-sign-on",
        "docs/traps",
        "docs/webmasters",
        "docs/evidence",
        "docs/upgrading",
        "docs/backups",
        "UPGRADING",
        "SECURITY",
    ],
    "Watch": ["docs/metrics", "docs/monitoring/README"],
    "Trust": ["docs/reliability", "docs/requirements", "docs/benchmarks"],
    "Distributed jobs": ["docs/distributed-jobs", "docs/coordination", "docs/strategies"],
    "Change": ["ARCHITECTURE", "docs/lifecycle", "CONTRIBUTING", "docs/writing", "CHANGELOG"],
    "Decisions": _DECISIONS,
}
html_context = {"navigation": NAVIGATION}


def setup(app: Sphinx) -> None:
    """Let the navigation call pages by their titles."""
    app.connect("html-page-context", _tell_titles)


def _tell_titles(app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    context["title_of"] = lambda page: app.env.titles[page].astext()
