"""The Markdown sources of the documentation as HTML, for a machine on which `make docs` was not run."""

import functools
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from mdit_py_plugins.anchors import anchors_plugin

# The only files of the repository, apart from those below docs/, that the documentation contains or links to.
_AT_THE_ROOT: Final = frozenset(
    {
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "UPGRADING.md",
        "SECURITY.md",
        ".env.example",
    }
)
_PAGE, _SOURCE = ".html", ".md"


def find_file(path: str) -> Path | None:
    """Return the file of the repository that the documentation has at this path; None if there is none."""
    root: Path = settings.BASE_DIR.resolve()
    try:
        found = (root / path).resolve()
        is_ours = found.is_relative_to(root / "docs") or (found.parent == root and found.name in _AT_THE_ROOT)
        return found if is_ours and found.is_file() else None
    except (OSError, ValueError):
        # The path is too long for a file, or has a character that no file name may have.
        return None


def find_source(path: str) -> Path | None:
    """
    Return the Markdown file that becomes the page at this path, or None. Pages keep the addresses of the compiled ones.
    """
    return find_file(path.removesuffix(_PAGE) + _SOURCE) if path.endswith(_PAGE) else None


def render(text: str) -> str:
    """Return the HTML of this Markdown text. Links to other Markdown files lead to their pages."""
    return str(_parser().render(text))


def title_of(text: str) -> str:
    """Return the first heading of a text."""
    return next((line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")), "Documentation")


@functools.cache
def _parser() -> MarkdownIt:
    # HTML in a source is shown as text: our pages run and load only our own files.
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").use(anchors_plugin, max_level=4)
    parser.add_render_rule("link_open", _open_link)
    return parser


def _open_link(
    renderer: RendererHTML,
    tokens: list[Token],
    place: int,
    options: OptionsDict,
    _environment: MutableMapping[str, Any],
) -> str:
    link = tokens[place]
    parts = urlsplit(str(link.attrs["href"]))
    if not parts.scheme and not parts.netloc and parts.path.endswith(_SOURCE):
        link.attrs["href"] = parts._replace(path=parts.path.removesuffix(_SOURCE) + _PAGE).geturl()
    return renderer.renderToken(tokens, place, options, {})
