"""The documentation that `make docs` compiles, as pages of the web server: whoever can log in may read it."""

import datetime as dt
import mimetypes
from pathlib import Path
from typing import Final

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import last_modified, require_safe

_FIRST: Final = "docs/index.html"


def _find(path: str) -> Path | None:
    """The file of this path, if it is one of the documentation's."""
    directory: Path = settings.DOCUMENTATION_DIR.resolve()
    try:
        found = (directory / path).resolve()
        return found if found.is_relative_to(directory) and found.is_file() else None
    except (OSError, ValueError):
        # A name that is too long for a file, or cannot be one.
        return None


def _compiled_at(_request: HttpRequest, path: str = "") -> dt.datetime | None:
    found = _find(path)
    return dt.datetime.fromtimestamp(found.stat().st_mtime, tz=dt.UTC) if found else None


@require_safe
@login_required
@last_modified(_compiled_at)
def documentation(_request: HttpRequest, path: str = "") -> HttpResponseBase:
    """A file of the compiled documentation, or what to do to have it."""
    if _find(_FIRST) is None:
        sentence = "The documentation has not been compiled on this machine: run `make docs`, or read docs/index.md."
        return HttpResponse(sentence, status=404, content_type="text/plain; charset=utf-8")
    if not path:
        return redirect("documentation", path=_FIRST)
    found = _find(path)
    if found is None:
        raise Http404
    return HttpResponse(found.read_bytes(), content_type=mimetypes.guess_type(found.name)[0] or "text/plain")
