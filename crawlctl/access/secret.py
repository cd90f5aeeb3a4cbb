"""The default key for signing sessions and tokens: generated once, stored under `var/`."""

import contextlib
import os
import secrets
from pathlib import Path


def key_of_this_machine(var_dir: Path) -> str:
    """
    Return the key in `var_dir`, generated at first use and readable by its owner only.

    If `var_dir` cannot be written (a check in a read-only checkout), the key lives as long as the process. Such a
    process cannot write anything else there, so the operator notices.
    """
    path = var_dir / "secret-key"
    with contextlib.suppress(OSError):
        return path.read_text()
    key = secrets.token_urlsafe(50)
    with contextlib.suppress(OSError):
        var_dir.mkdir(parents=True, exist_ok=True)
        # The key is written to a temporary file and then linked. If two processes start at the same time, only the
        # first link succeeds, and both use that key.
        aside = path.with_name(f"secret-key.{os.getpid()}")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(key)
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(aside)
        aside.unlink()
        return path.read_text()
    return key
