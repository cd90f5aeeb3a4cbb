"""
All settings, each with its range, its default and its reason.

The table is used to read the environment, to validate the settings JSON, and to generate the list in docs/operating.md
and the page of settings. A number that operators need not tune is not here: it is a constant beside its only use.
"""

import datetime as dt
from collections.abc import Callable
from typing import Any, Final

from nodes.settings.declaration import Applies, Rule, Setting, Table
from nodes.settings.kinds import Choice, Flag, Seconds, Text, WholeNumber, Words

_A_DAY: Final = 24 * 3600
_DOCUMENTS: Final = "documents"
# More than a worker could hold in memory, and more than is sensible to fetch again after its death.
_MOST_DOCUMENTS: Final = 100_000

# --- The cluster -------------------------------------------------------------------------------

HEARTBEAT_INTERVAL: Final = Setting(
    path="cluster.heartbeat_interval",
    environment="CRAWLCTL_HEARTBEAT_INTERVAL",
    kind=Seconds(least=0.05, most=3600),
    default=dt.timedelta(seconds=2),
    meaning="How often a node says that it is alive.",
    applies=Applies.AT_ONCE,
)
# Five missed beats in a row: one slow garbage collection must not move a thousand documents.
NODE_TIMEOUT: Final = Setting(
    path="cluster.node_timeout",
    environment="CRAWLCTL_NODE_TIMEOUT",
    kind=Seconds(least=0.1, most=_A_DAY),
    default=dt.timedelta(seconds=10),
    meaning="The silence after which a node is failed and its work given away. A node is judged by its own.",
    applies=Applies.AT_NEXT_START,
)
NODE_GIVE_UP: Final = Setting(
    path="cluster.node_give_up",
    environment="CRAWLCTL_NODE_GIVE_UP",
    kind=Seconds(),
    default=dt.timedelta(seconds=300),
    meaning="How long a node tries to reach its database before it exits and leaves the rest to its supervisor.",
    applies=Applies.AT_ONCE,
)

BALANCE: Final = Setting(
    path="cluster.balance",
    environment="CRAWLCTL_BALANCE",
    kind=Choice(words=("SEEDS", "LOAD", "GROUPS")),
    default="SEEDS",
    meaning="What managers have as evenly as can be: running seeds, documents per second of the last five minutes, "
    "or groups of seeds.",
    applies=Applies.AT_ONCE,
)

COORDINATION: Final = Setting(
    path="cluster.coordination",
    environment="CRAWLCTL_COORDINATION",
    kind=Choice(words=("DATABASE", "ZOOKEEPER")),
    default="DATABASE",
    meaning="Where nodes agree on who is there, who may be main and who does what (docs/coordination.md). All of them must say the same.",
)
ZOOKEEPER: Final = Setting(
    path="cluster.zookeeper",
    environment="CRAWLCTL_ZOOKEEPER",
    kind=Text(),
    default="",
    meaning="Where ZooKeeper is, if it is chosen: `host:port,host:port/path`; without a path everything is below `/crawlctl`.",
)
ZOOKEEPER_CREDENTIALS: Final = Setting(
    path="cluster.zookeeper_credentials",
    environment="CRAWLCTL_ZOOKEEPER_CREDENTIALS",
    kind=Text(),
    default="",
    meaning="`user:password` (digest): nobody else can read or write what is kept there then. Empty: anybody who reaches it can.",
)

# --- Workers -----------------------------------------------------------------------------------

CLAIMED: Final = Setting(
    path="worker.claimed",
    environment="CRAWLCTL_CLAIMED_PER_WORKER",
    kind=WholeNumber(least=1, most=_MOST_DOCUMENTS, unit=_DOCUMENTS),
    default=8192,
    meaning="Documents claimed and not yet flushed. The limit bounds memory; "
    "below it, the delays and answer times of hosts decide how many documents a worker claims.",
    applies=Applies.AT_ONCE,
)
OPEN_DOCUMENTS: Final = Setting(
    path="worker.open_documents",
    environment="CRAWLCTL_OPEN_DOCUMENTS_PER_WORKER",
    kind=WholeNumber(least=1, most=_MOST_DOCUMENTS, unit=_DOCUMENTS),
    default=1000,
    meaning="Documents that a worker fetches at the same time, over all hosts. "
    "A worker that may open fewer files than this needs fetches fewer.",
    applies=Applies.AT_ONCE,
)
PROCESSED_AT_ONCE: Final = Setting(
    path="worker.processed_at_once",
    environment="CRAWLCTL_PROCESSED_AT_ONCE",
    kind=WholeNumber(most=_MOST_DOCUMENTS, unit=_DOCUMENTS),
    default=256,
    meaning="Documents that a worker takes at once to read; 0 leaves them to other workers.",
    applies=Applies.AT_ONCE,
)
EXPIRED_AT_ONCE: Final = Setting(
    path="worker.expired_at_once",
    environment="CRAWLCTL_EXPIRED_AT_ONCE",
    kind=WholeNumber(most=_MOST_DOCUMENTS, unit=_DOCUMENTS),
    default=256,
    meaning="Documents that a worker takes at once to expire; 0 leaves them to other workers.",
    applies=Applies.AT_ONCE,
)
CLEANED_AT_ONCE: Final = Setting(
    path="worker.cleaned_at_once",
    environment="CRAWLCTL_CLEANED_AT_ONCE",
    kind=WholeNumber(most=_MOST_DOCUMENTS, unit=_DOCUMENTS),
    default=256,
    meaning="Documents that a worker takes at once to clean; 0 leaves them to other workers.",
    applies=Applies.AT_ONCE,
)
DELETED_AT_ONCE: Final = Setting(
    path="worker.deleted_at_once",
    environment="CRAWLCTL_DELETED_AT_ONCE",
    kind=WholeNumber(most=_MOST_DOCUMENTS, unit=_DOCUMENTS),
    default=256,
    meaning="Documents that a worker takes at once to delete; 0 leaves them to other workers.",
    applies=Applies.AT_ONCE,
)
TELLS_OUTPUTS: Final = Setting(
    path="worker.tells_outputs",
    environment="CRAWLCTL_TELLS_OUTPUTS",
    kind=Flag(),
    default=True,
    meaning="Whether a worker tells outputs of the ends of runs.",
    applies=Applies.AT_NEXT_START,
)
KEEPS_BINS_STRICTLY: Final = Setting(
    path="worker.keeps_bins_strictly",
    environment="CRAWLCTL_KEEPS_BINS_STRICTLY",
    kind=Flag(),
    default=False,
    meaning="Whether a worker leaves the hosts that another one keeps alone even if that one is busy.",
    applies=Applies.AT_ONCE,
)
FLUSH_AFTER: Final = Setting(
    path="worker.flush_after",
    environment="CRAWLCTL_FLUSH_AFTER",
    kind=Seconds(most=60),
    default=dt.timedelta(seconds=0.2),
    meaning="Results wait at most so long before they are written; twice as long where a worker has plenty in hand.",
    applies=Applies.AT_ONCE,
)
DRAIN_TIMEOUT: Final = Setting(
    path="worker.drain_timeout",
    environment="CRAWLCTL_DRAIN_TIMEOUT",
    kind=Seconds(most=_A_DAY),
    default=dt.timedelta(seconds=10),
    meaning="How long a stopping worker waits for the requests that it has sent.",
    applies=Applies.AT_ONCE,
)

# --- The crawl ---------------------------------------------------------------------------------

USER_AGENT: Final = Setting(
    path="crawl.user_agent",
    environment="CRAWLCTL_USER_AGENT",
    kind=Text(most=1000, ascii_only=True),
    default="crawlctl/0.1",
    meaning=(
        "User-Agent of the crawler where neither a connection nor a job has its own. Put a page or an address of "
        "yours into it, so that a site in trouble can reach you."
    ),
    applies=Applies.AT_NEXT_START,
)
ROBOTS_NAME: Final = Setting(
    path="crawl.robots_name",
    environment="CRAWLCTL_ROBOTS_NAME",
    kind=Text(what="one word of letters, digits, - and _, or nothing", matches=r"[A-Za-z0-9_-]*"),
    default="",
    meaning=(
        "Name that rules of robots.txt are read for. If empty, it comes from the User-Agent: its first word, or the "
        "name in “(compatible; Name/1.0)”. A connection or job with its own User-Agent has its own name, too."
    ),
    applies=Applies.AT_NEXT_START,
)
KEEP_HISTORY: Final = Setting(
    path="crawl.keep_history",
    environment="CRAWLCTL_KEEP_HISTORY",
    kind=WholeNumber(most=3_650, unit="days"),
    default=30,
    meaning="Days for which the history is kept; 0 writes none. A hundred bytes and more for each request.",
    applies=Applies.AT_ONCE,
)
KEEP_REMOVED: Final = Setting(
    path="crawl.keep_removed",
    environment="CRAWLCTL_KEEP_REMOVED",
    kind=WholeNumber(most=3_650, unit="days"),
    default=7,
    meaning="Days for which removed documents can be restored, with the text that outputs held; 0 keeps none.",
    applies=Applies.AT_ONCE,
)
CONNECTORS: Final = Setting(
    path="crawl.connectors",
    environment="CRAWLCTL_CONNECTORS",
    kind=Words(),
    default=(),
    meaning="Repository connectors that are not installed as entry points: package.module:OBJECT.",
)
OUTPUTS: Final = Setting(
    path="crawl.outputs",
    environment="CRAWLCTL_OUTPUTS",
    kind=Words(),
    default=(),
    meaning="Outputs that are not installed as entry points, likewise.",
)
DISTRIBUTED_JOBS: Final = Setting(
    path="jobs.distributed",
    environment="CRAWLCTL_DISTRIBUTED_JOBS",
    kind=Words(),
    default=(),
    meaning="Distributed jobs that are not installed as entry points, likewise (docs/distributed-jobs.md).",
)

OUTPUT_ROOT: Final = Setting(
    path="jobs.output_root",
    environment="CRAWLCTL_OUTPUT_ROOT",
    kind=Text(),
    default="",
    meaning="The directory below which output connections of pages and the API may write files. Empty: `CRAWLCTL_VAR`. "
    "`manage.py crawl` may write anywhere.",
)
FILE_ROOTS: Final = Setting(
    path="jobs.file_roots",
    environment="CRAWLCTL_FILE_ROOTS",
    kind=Words(),
    default=(),
    meaning="Directories that file connections of pages and the API may read, and all below them. Empty: none. "
    "`manage.py crawl` may read any.",
)

# --- The web server ----------------------------------------------------------------------------

PORT: Final = Setting(
    path="web.port",
    environment="CRAWLCTL_PORT",
    kind=WholeNumber(least=1, most=65_535),
    default=8000,
    meaning="The first port that the web server tries; a taken one gives the next. `--port N` takes that port or fails.",
)
ADMIN_PASSWORD: Final = Setting(
    path="web.admin_password",
    environment="CRAWLCTL_ADMIN_PASSWORD",
    kind=Text(),
    default="",
    meaning=(
        "The password of the user admin, whom run and demo make at their first start, of 8 characters at least. Without "
        "it, one is generated and shown then. Later starts leave the password alone."
    ),
)
ALLOWED_HOSTS: Final = Setting(
    path="web.allowed_hosts",
    environment="CRAWLCTL_ALLOWED_HOSTS",
    kind=Words(apart_by=" "),
    default=(),
    meaning="Host names under which the pages and the API answer; the loopback names always do.",
)
TRUSTED_ORIGINS: Final = Setting(
    path="web.trusted_origins",
    environment="CRAWLCTL_TRUSTED_ORIGINS",
    kind=Words(apart_by=" "),
    default=(),
    meaning="Origins of pages of ours that a proxy shows under another name.",
)
TLS: Final = Setting(
    path="web.tls",
    environment="CRAWLCTL_TLS",
    kind=Flag(),
    default=False,
    meaning="Behind a TLS proxy: cookies travel only over https, and browsers are told to insist on it.",
)
TOKEN_LIFETIME: Final = Setting(
    path="web.token_lifetime",
    environment="CRAWLCTL_TOKEN_LIFETIME",
    kind=Seconds(least=60),
    default=dt.timedelta(hours=10),
    meaning="How long an API token is good: one that leaks is worth something only for so long.",
)
METRICS_TOKEN: Final = Setting(
    path="web.metrics_token",
    environment="CRAWLCTL_METRICS_TOKEN",
    kind=Text(),
    default="",
    meaning="Who sends it as `Authorization: Bearer …` may read `/metrics` at the web server, as users may who may see "
    "nodes. Empty: only these.",
)
SECRET_KEY: Final = Setting(
    path="web.secret_key",
    environment="CRAWLCTL_SECRET_KEY",
    kind=Text(),
    default="",
    meaning="Signs sessions and tokens; machines that share a database must share it. Empty: one of this machine.",
)

# --- The process -------------------------------------------------------------------------------

DATABASE_URL: Final = Setting(
    path="process.database_url",
    environment="DATABASE_URL",
    kind=Text(),
    default="",
    meaning="The database: any PostgreSQL from 15 on. Empty: an embedded one for this machine.",
)
VAR: Final = Setting(
    path="process.var",
    environment="CRAWLCTL_VAR",
    kind=Text(),
    default="",
    meaning="Where this machine keeps the embedded database and its key. Empty: var, below the program.",
)
FREE_DISK: Final = Setting(
    path="process.free_disk",
    environment="CRAWLCTL_FREE_DISK",
    kind=WholeNumber(most=100_000_000, unit="MiB"),
    default=256,
    meaning="A worker takes no work while a disk that it writes to (data, log, JSON lines) has less room; 0 looks at none.",
    applies=Applies.AT_ONCE,
)
DEBUG: Final = Setting(
    path="process.debug",
    environment="CRAWLCTL_DEBUG",
    kind=Flag(),
    default=False,
    meaning="Pages show what went wrong to anybody. For development only.",
)
METRICS_PORT: Final = Setting(
    path="process.metrics_port",
    environment="CRAWLCTL_METRICS_PORT",
    kind=WholeNumber(most=65_535),
    default=0,
    meaning="The port at which a process shows its metrics to whoever reaches it; 0 shows none (docs/metrics.md).",
)
METRICS_ADDRESS: Final = Setting(
    path="process.metrics_address",
    environment="CRAWLCTL_METRICS_ADDRESS",
    kind=Text(),
    default="127.0.0.1",
    meaning="The address of that port. Nobody is asked who he is there: choose one that only Prometheus reaches.",
)
BACKUP_FILE: Final = Setting(
    path="web.backup_file",
    environment="CRAWLCTL_BACKUP_FILE",
    kind=Text(),
    default="",
    meaning="File whose time of change is the time of the last good backup. A backup script touches it at its end. "
    "`/metrics` of the web server shows its age; empty: it shows none.",
)
LOG_LEVEL: Final = Setting(
    path="process.log_level",
    environment="CRAWLCTL_LOG_LEVEL",
    kind=Choice(words=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")),
    default="INFO",
    meaning="What is logged: events of this level and above.",
)
LOG_JSON: Final = Setting(
    path="process.log_json",
    environment="CRAWLCTL_LOG_JSON",
    kind=Flag(),
    default=False,
    meaning="Log a JSON object a line.",
)


def _two_beats(value: Callable[[Setting[Any]], Any]) -> str:
    beat, timeout = value(HEARTBEAT_INTERVAL), value(NODE_TIMEOUT)
    if timeout >= 2 * beat:
        return ""
    return (
        f"This must be at least two heartbeats, {2 * beat.total_seconds():g} s, and is {timeout.total_seconds():g} s: "
        "one that is late would fail the node."
    )


def _an_address(value: Callable[[Setting[Any]], Any]) -> str:
    if value(COORDINATION) != "ZOOKEEPER" or value(ZOOKEEPER):
        return ""
    return "This must be the address of ZooKeeper, such as host:2181, where CRAWLCTL_COORDINATION is ZOOKEEPER."


def _a_user_and_a_password(value: Callable[[Setting[Any]], Any]) -> str:
    user, colon, _password = value(ZOOKEEPER_CREDENTIALS).partition(":")
    return "" if bool(user) == bool(colon) else "This must be user:password, with a colon in between."


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
        TELLS_OUTPUTS,
        KEEPS_BINS_STRICTLY,
        FLUSH_AFTER,
        DRAIN_TIMEOUT,
        USER_AGENT,
        ROBOTS_NAME,
        KEEP_HISTORY,
        KEEP_REMOVED,
        CONNECTORS,
        OUTPUTS,
        DISTRIBUTED_JOBS,
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
        DATABASE_URL,
        VAR,
        FREE_DISK,
        DEBUG,
        METRICS_PORT,
        METRICS_ADDRESS,
        BACKUP_FILE,
        LOG_LEVEL,
        LOG_JSON,
    ),
    rules=(
        Rule(paths=(NODE_TIMEOUT.path, HEARTBEAT_INTERVAL.path), breach=_two_beats),
        Rule(paths=(ZOOKEEPER.path, COORDINATION.path), breach=_an_address),
        Rule(paths=(ZOOKEEPER_CREDENTIALS.path,), breach=_a_user_and_a_password),
    ),
)
