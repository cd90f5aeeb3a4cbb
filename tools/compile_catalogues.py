"""
Compile each `django.po` that is newer than its `django.mo`, the file that the program reads.

    .venv/bin/python tools/compile_catalogues.py

Make runs this script before it starts crawlctl, and so does the build of a wheel. The script needs Babel only.
"""

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
CATALOGUES: Final = sorted((ROOT / "locale").glob("*/LC_MESSAGES/django.po"))


def compile_catalogues() -> None:
    for source in CATALOGUES:
        compiled = source.with_suffix(".mo")
        if not compiled.exists() or compiled.stat().st_mtime <= source.stat().st_mtime:
            _compile(source, compiled)


def _compile(source: Path, compiled: Path) -> None:
    # Imported only now: each make and each test run calls this script, mostly with nothing to do.
    from babel.messages.mofile import write_mo  # noqa: PLC0415
    from babel.messages.pofile import read_po  # noqa: PLC0415

    with source.open("rb") as file:
        catalog = read_po(file, locale=source.parents[1].name)
    # Write another file and rename it: a process may read `django.mo` at this moment.
    new = compiled.with_name(f"{compiled.name}.{os.getpid()}")
    with new.open("wb") as file:
        write_mo(file, catalog)
    new.replace(compiled)


if __name__ == "__main__":
    compile_catalogues()
