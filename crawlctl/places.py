"""
The places of the program's own files, and of its data.

In a clone, templates, static files and catalogues are at the root, and `var/` has the data and the compiled
documentation. A wheel has all of them and the compiled documentation inside this package, and no `var/`.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from django.core.exceptions import ImproperlyConfigured

_PACKAGE: Final = Path(__file__).resolve().parent

# The directory of our packages: the clone, or the site-packages of an environment.
BASE: Final = _PACKAGE.parent
_IS_INSTALLED: Final = (_PACKAGE / "templates").is_dir()
_ROOT: Final = _PACKAGE if _IS_INSTALLED else BASE

TEMPLATES: Final = _ROOT / "templates"
STATIC: Final = _ROOT / "static"
CATALOGUES: Final = _ROOT / "locale"
DOCUMENTATION: Final = _PACKAGE / "manual" if _IS_INSTALLED else BASE / "var" / "docs"

# The program that runs our commands. `-P` keeps the modules of the current directory out of an installed program.
PROGRAM: Final = (sys.executable, *(("-P", "-m", "crawlctl") if _IS_INSTALLED else (str(BASE / "manage.py"),)))


def default_data_directory(environment: Mapping[str, str]) -> Path:
    """
    Return the directory of everything that crawlctl writes on this machine: `var/` of a clone, or `crawlctl/` among the
    user's data (XDG).

    Raises:
        ImproperlyConfigured: an installed program has no home directory. The message names the setting.
    """
    if not _IS_INSTALLED:
        return BASE / "var"
    given = Path(environment.get("XDG_DATA_HOME", ""))
    if given.is_absolute():
        return given / "crawlctl"
    try:
        return Path.home() / ".local" / "share" / "crawlctl"
    except RuntimeError:
        raise ImproperlyConfigured(
            "This user has no home directory. Set CRAWLCTL_VAR to a directory that crawlctl may write to."
        ) from None
