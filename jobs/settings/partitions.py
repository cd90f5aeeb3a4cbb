"""The settings that name the partitions of a crawl, their databases, and the partition of this process."""

from typing import Final

from nodes.settings.declaration import Setting
from nodes.settings.kinds import Text, Words

NAME: Final = "[a-z][a-z0-9_]{0,30}"

PARTITION: Final = Setting(
    path="partitions.here",
    environment="CRAWLCTL_PARTITION",
    kind=Text(what="the name of a partition, or nothing", matches=f"({NAME})?"),
    default="",
    meaning="Name of this database among the partitions of CRAWLCTL_PARTITIONS. Empty: the database is the only one.",
)
PARTITIONS: Final = Setting(
    path="partitions.all",
    environment="CRAWLCTL_PARTITIONS",
    kind=Words(apart_by=" ", what="NAME=postgresql://HOST/DATABASE", matches=rf"{NAME}=postgres(ql)?://\S+"),
    default=(),
    meaning="All partitions with the addresses under which their databases reach each other, equal in all partitions. "
    "The first one is the control partition, where jobs are configured and started.",
)

SETTINGS: Final = (PARTITION, PARTITIONS)
