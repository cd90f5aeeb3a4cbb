"""The settings of the authority service, which answers which access tokens a user has."""

import datetime as dt
from typing import Final

from nodes.settings.declaration import Applies, Setting
from nodes.settings.kinds import Seconds, Text, WholeNumber, Words

CHECKS: Final = Setting(
    path="authority.checks",
    environment="CRAWLCTL_AUTHORITY_CHECKS",
    kind=WholeNumber(least=1, most=1_000, unit="questions"),
    default=10,
    meaning="Questions that a process asks all authorities and mappers at the same time. Each connection has a lower limit.",
    applies=Applies.AT_NEXT_START,
)
CACHE_LIFETIME: Final = Setting(
    path="authority.cache",
    environment="CRAWLCTL_AUTHORITY_CACHE",
    kind=Seconds(most=24 * 3600),
    default=dt.timedelta(seconds=60),
    meaning=(
        "Time for which a process caches the answer of an authority about a user. A change of a connection "
        "clears the cache immediately. With 0, each request asks the authority again."
    ),
    applies=Applies.AT_NEXT_START,
)
LOGIN_DOMAIN: Final = Setting(
    path="authority.login_domain",
    environment="CRAWLCTL_LOGIN_DOMAIN",
    kind=Text(),
    default="",
    meaning=(
        "Domain of users whose login has no @. A search asks the authorities of this domain about these users. "
        "If empty, it asks only authorities without a domain."
    ),
    applies=Applies.IMMEDIATELY,
)
PORT: Final = Setting(
    path="authority.port",
    environment="CRAWLCTL_AUTHORITY_PORT",
    kind=WholeNumber(least=1, most=65_535),
    default=8345,
    meaning="Port of `runauthority`.",
)
KINDS: Final = Setting(
    path="authority.kinds",
    environment="CRAWLCTL_AUTHORITIES",
    kind=Words(),
    default=(),
    meaning="Kinds of authorities and mappers without an entry point, as package.module:OBJECT.",
)
SETTINGS: Final = (CHECKS, CACHE_LIFETIME, LOGIN_DOMAIN, PORT, KINDS)
