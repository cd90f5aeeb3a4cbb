"""Settings of archives."""

import datetime as dt
from typing import Final

from nodes.settings.declaration import Applies, Setting
from nodes.settings.kinds import Seconds, Text, WholeNumber

_A_WEEK: Final = 7 * 24 * 3600

ARCHIVE_ROOT: Final = Setting(
    path="archive.root",
    environment="CRAWLCTL_ARCHIVE_ROOT",
    kind=Text(),
    default="",
    meaning="Directory of the archive files of this machine's workers. If empty, it is `archive` below `CRAWLCTL_VAR`.",
    applies=Applies.AT_NEXT_START,
)
ARCHIVE_FILE_BYTES: Final = Setting(
    path="archive.file_bytes",
    environment="CRAWLCTL_ARCHIVE_FILE_BYTES",
    kind=WholeNumber(least=1, most=2**40, unit="bytes"),
    default=2**30,
    meaning="Size at which an archive file ends.",
    applies=Applies.AT_ONCE,
)
ARCHIVE_FILE_AGE: Final = Setting(
    path="archive.file_age",
    environment="CRAWLCTL_ARCHIVE_FILE_AGE",
    kind=Seconds(least=1, most=_A_WEEK),
    default=dt.timedelta(hours=1),
    meaning="Age at which an archive file ends.",
    applies=Applies.AT_ONCE,
)

SETTINGS: Final = (ARCHIVE_ROOT, ARCHIVE_FILE_BYTES, ARCHIVE_FILE_AGE)
