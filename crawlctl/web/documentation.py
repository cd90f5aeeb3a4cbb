"""
The documentation as pages of the web server, for every logged-in user.

The server sends the pages that `make docs` compiled. Without them it renders the sources at the same addresses.
"""

import datetime as dt
import mimetypes
from pathlib import Path
from typing import Final

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import last_modified, require_safe

from crawlctl.web import markdown

_FIRST: Final = "docs/index.html"


def _find_compiled(path: str) -> Path | None:
    """Return the file at this path of the compiled documentation; None if there is none."""
    directory: Path = settings.DOCUMENTATION_DIR.resolve()
    try:
        found = (directory / path).resolve()
        return found if found.is_relative_to(directory) and found.is_file() else None
    except (OSError, ValueError):
        # The path is too long for a file, or has a character that no file name may have.
        return None


def _is_compiled() -> bool:
    return _find_compiled(_FIRST) is not None


def _find(path: str) -> Path | None:
    return _find_compiled(path) if _is_compiled() else markdown.find_file(path)


def _changed_at(_request: HttpRequest, path: str = "") -> dt.datetime | None:
    found = _find(path)
    return dt.datetime.fromtimestamp(found.stat().st_mtime, tz=dt.UTC) if found else None


@require_safe
@login_required
@last_modified(_changed_at)
def documentation(request: HttpRequest, path: str = "") -> HttpResponseBase:
    """Answer with a file of the documentation, or with a page rendered from its Markdown source."""
    if not path:
        return redirect("documentation", path=_FIRST)
    if not _is_compiled() and (source := markdown.find_source(path)):
        text = source.read_text(encoding="utf-8")
        context = {"heading": markdown.title_of(text), "body": markdown.render(text)}
        return render(request, "documentation.html", context)
    found = _find(path)
    if found is None:
        raise Http404
    answer = HttpResponse(found.read_bytes(), content_type=mimetypes.guess_type(found.name)[0] or "text/plain")
    if found.suffix != ".html":
        # Styles and pictures are the same for every reader: a browser may store them and check whether they changed.
        answer.headers["Cache-Control"] = "private, no-cache"
    return answer
