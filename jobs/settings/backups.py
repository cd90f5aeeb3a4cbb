"""Settings of backups."""

import datetime as dt
from typing import Final

from nodes.settings.declaration import Setting
from nodes.settings.kinds import Seconds, Text

BACKUP_FILE: Final = Setting(
    path="web.backup_file",
    environment="CRAWLCTL_BACKUP_FILE",
    kind=Text(),
    default="",
    meaning=(
        "File whose modification time is that of the last good backup. Let the backup script touch it at its end. `/metrics` of the web "
        "server shows its age. If empty, it is `last-backup` in the folder of `CRAWLCTL_VAR`, which `crawlctl backup` touches."
    ),
)
BACKUP_MAX_AGE: Final = Setting(
    path="web.backup_max_age",
    environment="CRAWLCTL_BACKUP_MAX_AGE",
    kind=Seconds(),
    default=dt.timedelta(hours=36),
    meaning="Age of the last backup above which the attention list has a line. With 0, the age is not checked.",
)
BACKUP_PASSPHRASE: Final = Setting(
    path="process.backup_passphrase",
    environment="CRAWLCTL_BACKUP_PASSPHRASE",
    kind=Text(),
    default="",
    meaning=(
        "Passphrase that seals backups and opens them in restores. Sealed backups include the secret key. If "
        "empty, `crawlctl backup` asks at a terminal."
    ),
)
BACKUP_STORE: Final = Setting(
    path="process.backup_store",
    environment="CRAWLCTL_BACKUP_STORE",
    kind=Text(),
    default="",
    meaning=(
        "Place of backups: a directory, dir:/path or s3://bucket/prefix. If set, the write-ahead log of the embedded server is stored there "
        "continuously, and it is the default place of `crawlctl backup`."
    ),
)
BACKUP_SHIP_EVERY: Final = Setting(
    path="process.backup_ship_every",
    environment="CRAWLCTL_BACKUP_SHIP_EVERY",
    kind=Seconds(least=1, most=24 * 3600),
    default=dt.timedelta(minutes=1),
    meaning="Longest time until a change of the database is in the write-ahead log of the store.",
)
BACKUP_LOG_MAX_AGE: Final = Setting(
    path="web.backup_log_max_age",
    environment="CRAWLCTL_BACKUP_LOG_MAX_AGE",
    kind=Seconds(),
    default=dt.timedelta(minutes=15),
    meaning="Age of the stored write-ahead log above which the attention list has a line. With 0, the age is "
    "not checked.",
)
DRILL_MAX_AGE: Final = Setting(
    path="web.drill_max_age",
    environment="CRAWLCTL_DRILL_MAX_AGE",
    kind=Seconds(),
    default=dt.timedelta(days=35),
    meaning="Age of the last drill of a restore above which the attention list has a line, if "
    "`CRAWLCTL_BACKUP_STORE` is set. With 0, the age is not checked.",
)

SETTINGS: Final = (
    BACKUP_FILE,
    BACKUP_MAX_AGE,
    BACKUP_PASSPHRASE,
    BACKUP_LOG_MAX_AGE,
    BACKUP_STORE,
    BACKUP_SHIP_EVERY,
    DRILL_MAX_AGE,
)
