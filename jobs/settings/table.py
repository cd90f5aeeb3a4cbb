"""
All settings, each with its range, its default and its reason.

The table is used to read the environment, to validate the settings JSON, and to generate the list in docs/settings.md
and the page of settings. A number that operators need not tune is no setting: it is a constant in the module that uses
it.
"""

import datetime as dt
from typing import Final

from jobs.settings import archives, authorities, backups, extraction, kept, logins, partitions, webmasters
from nodes.settings.declaration import Applies, Setting, Table
from nodes.settings.kinds import Choice, Flag, Seconds, Text, WholeNumber, Words
from nodes.settings.node_settings import (
    COORDINATION,
    DATABASE_URL,
    HEARTBEAT_INTERVAL,
    METRICS_ADDRESS,
    METRICS_PORT,
    NODE_GIVE_UP,
    NODE_TIMEOUT,
    POOLED_DATABASE_URL,
    RULES,
    ZOOKEEPER,
    ZOOKEEPER_CREDENTIALS,
)
from nodes.tasks import settings as tasks

_A_DAY: Final = 24 * 3600
_DOCUMENTS: Final = "documents"
# Upper bound: a worker could not hold more documents in memory, and all of them are fetched again if it dies.
_MOST_DOCUMENTS: Final = 100_000

# --- The cluster -------------------------------------------------------------------------------

BALANCE: Final = Setting(
    path="cluster.balance",
    environment="CRAWLCTL_BALANCE",
    kind=Choice(words=("SEEDS", "LOAD", "GROUPS")),
    default="SEEDS",
    meaning="Measure by which groups are balanced over managers: running seeds, documents per second of the last five minutes, or groups.",
    applies=Applies.IMMEDIATELY,
)

# --- Workers -----------------------------------------------------------------------------------

CLAIMED: Final = Setting(
    path="worker.claimed",
    environment="CRAWLCTL_CLAIMED_PER_WORKER",
    kind=WholeNumber(least=1, most=_MOST_DOCUMENTS, unit=_DOCUMENTS),
    default=8192,
    meaning=(
        "Documents that a worker may have claimed and not yet flushed. The limit bounds memory. Below it, delays and response times of "
        "hosts decide."
    ),
    applies=Applies.IMMEDIATELY,
)
OPEN_DOCUMENTS: Final = Setting(
    path="worker.open_documents",
    environment="CRAWLCTL_OPEN_DOCUMENTS_PER_WORKER",
    kind=WholeNumber(least=1, most=_MOST_DOCUMENTS, unit=_DOCUMENTS),
    default=1000,
    meaning="Simultaneous fetches of a worker, over all hosts. A lower system limit of open files reduces this number.",
    applies=Applies.IMMEDIATELY,
)
PROCESSED_AT_ONCE: Final = Setting(
    path="worker.processed_at_once",
    environment="CRAWLCTL_PROCESSED_AT_ONCE",
    kind=WholeNumber(most=_MOST_DOCUMENTS, unit=_DOCUMENTS),
    default=256,
    meaning="Batch size of documents to read. With 0, the worker takes no such documents.",
    applies=Applies.IMMEDIATELY,
)
EXPIRED_AT_ONCE: Final = Setting(
    path="worker.expired_at_once",
    environment="CRAWLCTL_EXPIRED_AT_ONCE",
    kind=WholeNumber(most=_MOST_DOCUMENTS, unit=_DOCUMENTS),
    default=256,
    meaning="Batch size of documents to expire. With 0, the worker takes no such documents.",
    applies=Applies.IMMEDIATELY,
)
CLEANED_AT_ONCE: Final = Setting(
    path="worker.cleaned_at_once",
    environment="CRAWLCTL_CLEANED_AT_ONCE",
    kind=WholeNumber(most=_MOST_DOCUMENTS, unit=_DOCUMENTS),
    default=256,
    meaning="Batch size of documents to clean up. With 0, the worker takes no such documents.",
    applies=Applies.IMMEDIATELY,
)
DELETED_AT_ONCE: Final = Setting(
    path="worker.deleted_at_once",
    environment="CRAWLCTL_DELETED_AT_ONCE",
    kind=WholeNumber(most=_MOST_DOCUMENTS, unit=_DOCUMENTS),
    default=256,
    meaning="Batch size of documents to delete. With 0, the worker takes no such documents.",
    applies=Applies.IMMEDIATELY,
)
NOTIFIES_OUTPUTS: Final = Setting(
    path="worker.tells_outputs",
    environment="CRAWLCTL_TELLS_OUTPUTS",
    kind=Flag(),
    default=True,
    meaning="Switch that lets a worker notify outputs when a run ends.",
    applies=Applies.AT_NEXT_START,
)
KEEPS_HOSTS_STRICTLY: Final = Setting(
    path="worker.keeps_hosts_strictly",
    environment="CRAWLCTL_KEEPS_HOSTS_STRICTLY",
    kind=Flag(),
    default=False,
    meaning="Switch that stops a worker from taking hosts of another worker, even if that worker is busy.",
    applies=Applies.IMMEDIATELY,
)
FLUSH_AFTER: Final = Setting(
    path="worker.flush_after",
    environment="CRAWLCTL_FLUSH_AFTER",
    kind=Seconds(most=60),
    default=dt.timedelta(seconds=0.2),
    meaning="Maximum delay before results are written. The delay doubles while a worker has many claimed documents.",
    applies=Applies.IMMEDIATELY,
)
DRAIN_TIMEOUT: Final = Setting(
    path="worker.drain_timeout",
    environment="CRAWLCTL_DRAIN_TIMEOUT",
    kind=Seconds(most=_A_DAY),
    default=dt.timedelta(seconds=10),
    meaning="Time that a stopping worker waits for its open requests.",
    applies=Applies.IMMEDIATELY,
)

# --- The crawl ---------------------------------------------------------------------------------

USER_AGENT: Final = Setting(
    path="crawl.user_agent",
    environment="CRAWLCTL_USER_AGENT",
    kind=Text(most=1000, ascii_only=True),
    default="crawlctl/0.1",
    meaning=(
        "Default User-Agent of connections and jobs. Include a web page or mail address, so that site owners can contact you."
    ),
    applies=Applies.AT_NEXT_START,
)
ROBOTS_NAME: Final = Setting(
    path="crawl.robots_name",
    environment="CRAWLCTL_ROBOTS_NAME",
    kind=Text(what="empty or one word of letters, digits, - and _", matches=r"[A-Za-z0-9_-]*"),
    default="",
    meaning=(
        "Robot name for the rules of robots.txt. If empty, the User-Agent gives it: its first word, or the name in “(compatible; Name/1.0)”. "
        "A connection or job with its own User-Agent also has its own name."
    ),
    applies=Applies.AT_NEXT_START,
)
KEEP_HISTORY: Final = Setting(
    path="crawl.keep_history",
    environment="CRAWLCTL_KEEP_HISTORY",
    kind=WholeNumber(most=3_650, unit="days"),
    default=30,
    meaning="Retention of the history (at least 100 bytes per request). With 0, no history is written.",
    applies=Applies.IMMEDIATELY,
)
KEEP_REMOVED: Final = Setting(
    path="crawl.keep_removed",
    environment="CRAWLCTL_KEEP_REMOVED",
    kind=WholeNumber(most=3_650, unit="days"),
    default=7,
    meaning="Time in which removed documents can be restored, with the text in their outputs. With 0, nothing can be restored.",
    applies=Applies.IMMEDIATELY,
)
CONNECTORS: Final = Setting(
    path="crawl.connectors",
    environment="CRAWLCTL_CONNECTORS",
    kind=Words(),
    default=(),
    meaning="Repository connectors without an entry point, as package.module:OBJECT.",
)
OUTPUTS: Final = Setting(
    path="crawl.outputs",
    environment="CRAWLCTL_OUTPUTS",
    kind=Words(),
    default=(),
    meaning="Output connectors without an entry point, as package.module:OBJECT.",
)
TRANSFORMATIONS: Final = Setting(
    path="crawl.transformations",
    environment="CRAWLCTL_TRANSFORMATIONS",
    kind=Words(),
    default=(),
    meaning="Kinds of pipeline stages without an entry point, as package.module:OBJECT.",
)
DISTRIBUTED_JOBS: Final = Setting(
    path="jobs.distributed",
    environment="CRAWLCTL_DISTRIBUTED_JOBS",
    kind=Words(),
    default=(),
    meaning="Distributed jobs without an entry point, as package.module:OBJECT (docs/distributed-jobs.md).",
)
OUTPUT_ROOT: Final = Setting(
    path="jobs.output_root",
    environment="CRAWLCTL_OUTPUT_ROOT",
    kind=Text(),
    default="",
    meaning="Directory for files of output connections from pages and the API. If empty, it is `CRAWLCTL_VAR`. `crawlctl crawl` may write anywhere.",
)
FILE_ROOTS: Final = Setting(
    path="jobs.file_roots",
    environment="CRAWLCTL_FILE_ROOTS",
    kind=Words(),
    default=(),
    meaning=(
        "Directories that file and archive connections from pages and the API may read, with their subdirectories. If empty, they may read none. "
        "`crawlctl crawl` may read any."
    ),
)

# --- The web server ----------------------------------------------------------------------------

PORT: Final = Setting(
    path="web.port",
    environment="CRAWLCTL_PORT",
    kind=WholeNumber(least=1, most=65_535),
    default=8000,
    meaning="First port that the web server tries. If it is in use, the server tries the next one. `--port N` uses exactly that port or fails.",
)
ADMIN_PASSWORD: Final = Setting(
    path="web.admin_password",
    environment="CRAWLCTL_ADMIN_PASSWORD",
    kind=Text(),
    default="",
    meaning=(
        "Password of the user admin (at least 8 characters), which `run` and `demo` create at the first start. If empty, they generate and "
        "print one. Later starts keep the password."
    ),
)
ALLOWED_HOSTS: Final = Setting(
    path="web.allowed_hosts",
    environment="CRAWLCTL_ALLOWED_HOSTS",
    kind=Words(apart_by=" "),
    default=(),
    meaning="Host names for the pages and the API. Loopback names are always accepted.",
)
TRUSTED_ORIGINS: Final = Setting(
    path="web.trusted_origins",
    environment="CRAWLCTL_TRUSTED_ORIGINS",
    kind=Words(apart_by=" "),
    default=(),
    meaning="Public origins (scheme://host) of the pages behind a reverse proxy.",
)
TLS: Final = Setting(
    path="web.tls",
    environment="CRAWLCTL_TLS",
    kind=Flag(),
    default=False,
    meaning="Switch for a TLS proxy: cookies are sent only over https, and browsers must use https (HSTS).",
)
TOKEN_LIFETIME: Final = Setting(
    path="web.token_lifetime",
    environment="CRAWLCTL_TOKEN_LIFETIME",
    kind=Seconds(least=60),
    default=dt.timedelta(hours=10),
    meaning="Lifetime of tokens that a login at the API returns (docs/api.md). A shorter lifetime limits the damage of a leaked token.",
)
METRICS_TOKEN: Final = Setting(
    path="web.metrics_token",
    environment="CRAWLCTL_METRICS_TOKEN",
    kind=Text(),
    default="",
    meaning="Bearer token that grants access to `/metrics` of the web server. If empty, only users who may view nodes have access.",
)
SECRET_KEY: Final = Setting(
    path="web.secret_key",
    environment="CRAWLCTL_SECRET_KEY",
    kind=Text(),
    default="",
    meaning=(
        "Key that signs sessions and tokens and encrypts secrets. All machines of one database need the same key. If empty, this machine "
        "generates its own."
    ),
)

# --- The process -------------------------------------------------------------------------------

VAR: Final = Setting(
    path="process.var",
    environment="CRAWLCTL_VAR",
    kind=Text(),
    default="",
    meaning="Directory of the embedded database and the generated key. If empty, it is `var` in a clone, and `~/.local/share/crawlctl` for an installed program.",
)
FREE_DISK: Final = Setting(
    path="process.free_disk",
    environment="CRAWLCTL_FREE_DISK",
    kind=WholeNumber(most=100_000_000, unit="MiB"),
    default=256,
    meaning=(
        "Minimum free space of the disks that a worker writes to (data, log, JSON lines). Below it, the worker takes no work. With 0, "
        "there is no check."
    ),
    applies=Applies.IMMEDIATELY,
)
DEBUG: Final = Setting(
    path="process.debug",
    environment="CRAWLCTL_DEBUG",
    kind=Flag(),
    default=False,
    meaning="Switch that shows tracebacks to every visitor. Development only.",
)
LOG_LEVEL: Final = Setting(
    path="process.log_level",
    environment="CRAWLCTL_LOG_LEVEL",
    kind=Choice(words=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")),
    default="INFO",
    meaning="Minimum level of logged events.",
)
LOG_JSON: Final = Setting(
    path="process.log_json",
    environment="CRAWLCTL_LOG_JSON",
    kind=Flag(),
    default=False,
    meaning="Switch for logs with one JSON object per line.",
)


TABLE: Final = Table(
    settings=(
        HEARTBEAT_INTERVAL,
        NODE_TIMEOUT,
        NODE_GIVE_UP,
        BALANCE,
        COORDINATION,
        ZOOKEEPER,
        ZOOKEEPER_CREDENTIALS,
        CLAIMED,
        OPEN_DOCUMENTS,
        PROCESSED_AT_ONCE,
        EXPIRED_AT_ONCE,
        CLEANED_AT_ONCE,
        DELETED_AT_ONCE,
        NOTIFIES_OUTPUTS,
        KEEPS_HOSTS_STRICTLY,
        FLUSH_AFTER,
        DRAIN_TIMEOUT,
        USER_AGENT,
        ROBOTS_NAME,
        KEEP_HISTORY,
        KEEP_REMOVED,
        *kept.SETTINGS,
        *archives.SETTINGS,
        *extraction.SETTINGS,
        CONNECTORS,
        OUTPUTS,
        TRANSFORMATIONS,
        DISTRIBUTED_JOBS,
        *authorities.SETTINGS,
        *partitions.SETTINGS,
        *tasks.SETTINGS,
        OUTPUT_ROOT,
        FILE_ROOTS,
        PORT,
        ADMIN_PASSWORD,
        ALLOWED_HOSTS,
        TRUSTED_ORIGINS,
        TLS,
        TOKEN_LIFETIME,
        METRICS_TOKEN,
        SECRET_KEY,
        *logins.SETTINGS,
        *webmasters.SETTINGS,
        DATABASE_URL,
        POOLED_DATABASE_URL,
        VAR,
        FREE_DISK,
        DEBUG,
        METRICS_PORT,
        METRICS_ADDRESS,
        *backups.SETTINGS,
        LOG_LEVEL,
        LOG_JSON,
    ),
    rules=(*RULES, *logins.RULES),
)
