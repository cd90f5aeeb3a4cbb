"""Settings of the public pages for webmasters (docs/webmasters.md)."""

from typing import Final

from nodes.settings.declaration import Applies, Setting
from nodes.settings.kinds import Flag, Text, WholeNumber, Words

PAGES: Final = Setting(
    path="webmasters.pages",
    environment="CRAWLCTL_WEBMASTERS",
    kind=Flag(),
    default=False,
    meaning="Switch for the pages of webmasters, which need no login.",
    applies=Applies.IMMEDIATELY,
)
SHOWN: Final = Setting(
    path="webmasters.shown",
    environment="CRAWLCTL_WEBMASTERS_SHOWN",
    kind=Words(apart_by=" ", what="patterns of hosts, such as *.example.com", matches=r"[^\s/]{1,300}"),
    default=(),
    meaning=(
        "Hosts whose figures every visitor of the pages of webmasters may see. With `*`, visitors can find out which hosts are crawled. "
        "If empty, the figures of no host are shown."
    ),
)
OPERATOR: Final = Setting(
    path="webmasters.operator",
    environment="CRAWLCTL_OPERATOR",
    kind=Text(most=200),
    default="",
    meaning="Name of the organisation that crawls, as webmasters see it.",
    applies=Applies.IMMEDIATELY,
)
CONTACT: Final = Setting(
    path="webmasters.contact",
    environment="CRAWLCTL_CONTACT",
    kind=Text(most=200),
    default="",
    meaning="Mail address or telephone number for webmasters.",
    applies=Applies.IMMEDIATELY,
)
KEEP_LIMITS: Final = Setting(
    path="webmasters.keep_limits",
    environment="CRAWLCTL_KEEP_WEBMASTERS_LIMITS",
    kind=WholeNumber(least=1, most=3_650, unit="days"),
    default=365,
    meaning="Time after which a limit that a webmaster requested expires.",
    applies=Applies.IMMEDIATELY,
)
SETTINGS: Final = (PAGES, SHOWN, OPERATOR, CONTACT, KEEP_LIMITS)
