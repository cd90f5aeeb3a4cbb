"""The settings of the child processes that extract texts from files such as PDF."""

from typing import Final

from nodes.settings.declaration import Applies, Setting
from nodes.settings.kinds import WholeNumber

EXTRACTION_PROCESSES: Final = Setting(
    path="extraction.processes",
    environment="CRAWLCTL_EXTRACTION_PROCESSES",
    kind=WholeNumber(least=1, most=64, unit="processes"),
    default=2,
    meaning="Child processes of a worker that read files for stages of pipelines. They start with the first file.",
    applies=Applies.AT_NEXT_START,
)
EXTRACTION_SECONDS: Final = Setting(
    path="extraction.seconds",
    environment="CRAWLCTL_EXTRACTION_SECONDS",
    kind=WholeNumber(least=1, most=3600, unit="seconds"),
    default=30,
    meaning="Computing time of a child process for one file. After four times this time, computing or not, the child is killed.",
    applies=Applies.AT_NEXT_START,
)
EXTRACTION_MEMORY: Final = Setting(
    path="extraction.memory",
    environment="CRAWLCTL_EXTRACTION_MEMORY",
    kind=WholeNumber(least=256, most=65_536, unit="MiB"),
    default=512,
    meaning="Address space of a child process. A file that needs more has no text.",
    applies=Applies.AT_NEXT_START,
)

SETTINGS: Final = (EXTRACTION_PROCESSES, EXTRACTION_SECONDS, EXTRACTION_MEMORY)
