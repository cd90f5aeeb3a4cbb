"""The secret key and the settings in a backup: a restore writes them to files."""

import os
from collections.abc import Callable
from pathlib import Path

from django.conf import settings

from crawlctl.backups.sealing import Secrets
from jobs.settings.table import SECRET_KEY


def restore_key_files(secrets: Secrets | None, *, write_line: Callable[[str], object]) -> None:
    """Write the secret key and the settings of a backup to files of this machine, and report it."""
    if secrets is None:
        write_line(
            "The secret key was not restored. Put the old one into var/secret-key or CRAWLCTL_SECRET_KEY; "
            "without it, passwords of connections must be entered again."
        )
        return
    path: Path = settings.VAR_DIR / "secret-key"
    if settings.CRAWLCTL_ENVIRONMENT.get(SECRET_KEY.path):
        is_same = secrets.secret_key == settings.SECRET_KEY
        write_line(
            "CRAWLCTL_SECRET_KEY is the key of the backup."
            if is_same
            else "CRAWLCTL_SECRET_KEY is another key than that of the backup. Unset it: the key of the backup is in var/secret-key."
        )
    if not path.exists() or path.read_text() != secrets.secret_key:
        if path.exists():
            path.replace(path.with_name("secret-key.before-restore"))
        path.touch(mode=0o600)
        path.write_text(secrets.secret_key)
    write_line("The secret key is restored.")
    missing = sorted(name for name in secrets.environment if not os.environ.get(name))
    if missing:
        # The values may be secrets, so they are in a file that only its owner can read.
        kept = settings.VAR_DIR / "settings-of-the-backup.env"
        kept.touch(mode=0o600)
        kept.write_text("".join(f"{name}={secrets.environment[name]}\n" for name in sorted(secrets.environment)))
        write_line(f"Settings of the backup that are not set now: {', '.join(missing)}. Their values are in {kept}.")
