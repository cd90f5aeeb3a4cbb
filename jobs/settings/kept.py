"""Settings of exports, and of the retention of journals, versions, nodes and failures."""

from typing import Final

from nodes.settings.declaration import Applies, Setting
from nodes.settings.kinds import Text, WholeNumber

KEEP_JOURNALS: Final = Setting(
    path="crawl.keep_journals",
    environment="CRAWLCTL_KEEP_JOURNALS",
    kind=WholeNumber(most=36_500, unit="days"),
    default=0,
    meaning="Retention of the journals of jobs. With 0, they are never deleted.",
    applies=Applies.IMMEDIATELY,
)
KEEP_VERSIONS: Final = Setting(
    path="crawl.keep_versions",
    environment="CRAWLCTL_KEEP_VERSIONS",
    kind=WholeNumber(least=1, most=36_500, unit="days"),
    default=365,
    meaning="Retention of versions of jobs, policies and connections. The newest version of each object stays.",
    applies=Applies.IMMEDIATELY,
)
KEEP_NODES: Final = Setting(
    path="cluster.keep_nodes",
    environment="CRAWLCTL_KEEP_NODES",
    kind=WholeNumber(least=1, most=3_650, unit="days"),
    default=14,
    meaning="Retention of ended nodes, with their events, requests and terms.",
    applies=Applies.IMMEDIATELY,
)
KEEP_FAILURES: Final = Setting(
    path="crawl.keep_failures",
    environment="CRAWLCTL_KEEP_FAILURES",
    kind=WholeNumber(least=1, most=3_650, unit="days"),
    default=30,
    meaning="Retention of failures on the page of failures, from the last time that they occurred.",
    applies=Applies.IMMEDIATELY,
)
KEEP_EVIDENCE: Final = Setting(
    path="crawl.keep_evidence",
    environment="CRAWLCTL_KEEP_EVIDENCE",
    kind=WholeNumber(most=3_650, unit="days"),
    default=0,
    meaning="Retention of the evidence of politeness: requests and limits of each host. With 0, none is recorded, and older evidence stays.",
    applies=Applies.IMMEDIATELY,
)
EXPORTS: Final = Setting(
    path="exports.directory",
    environment="CRAWLCTL_EXPORTS",
    kind=Text(),
    default="",
    meaning="Directory of the files of exports, which all machines with task workers or a web server share. If empty, it is `exports` below `CRAWLCTL_VAR`.",
)
KEEP_EXPORTS: Final = Setting(
    path="exports.keep",
    environment="CRAWLCTL_KEEP_EXPORTS",
    kind=WholeNumber(least=1, most=3_650, unit="days"),
    default=7,
    meaning="Retention of exports and their files, from the end of the export.",
    applies=Applies.AT_NEXT_START,
)

SETTINGS: Final = (KEEP_JOURNALS, KEEP_VERSIONS, KEEP_NODES, KEEP_FAILURES, KEEP_EVIDENCE, EXPORTS, KEEP_EXPORTS)
