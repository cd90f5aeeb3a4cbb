"""
The settings of archives: their directory and their stores, the size of files, and the time for which local copies are
kept.
"""

import datetime as dt
from typing import Final

from nodes.settings.declaration import Applies, Setting
from nodes.settings.kinds import Seconds, Text, WholeNumber, Words
from nodes.stores.opening import ADDRESS

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
    applies=Applies.IMMEDIATELY,
)
ARCHIVE_FILE_AGE: Final = Setting(
    path="archive.file_age",
    environment="CRAWLCTL_ARCHIVE_FILE_AGE",
    kind=Seconds(least=1, most=_A_WEEK),
    default=dt.timedelta(hours=1),
    meaning="Age at which an archive file ends.",
    applies=Applies.IMMEDIATELY,
)

ARCHIVE_STORES: Final = Setting(
    path="archive.stores",
    environment="CRAWLCTL_ARCHIVE_STORES",
    # The addresses of stores, as `nodes.stores.opening` reads them.
    kind=Words(apart_by=" ", what="dir:/path or s3://bucket/prefix", matches=ADDRESS),
    default=(),
    meaning="Stores of complete archive files. A file is stored once all of them have confirmed it. "
    "Name two that do not fail together.",
)
ARCHIVE_MOST_LOCAL: Final = Setting(
    path="archive.most_local",
    environment="CRAWLCTL_ARCHIVE_MOST_LOCAL",
    kind=WholeNumber(least=1, most=2**50, unit="bytes"),
    default=20 * 2**30,
    meaning="Most bytes of complete archive files on one machine that the stores have not confirmed. "
    "Above this limit, jobs with an archive wait until the stores confirm files again.",
    applies=Applies.IMMEDIATELY,
)
ARCHIVE_KEEP_LOCAL: Final = Setting(
    path="archive.keep_local",
    environment="CRAWLCTL_ARCHIVE_KEEP_LOCAL",
    kind=Text(what="a number of days, or nothing", matches="[0-9]{0,5}"),
    default="",
    meaning="Days for which a machine keeps its copy of an archive file after two stores have confirmed it. "
    "With 0, the copy is removed immediately. If empty, the copy is kept forever.",
    applies=Applies.IMMEDIATELY,
)

SETTINGS: Final = (
    ARCHIVE_ROOT,
    ARCHIVE_FILE_BYTES,
    ARCHIVE_FILE_AGE,
    ARCHIVE_STORES,
    ARCHIVE_MOST_LOCAL,
    ARCHIVE_KEEP_LOCAL,
)
