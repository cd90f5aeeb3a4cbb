"""
The process that copies the write-ahead log of the running embedded server: `python -m crawlctl.backups.log_copier ADDRESS`.

The guardian starts this process, and closes its input before stopping the server. The process never connects through
Django, because it would then count as a user of the server and keep it running.
"""

import os
import signal
import sys

from django.conf import settings

from crawlctl.backups.places import log_folder, open_place
from crawlctl.backups.shipping import Shipper, run_until
from crawlctl.postgres.binaries import find_binaries
from jobs.queries.backups import file_of_log_state
from jobs.settings.backups import BACKUP_PASSPHRASE


def main(address: str) -> None:
    # Unblock the signals: the guardian blocks them, and its children inherit that.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    # The process gets its own session, as the guardian does: a Ctrl-C in the terminal must only end the users of the
    # server.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    shipper = Shipper(
        dsn=address,
        folder=log_folder(),
        state_file=file_of_log_state(),
        store=open_place(settings.CRAWLCTL_BACKUP_STORE, creates=True),
        passphrase=str(settings.CRAWLCTL_ENVIRONMENT.get(BACKUP_PASSPHRASE.path) or ""),
        every=settings.CRAWLCTL_BACKUP_SHIP_EVERY,
        binaries=find_binaries(),
    )
    run_until(_wait_for_end_of_input, shipper)


def _wait_for_end_of_input() -> None:
    while os.read(0, 1024):
        pass


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
    main(sys.argv[1])
